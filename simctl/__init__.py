"""simctl for Python: the questions of the command line, with rows as answers.

>>> import simctl
>>> [row] = simctl.run("rings", simctl.machine("hgx_h100:nodes=4"), "1GiB")
>>> round(row["time_s"] * 1e3, 2)
5.42

Sizes are texts like "1GiB", or bytes. `library`, `profile` and `level` are those of the commands.
Functions raise InputError for a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topologies.errors import InputError as InputError
from topologies.errors import nearest_name

if TYPE_CHECKING:
    import pandas as pd

    from experiments.cli.machine_options import MachineOptions
    from experiments.cli.profile_options import ProfileOptions
    from experiments.measurements import Measurements


class Rows(list[Mapping[str, Any]]):
    """The rows of an answer, each with the fields of `--format json`. Units are in the names."""

    def to_frame(self) -> pd.DataFrame:
        """The rows as a pandas table."""
        import pandas as pd

        return pd.DataFrame(list(self))

    def __repr__(self) -> str:
        frame = self.to_frame().dropna(axis=1, how="all")
        return frame.to_string(max_cols=8, max_rows=12, float_format="{:.4g}".format)


def machine(topology: str | None = None, **links: str) -> MachineOptions:
    """A machine, as `--topology` writes it. `links` are the options of links, like `bandwidth`."""
    from experiments.cli.machine_options import MachineOptions

    options: MachineOptions = _checked(MachineOptions, topology=topology, **links)
    _ = options.blueprint
    return options


def run(algorithm: str | None = None, on: Any = None, size: Any = "64MiB", **options: Any) -> Rows:
    """One collective on the machine `on`: the row of `simctl run`. `options` are those of sweep."""
    rows = sweep(algorithm, on, size, **options)
    if len(rows) != 1:
        raise InputError(f"{len(rows)} points: run takes one, simctl.sweep takes several")
    return rows


def sweep(
    algorithms: Any = None,
    on: Any = None,
    size: Any = "64MiB",
    *,
    p: int | str | Iterable[int] | None = None,
    **library: Any,
) -> Rows:
    """Algorithms at numbers of ranks `p` and sizes: the rows of `simctl sweep`."""
    from experiments.cli.values import parse_algorithms, parse_ranks, usual_ranks
    from experiments.simulations import grid

    options = _library(**library)
    where, known = options.of(_machine(on))
    chosen = parse_algorithms(algorithms and _listed(algorithms), usual=options.usual(where))
    ranks = parse_ranks(_listed(p or usual_ranks(where.blueprint, chosen, "8")))
    points = grid.Grid(chosen, ranks, _sizes(size), where.blueprint.build, profile=known)
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
    from experiments.calibration import library_choices
    from experiments.cli.machine_options import library_of
    from experiments.cli.values import parse_rank_count, usual_ranks
    from experiments.simulations.recommendation import Answers, Question
    from simulator.collectives import of_collective

    options = _library(**library)
    where, calibrated = options.of(_machine(on))
    listed, blueprint = of_collective(collective), where.blueprint
    name = listed[0].collective.name
    ranks = parse_rank_count(str(p or usual_ranks(blueprint, listed, "8")))
    known = library_of(options.profile, options.library)
    runs = partial(library_choices.runs, known.on(blueprint)) if known else None
    answers = Answers(Question(name, ranks, blueprint.build, profile=calibrated, runs=runs))
    return Rows(answers.advice(nbytes).record() for nbytes in sorted(_sizes(size)))


def train(model: str, on: Any = None, *, strategy: str = "ddp", **options: Any) -> Rows:
    """Training steps: the rows of `simctl train`. `options` are those of the command."""
    from experiments.execution.executor import Serial
    from experiments.execution.results import results
    from experiments.training.training_grid import TrainingGrid

    library = _library(**{key: options.pop(key, None) for key in ("library", "profile", "level")})
    if elsewhere := {"learn", "plan"} & options.keys():
        raise InputError(f"{elsewhere.pop()}: not in simctl.train, take the command or simctl.plan")
    job = _training(model=model, strategy=strategy, **options)
    request = job.request(_machine(on), profile=library)
    grid = TrainingGrid(request.swept, request.variants or [(None, request.job)], request.ranks)
    return Rows(outcome.record for outcome in results(grid, Serial(), None, lambda _: None))


def plan(model: str, text: str, on: Any = None, **options: Any) -> Rows:
    """A step of parallel training, or with "auto" plans: the rows of `simctl train --plan`."""
    from experiments.cli.machine_options import RuleOptions
    from experiments.cli.plan_parser import is_search, parse_search, parse_training

    library = _library(**{key: options.pop(key, None) for key in ("library", "profile", "level")})
    job = _training(model=model, plan=text, **options)
    parse = parse_search if is_search(text) else parse_training
    return Rows(parse(text, job, _machine(on), RuleOptions(), library).records())


def read(log: str | Path) -> Measurements:
    """The measured curves of a file: nccl-tests, OSU or CSV."""
    from experiments.measurements import read as read_file

    return read_file(Path(log))


def calibrate(*logs: str | Path, out: str | Path, on: str | None = None, **options: Any) -> Path:
    """Fit a profile to measured runs and write it: `simctl calibrate --out`. Returns its file, a
    `profile` for the other functions."""
    from experiments.commands import calibrate as command

    blueprint = machine(on).blueprint if on else None
    command.fitted(command.Request([*map(Path, logs)], blueprint, **options), Path(out))
    return Path(out)


def diagnose(*logs: str | Path, on: str | None = None) -> Rows:
    """What is abnormal in measured curves: the points of `simctl diagnose --format csv`."""
    from experiments.commands import diagnose as command
    from experiments.diagnosis.diagnosis_records import point_records

    request = command.Request([*map(Path, logs)], machine(on).blueprint if on else None)
    _, results, _ = command.diagnosed_logs(request)
    return Rows(record for result in results for record in point_records(result))


def _machine(on: Any) -> MachineOptions:
    """A machine, or the machine of that name. None: the default machine."""
    return machine(on) if on is None or isinstance(on, str) else on


def _library(library: Any = None, profile: Any = None, level: Any = None) -> ProfileOptions:
    from experiments.cli.options import LibraryName
    from experiments.cli.profile_options import ProfileOptions

    if library is not None and library not in [*LibraryName]:
        raise InputError(f"no library {library[:40]!r}: there are {', '.join(LibraryName)}")
    name = None if library is None else LibraryName(library)
    return ProfileOptions(None if profile is None else str(profile), name, level)


def _listed(values: Any) -> str:
    """One value or several, as a command writes them."""
    is_one = isinstance(values, str) or not isinstance(values, Iterable)
    return ",".join(map(str, [values] if is_one else values))


def _sizes(size: Any) -> list[float]:
    from topologies.units import parse_sizes

    several = size if isinstance(size, Iterable) and not isinstance(size, str) else [size]
    return parse_sizes(_listed(each if isinstance(each, str) else f"{each:f}B" for each in several))


def _training(gpus: Any = None, p: Any = None, **options: Any) -> Any:
    from experiments.cli.training_options import TrainingOptions

    ranks = p if gpus is None else gpus
    return _checked(TrainingOptions, **options, p=None if ranks is None else _listed(ranks))


def _checked(kind: Any, **options: Any) -> Any:
    known = [each.name for each in fields(kind)]
    for name in options.keys() - known:
        raise InputError(f"no option {name}: {nearest_name(name, known, ', '.join(known))}")
    return kind(**options)
