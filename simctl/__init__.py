"""simctl for Python: the questions of the command line, with rows as answers.

>>> import simctl
>>> [row] = simctl.run("rings", simctl.machine("hgx_h100:nodes=4"), "1GiB")
>>> round(row["time_s"] * 1e3, 2)
5.42

Sizes are texts like "1GiB", or bytes. Options are those of the commands. Mistakes are InputErrors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topologies.errors import InputError as InputError

if TYPE_CHECKING:
    import pandas as pd

    from experiments.measurements import Measurements
    from experiments.options.machine_options import MachineOptions
    from experiments.options.profile_options import ProfileOptions
    from experiments.options.training_options import TrainingOptions

SHOWN = (
    *("model", "strategy", "plan", "algorithm", "collective", "ranks", "gpus", "size_B"),
    *("time_s", "step_s", "expected_s", "low_s", "high_s", "over_bound", "busbw_Bps", "gain"),
    *("efficiency", "tokens_per_s", "mfu", "fits", "abnormal"),
)
"""The columns of printed rows: what the time is of, the time, and how good it is."""


class Rows(list[Mapping[str, Any]]):
    """The rows of an answer, each with the fields of `--format json`. Units are in the names."""

    def to_frame(self) -> pd.DataFrame:
        """The rows as a pandas table."""
        import pandas as pd

        return pd.DataFrame(list(self))

    def __repr__(self) -> str:
        frame = self.to_frame().filter(SHOWN).dropna(axis=1, how="all")
        return frame.to_string(max_rows=12, float_format="{:.4g}".format)


def machine(topology: Any = None, **links: str) -> MachineOptions:
    """A machine, as `--topology` writes it. `links` are the options of links, like `bandwidth`."""
    from experiments.options.groups import group_of
    from experiments.options.machine_options import MachineOptions

    if isinstance(topology, MachineOptions) and not links:
        return topology
    options = group_of(MachineOptions, topology=topology, **links)
    _ = options.blueprint
    return options


def run(algorithm: str | None = None, on: Any = None, size: Any = "64MiB", **options: Any) -> Rows:
    """One collective on the machine `on`: the row of `simctl run`. `options` are those of sweep."""
    rows = sweep(algorithm, on, size, **options)
    if len(rows) != 1:
        raise InputError(f"{len(rows)} points: run takes one, simctl.sweep takes several")
    return rows


def sweep(
    algorithms: Any = None, on: Any = None, size: Any = "64MiB", *, p: Any = None, **library: Any
) -> Rows:
    """Algorithms at numbers of ranks `p` and sizes: the rows of `simctl sweep`."""
    from experiments.options.values import parse_algorithms, parse_ranks, usual_ranks
    from experiments.simulations import grid
    from topologies.units import parse_sizes

    options = _library(**library)
    where, known = options.of(machine(on))
    named = None if algorithms is None else _listed(algorithms)
    chosen = parse_algorithms(named, usual=options.usual(where))
    ranks = parse_ranks(usual_ranks(where.blueprint, chosen, "8") if p is None else _listed(p))
    points = grid.Grid(
        chosen, ranks, parse_sizes(_listed(size, _size)), where.blueprint.build, profile=known
    )
    return Rows(row.record() for row in grid.sweep(points))


def recommend(
    on: Any = None,
    size: Any = "1KiB..1GiB:x4",
    *,
    collective: str = "all_reduce",
    p: int | None = None,
    **library: Any,
) -> Rows:
    """The best algorithm at each size: the rows of `simctl recommend`."""
    from experiments.options.values import parse_rank_count, usual_ranks
    from experiments.simulations.recommendation import Answers, Question
    from simulator.collectives import of_collective
    from topologies.units import parse_sizes

    options = _library(**library)
    where, calibrated = options.of(machine(on))
    listed, blueprint = of_collective(str(collective)), where.blueprint
    name = listed[0].collective.name
    ranks = parse_rank_count(usual_ranks(blueprint, listed, "8") if p is None else str(p))
    runs = calibrated.runs if calibrated else None
    answers = Answers(Question(name, ranks, blueprint.build, profile=calibrated, runs=runs))
    return Rows(
        answers.advice(nbytes).record() for nbytes in sorted(parse_sizes(_listed(size, _size)))
    )


def train(model: str, on: Any = None, *, strategy: str = "ddp", **options: Any) -> Rows:
    """Training steps: the rows of `simctl train`. `options` are those of the command."""
    if elsewhere := {"learn", "plan"} & options.keys():
        raise InputError(f"{elsewhere.pop()}: not in simctl.train, take the command or simctl.plan")
    job, library = _training(model=model, strategy=strategy, **options)
    return Rows(job.request(machine(on), profile=library).records())


def plan(model: str, text: str, on: Any = None, **options: Any) -> Rows:
    """A step of parallel training, or with "auto" plans: the rows of `simctl train --plan`."""
    from experiments.cli.plan_parser import parse
    from experiments.options.machine_options import RuleOptions

    job, library = _training(model=model, plan=text, **options)
    return Rows(parse(job, machine(on), RuleOptions(), library).records())


def read(log: str | Path) -> Measurements:
    """The measured curves of a file: nccl-tests, OSU or CSV."""
    from experiments.measurements import read as read_file

    return read_file(*_files(log))


def calibrate(*logs: str | Path, out: str | Path, on: Any = None, **options: Any) -> Path:
    """Fit a profile to measured runs: `simctl calibrate --out`. Returns its file, a `profile`."""
    from experiments.commands import calibrate as command
    from experiments.options.groups import group_of

    blueprint, [file] = None if on is None else machine(on).blueprint, _files(out)
    command.fitted(group_of(command.Request, _files(*logs), blueprint, **options), file)
    return file


def diagnose(*logs: str | Path, on: Any = None) -> Rows:
    """What is abnormal in measured curves: the points of `simctl diagnose --format csv`."""
    from experiments.commands import diagnose as command
    from experiments.diagnosis.diagnosis_records import point_records

    request = command.Request(_files(*logs), None if on is None else machine(on).blueprint)
    _, results, _ = command.diagnosed_logs(request)
    return Rows(record for result in results for record in point_records(result))


def _library(**options: Any) -> ProfileOptions:
    from experiments.options.groups import group_of
    from experiments.options.profile_options import ProfileOptions

    return group_of(ProfileOptions, **options)


def _listed(values: Any, text: Callable[[Any], str] = str) -> str:
    """One value or several, as a command writes them."""
    is_one = isinstance(values, str) or not isinstance(values, Iterable)
    return ",".join(map(text, [values] if is_one else values))


def _size(value: Any) -> str:
    if not isinstance(value, str | Real) or isinstance(value, bool):
        raise InputError(f"size {value!r:.80}: write a text like '1GiB', or bytes")
    return value if isinstance(value, str) else f"{float(value):f}B" if value else "0"


def _files(*names: Any) -> list[Path]:
    if not names or not all(isinstance(name, str | PathLike) for name in names):
        raise InputError(f"files {names!r:.80}: write names of files, like 'my.log'")
    return [*map(Path, names)]


def _training(p: Any = None, **options: Any) -> tuple[TrainingOptions, ProfileOptions]:
    from experiments.options.groups import group_of
    from experiments.options.training_options import TrainingOptions

    library = {key: options.pop(key, None) for key in ("library", "profile", "level")}
    gpus, bucket = options.pop("gpus", None), options.pop("bucket", None)
    ranks = p if gpus is None else gpus
    options["p"] = None if ranks is None else _listed(ranks)
    options["bucket"] = None if bucket is None else _size(bucket)
    return group_of(TrainingOptions, **options), _library(**library)
