"""`python -m experiments.benchmarks [NAME...] [OPTION...]`: ratios and medians within a run.

| arguments | what they do |
|---|---|
| speed | time every work that has a goal, in y and beside the goal |
| growth | exponents of time and bytes in ranks and in transfers |
| startup | the imports that cost most |
| cold | the first commands on a machine, and the same with compiled code |
| engine, machines, steps, commands, crossover | time parts of simctl |
| pages | time a page of 100,000 spans in Chromium |
| speed-page | write the page of the committed speed |
| accuracy FOLDER | validate every curve of a folder of measurements |
| training FOLDER | compare predictions of training with measurements |
| plans FOLDER | compare predictions of parallel plans with measured steps |
| calibration FOLDER [FAMILY...] [--out FOLDER] | fit families and predict what was left out |
| profiles FOLDER [NAME...] | make the profiles that ship anew from a folder of curves |
| population FOLDER [--library NAME] [--families F01,F02] [--out FOLDER] | fit the population of \
measured machines, and predict each machine that was left out |
| calibration-page | write the page of the committed results of calibration |
| gloo [FILE.csv] | compare predictions of gloo's operations with a sweep of a lab |
| zero-bubble | bubble rates of pipelines beside Zero Bubble's Tables 5 and 8 |
| plan-search [CASES] | the winners of searches of plans beside those of all plans |
| contention [PLANS [FILE.csv]] | priced steps of random plans beside steps with all transfers |
| optimal [NETWORKS [EVERY]] | compare `optimal` with bounds and algorithms on random networks |

y is the CPU time of a fixed loop of Python in the same run. Without a name: speed, cold, growth,
startup, engine and commands. With --against or --peer and without a name: only those.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from experiments import output
from experiments.benchmarks import cold_start, growth, revisions, speed, speed_page
from experiments.benchmarks.parts import BENCHMARKS
from experiments.benchmarks.speed_rows import ROWS, select
from topologies.errors import InputError

DEFAULT = ("speed", "cold", "growth", "startup", "engine", "commands")


class Parser(ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Raise InputError instead of printing all arguments."""
        raise InputError(f"{message} (--help lists all arguments)")


def parse(arguments: Sequence[str]) -> Namespace:
    """The names and options of benchmarks of speed."""
    parser = Parser(
        prog="python -m experiments.benchmarks",
        description=__doc__,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--long", action="store_true", help="also what takes over a minute")
    parser.add_argument("--list", action="store_true", help="print the names of all rows")
    parser.add_argument("--row", action="append", default=[], help="only rows with this text")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each row [3]")
    parser.add_argument("--out", type=Path, help="folder for the csv file of `speed`")
    parser.add_argument("--against", metavar="REV", help="compare each row with a revision")
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=CMD",
        help="time a shell command with {p} and {size} beside simctl",
    )
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        raise InputError(f"--repeats is {options.repeats}: it is at least 1")
    unknown = [name for name in options.names if name not in known(options)]
    if unknown:
        raise InputError(f"{unknown[0][:80]!r} is no benchmark: {', '.join(known(options))}")
    if not options.names and options.against is None and not options.peer:
        options.names = ["speed"] if options.out else list(DEFAULT)
    if options.out and "speed" not in options.names:
        raise InputError("--out writes the rows of `speed`: name it")
    if options.out and not options.out.is_dir():
        raise InputError(f"--out {str(options.out)!r} is no folder: make it")
    if options.out:
        output.check_writable(options.out / speed_page.ROWS)
    options.peer = dict(map(revisions.parse_peer, options.peer))
    return options


def known(options: Namespace) -> Mapping[str, Callable[[], None]]:
    """The benchmarks by name."""

    def rows() -> None:
        records = speed.measure(select(options.row, options.long), options.repeats)
        output.say(speed.table(records))
        if options.out:
            speed_page.write(options.out, records, growth.measure(options.repeats, options.long))

    return {
        "speed": rows,
        "cold": lambda: output.say(cold_start.table()),
        "growth": lambda: output.say(growth.table(options.repeats, options.long)),
        "startup": lambda: output.say(growth.startup()),
        **BENCHMARKS,
    }


def main(arguments: Sequence[str]) -> None:
    """Run what the arguments say."""
    if _compares(arguments):
        return
    options = parse(arguments)
    if options.list:
        output.say("\n".join(row.work for row in ROWS))
        return
    if options.against is not None:
        chosen = select(options.row, options.long)
        output.say(revisions.against(options.against, chosen, options.repeats))
    if options.peer:
        output.say(output.align(revisions.peer_rows(options.peer, options.repeats)))
    for k, name in enumerate(options.names):
        output.say("\n" * (k > 0) + f"{name}:\n")
        known(options)[name]()


def _compares(arguments: Sequence[str]) -> bool:
    """Run what compares with measurements or writes a page, if that is what the arguments say."""
    name, rest = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    if len(rest) == 1 and name in ("accuracy", "training", "plans"):
        file = {"plans": "plan_accuracy", "training": "training_runs"}.get(name, name)
        output.say(import_module(f"experiments.benchmarks.{file}").table(Path(rest[0])))
    elif name == "calibration" and rest:
        folder, *families = rest
        out = Path(families.pop()) if families[-2:-1] == ["--out"] else None
        families = [family for family in families if family != "--out"]
        module = import_module("experiments.benchmarks.calibration")
        output.say(module.table(Path(folder), families, out))
    elif name == "profiles" and rest:
        import_module("experiments.benchmarks.shipped_profiles").make(Path(rest[0]), rest[1:])
    elif name == "population" and rest:
        module = import_module("experiments.benchmarks.left_out_machines")
        output.say(module.table(*module.parse(rest)))
    elif name in ("calibration-page", "speed-page") and not rest:
        module = import_module(f"experiments.benchmarks.{name.replace('-', '_')}")
        output.write(module.PAGE, module.page())
        if name == "calibration-page":
            output.write(module.ACCURACY, module.accuracy())
    elif name == "gloo" and len(rest) <= 1:
        module = import_module("experiments.benchmarks.gloo_lab")
        output.say(module.table(Path(rest[0]) if rest else module.COMMITTED))
    elif name == "pages" and not rest:
        output.say(import_module("experiments.benchmarks.page_speed").table())
    elif name == "zero-bubble" and not rest:
        output.say(import_module("experiments.benchmarks.bubble_rates").table())
    elif name == "plan-search" and len(rest) <= 1:
        output.say(import_module("experiments.benchmarks.plan_winners").table(rest))
    elif name == "contention":
        output.say(import_module("experiments.benchmarks.plan_contention").table(rest))
    elif name == "optimal":
        output.say(import_module("experiments.benchmarks.packed_trees").table(rest))
    else:
        return False
    return True


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InputError as error:
        sys.stderr.write(f"benchmarks: {error}\n")
        sys.exit(2)
