"""simctl for Python: the questions of the command line, with rows as answers.

>>> import simctl
>>> [row] = simctl.run("rings", simctl.machine("hgx_h100:nodes=4"), "1GiB")
>>> round(row["time_s"] * 1e3, 2)
5.42

Sizes are texts like "1GiB", or bytes. Options are those of the commands. Mistakes are InputErrors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topologies.errors import InputError as InputError

if TYPE_CHECKING:
    import pandas as pd

    from experiments.measurements import Measurements
    from experiments.options.machine_options import MachineOptions

SHOWN = (
    *("model", "strategy", "plan", "algorithm", "collective", "ranks", "gpus", "size_B"),
    *("time_s", "step_s", "expected_s", "low_s", "high_s", "over_bound", "busbw_Bps", "gain"),
    *("efficiency", "ttft_s", "tpot_s", "tokens_per_s", "mfu", "fits", "abnormal"),
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
    from experiments.options.machine_options import MachineOptions
    from experiments.options.options import group_of

    if isinstance(topology, MachineOptions) and not links:
        return topology
    options = group_of(MachineOptions, topology=topology, **links)
    _ = options.blueprint
    return options


def run(algorithm: str | None = None, on: Any = None, size: Any = "64MiB", **options: Any) -> Rows:
    """One collective on the machine `on`: the row of `simctl run`."""
    return _rows("run", on, algo=algorithm, size=_listed(size, _size), **options)


def sweep(
    algorithms: Any = None, on: Any = None, size: Any = "64MiB", *, p: Any = None, **options: Any
) -> Rows:
    """Algorithms at numbers of ranks `p` and sizes: the rows of `simctl sweep`."""
    names, sizes = _optional(algorithms), _listed(size, _size)
    return _rows("sweep", on, algo=names, size=sizes, p=_optional(p), **options)


def recommend(on: Any = None, size: Any = "1KiB..1GiB:x4", **options: Any) -> Rows:
    """The best algorithm at each size: the rows of `simctl recommend`."""
    return _rows("recommend", on, size=_listed(size, _size), **options)


def train(model: str, on: Any = None, *, strategy: str = "ddp", **options: Any) -> Rows:
    """Training steps: the rows of `simctl train`. `options` are those of the command."""
    return _rows("train", on, model=model, strategy=strategy, **_counts(**options))


def plan(model: str, text: str, on: Any = None, **options: Any) -> Rows:
    """A step of parallel training, or with "auto" plans: the rows of `simctl plan`."""
    return _rows("plan", on, model=model, plan=text, **_counts(**options))


def read(log: str | Path) -> Measurements:
    """The measured curves of a file: nccl-tests, OSU or CSV."""
    from experiments.measurements import read as read_file

    return read_file(*_files(log))


def calibrate(*logs: str | Path, out: str | Path, on: Any = None, **options: Any) -> Path:
    """Fit a profile to measured runs: `simctl calibrate --out`. Returns its file, a `profile`."""
    from experiments.commands.calibrate import Calibrate
    from experiments.options.options import group_of

    [file], topology = _files(out), None if on is None else machine(on).topology
    files = {"files": _files(*logs), "out": file, "topology": topology}
    group_of(Calibrate, **files, **options).fitted()
    return file


def diagnose(*logs: str | Path, on: Any = None, **options: Any) -> Rows:
    """What is abnormal in measured curves, or in one number (`size`, `busbw`): the points of
    `simctl diagnose --format csv`."""
    files = _files(*logs) if logs or "busbw" not in options else None
    return _rows("diagnose", on, logs=files, **options)


def expect(on: Any, collective: str = "all_reduce", **options: Any) -> Rows:
    """What a library should give on a machine, by size: the rows of `simctl expect`. `level` is the
    share of runs that an interval holds."""
    if "size" in options:
        options["size"] = _listed(options["size"], _size)
    return _rows("expect", on, collective=collective, **options)


def serve(model: str, on: Any, plan: str = "tp=1", **options: Any) -> Rows:
    """How fast an engine serves a model: the rows of `simctl serve`."""
    return _rows("serve", on, model=model, plan=plan, **options)


def _rows(command: str, on: Any, **options: Any) -> Rows:
    """The rows of a command on a machine, without other answers, files and processes."""
    others = "groups", "chakra", "job", "learn", "jobs", "resume"
    written = "out", "plot", "report", "timeline", "format", "wide", "metric", "ranks"
    for name in (*others, *written):
        if name in options:
            raise InputError(f"{name}: only the command has this option")
    from experiments.cli.command_classes import class_of
    from experiments.options.machine_options import MachineOptions
    from experiments.options.options import group_of

    links = machine(on).values_of(MachineOptions)
    return Rows(replace(group_of(class_of(command), **options), **links).records())


def _optional(values: Any) -> str | None:
    return None if values is None else _listed(values)


def _listed(values: Any, text: Callable[[Any], str] = str) -> str:
    """One value or several, as a command writes them."""
    is_one = isinstance(values, str) or not isinstance(values, Iterable)
    return ",".join(map(text, [values] if is_one else values))


def _size(value: Any) -> str:
    if not isinstance(value, str | Real) or isinstance(value, bool):
        raise InputError(f"size {value!r:.80}: write a text like '1GiB', or bytes")
    try:
        return value if isinstance(value, str) else f"{float(value):f}B" if value else "0"
    except OverflowError:
        raise InputError(f"size {value!r:.40}...: at most 1e300 bytes") from None


def _files(*names: Any) -> list[Path]:
    if not names or not all(isinstance(name, str | PathLike) for name in names):
        raise InputError(f"files {names!r:.80}: write names of files, like 'my.log'")
    return [*map(Path, names)]


def _counts(p: Any = None, gpus: Any = None, bucket: Any = None, **options: Any) -> dict[str, Any]:
    """Options with numbers of workers and a size as texts."""
    if p is not None and gpus is not None:
        raise InputError(f"p {p!r:.40} and gpus {gpus!r:.40}: leave one of them out")
    ranks = _optional(p if gpus is None else gpus)
    return {**options, "p": ranks, "bucket": None if bucket is None else _size(bucket)}
