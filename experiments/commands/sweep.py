"""`simctl sweep`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from time import monotonic

from experiments import output
from experiments.commands.sweep_table import columns, explanation
from experiments.simulations import workload
from experiments.simulations.machine import Machine, ignored
from experiments.simulations.sweep import Missing, Row, sweep
from experiments.streaming import Csv, Say, Table
from simulator.collectives import Algorithm, find
from simulator.profile import Profile
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.units import parse_counts, parse_sizes

FIGURES = (".png", ".svg", ".pdf")
MOST_RANKS = 131_072
USUAL_RANKS = "2..64"
NAMED = 8
"""Reasons that are named why points have no row, and numbers of ranks of each."""


def run(
    algo: str,
    p: str | None,
    size: str,
    machine: Machine,
    engine: str,
    out: Path | None,
    plot: Path | None,
    metric: str,
    how: str,
    profile: Profile | None = None,
    wide: bool = False,
) -> int:
    """Print the sweep, row by row; 1 if a check failed, else 2 if points were asked for that cannot
    be simulated."""
    algorithms, rules = parse_algorithms(algo), machine.rules(engine)
    p = _usual_ranks(machine.blueprint, algorithms) if p is None else p
    ranks, sizes = parse_ranks(p), parse_sizes(size)
    _check_paths(out, plot)
    work = workload.work(algorithms, ranks, len(sizes) * (len(profile.protocols) if profile else 1))
    _announce(sum(work), output.counted(len(work) * len(sizes), "point"), p)
    progress = output.Progress("numbers of ranks simulated")
    say = _say(progress, kept=bool(out or plot))
    shown = columns(algorithms, ranks, sizes, profiled=profile is not None, wide=wide)
    show = _shown(how, Table(shown, say), Csv(say))
    missing: list[Missing] = []
    rows: list[Row] = []
    for row in sweep(
        algorithms,
        ranks,
        sizes,
        machine.blueprint.build,
        rules,
        _timed(progress, work),
        missing.append,
        profile,
    ):
        rows.append(row)
        show(row)
    if not rows:
        raise InputError(str(missing[0]))
    for algorithm in algorithms:
        for line in ignored(
            profile,
            [algorithm],
            dict.fromkeys(row.ranks for row in rows if row.algorithm == algorithm.name),
        ):
            output.note(line)
    if out:
        parameters: dict[str, output.Value] = {
            "algo": algo,
            "p": p,
            "size": size,
            "engine": engine,
            "proof_seed": 0,
        }
        parameters |= {"profile": profile.name} if profile else {}
        made = output.provenance(**machine.parameters, **parameters)
        output.write_table(out, [row.record() for row in rows], made)
    if plot:
        from experiments.pictures.sweep_curves import sweep_figure

        output.write(plot, sweep_figure(rows, metric, plot.suffix[1:]))
    if how == "json":
        output.say(output.to_json([row.record() for row in rows]))
    elif how == "table":
        say(f"\n{explanation(rows, wide=wide)}")
    return _verdict(rows, missing)


def _shown(how: str, table: Table[Row], records: Csv) -> Callable[[Row], None]:
    """What prints a row as soon as it is there: json is printed at the end."""
    if how == "json":
        return lambda row: None
    return table if how == "table" else lambda row: records(row.record())


def _usual_ranks(machine: Blueprint, algorithms: Sequence[Algorithm]) -> str:
    """All ranks of a machine of known size, where the servers of a shape are devices like the
    others."""
    if machine.size is None:
        return USUAL_RANKS
    servers = min(algorithm.servers for algorithm in algorithms) if machine.kind == "shape" else 0
    return str(machine.size - servers)


def _check_paths(out: Path | None, plot: Path | None) -> None:
    output.check_writable(out)
    output.check_writable(out and output.meta_of(out))
    output.check_writable(plot, FIGURES)
    if out and plot and out.resolve() == plot.resolve():
        raise InputError(f"--out and --plot are both {str(out)!r}: name two files")


def _announce(operations: float, points: str, p: str) -> None:
    """Refuse what would take days, and say of what takes minutes how long."""
    workload.check(operations, points, p)
    if operations > workload.MANY:
        least = workload.duration(operations * workload.SECONDS)
        output.note(
            f"{points} with about {workload.in_words(operations)} operations: this takes {least} "
            f"or more"
        )


def _say(progress: output.Progress, kept: bool) -> Say:
    """Print a row, in place of the progress on a terminal. Where nobody reads on, files that are
    `kept` still count."""

    def say(text: str) -> None:
        progress.clear()
        if kept:
            output.is_read(text)
        else:
            output.say(text)

    return say


def _timed(progress: output.Progress, work: Sequence[float]) -> Callable[[int, int], None]:
    """Progress with the time left, as the work that is done tells it."""
    start, spent = monotonic(), list(accumulate(work, initial=0.0))

    def tell(done: int, total: int) -> None:
        share = spent[done] / spent[-1]
        left = (
            f", {workload.duration((monotonic() - start) * (1 / share - 1))} left" if share else ""
        )
        progress(done, total, left)

    return tell


def _verdict(rows: Sequence[Row], missing: Sequence[Missing]) -> int:
    """The exit code, explained on stderr."""
    wrong = [point for point in missing if point.wrong]
    _name("skipped", [point for point in missing if not point.wrong])
    _name("failed", wrong)
    failed = sum(row.verdict.failed for row in rows)
    if failed:
        share = f"{failed} of {output.counted(len(rows), 'point')}"
        output.note(f"{share} failed a check: this is a bug in simctl, please report it")
    return 1 if failed else 2 if wrong else 0


def _name(what: str, points: Sequence[Missing]) -> None:
    reasons: dict[tuple[str, str], list[int]] = {}
    for point in points:
        reasons.setdefault((point.algorithm, point.why), []).append(point.ranks)
    for (algorithm, why), ranks in list(reasons.items())[:NAMED]:
        some = ", ".join(map(str, dict.fromkeys(ranks[:NAMED]))) + (
            ", ..." if len(ranks) > NAMED else ""
        )
        output.note(f"{what} {algorithm}, {some} ranks: {why}")
    if len(reasons) > NAMED:
        output.note(f"{what} {output.counted(len(points), 'point')} in all")


def parse_algorithms(text: str) -> list[Algorithm]:
    """Algorithms by name, comma-separated."""
    return [find(name.strip()) for name in dict.fromkeys(text.split(","))]


def parse_ranks(text: str) -> list[int]:
    """Numbers of ranks, each at least 2."""
    ranks = parse_counts(text)
    if min(ranks) < 2:
        raise InputError(f"--p {text}: ranks must be at least 2, got {min(ranks)}")
    if max(ranks) > MOST_RANKS:
        raise InputError(f"--p {text}: at most {MOST_RANKS} ranks, got {max(ranks)}")
    return ranks
