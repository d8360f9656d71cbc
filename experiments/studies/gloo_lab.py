"""Operations of gloo in a lab, predicted and measured.

On links of known rate and delay one number is fitted: the software that a message meets on its way.
Predictions are compared only with rows that were not fitted: more ranks, or sizes in between.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from scipy.optimize import minimize_scalar

from experiments.spellings import GLOO_LAB
from experiments.studies.measured_rows import aligned, grouped
from simulator.collectives import find
from simulator.collectives.gloo import gloo_ring_all_reduce, gloo_ring_reduce, segments
from simulator.engines import Sharing, simulate
from simulator.schedules.rendezvous import rendezvous
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.errors import InputError
from topologies.shapes import star
from topologies.topology import Topology
from topologies.units import format_bytes, format_seconds

COMMITTED = Path("examples/lab/gloo.csv")
PAYLOAD = 1448 / 1514
"""The share of an Ethernet frame of 1500 bytes that TCP carries as data."""
QUIET = 0.05
"""Rows with a coefficient of variation (standard deviation over mean) above this are ignored."""
MOST_RANKS = 64


class LabRow(NamedTuple):
    """A measured operation."""

    collective: str
    algorithm: str
    """The algorithm over isend and irecv, "" for gloo's own operation."""
    ranks: int
    nbytes: float
    rate: float
    """Bits per second of a link."""
    delay: float
    """Seconds of a link, one way."""
    measured: float
    """Median seconds."""
    variation: float
    """The coefficient of variation of the times."""

    @property
    def operation(self) -> str:
        """The name of the algorithm or of gloo's operation."""
        return self.algorithm or self.collective


WITHOUT: dict[str, dict[str, Any]] = {
    "all rules": {},
    "signals for nothing": {"signals": False},
    "two segments a chunk": {"segmented": False},
    "one flow after the other": {"sharing": "fifo"},
    "no headers": {"headers": False},
}
"""All rules, and all rules but one, as options of :func:`predict`."""


@lru_cache(maxsize=64)
def lab(
    ranks: int, rate: float, delay: float, software: float, payload: float = PAYLOAD
) -> Topology:
    """A switch with links of `rate` bit/s.

    A message from rank to rank takes `delay` and `software` seconds besides its bytes.
    """
    return star(ranks, bandwidth=rate / 8 * payload, latency=(delay + software) / 2)


def read(path: Path) -> list[LabRow]:
    """The rows of a sweep, in our columns or in those of the first lab (p, median_s).

    Raises InputError if the file is no such sweep.
    """
    try:
        lines = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
        return [_row(line) for line in lines]
    except KeyError as error:
        raise InputError(
            f"{path}: no column {error}: a lab's sweep has collective, ranks, size_bytes, time_us, "
            "cv, rate_bps, delay_s"
        ) from None
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise InputError(f"{path} is no sweep of a lab: {error}") from None


def _row(line: dict[str, str]) -> LabRow:
    name, old = line["collective"], "median_s" in line
    algorithm = GLOO_LAB.get(name, "") if old else line.get("algorithm", "")
    row = LabRow(
        collective="all_reduce" if algorithm else name,
        algorithm=algorithm and find(algorithm).name,
        ranks=int(line["p" if old else "ranks"]),
        nbytes=float(line["size_bytes"]),
        rate=float(line["rate_bps"]),
        delay=float(line["delay_s"]),
        measured=float(line["median_s"]) if old else float(line["time_us"]) * 1e-6,
        variation=float(line["cv"]),
    )
    numbers = row[2:]
    if not (
        2 <= row.ranks <= MOST_RANKS
        and min(numbers) >= 0
        and all(numbers[:3])
        and np.all(np.isfinite(numbers))
    ):
        raise ValueError(f"{dict(line)} has a number that none can be; ranks are 2 to {MOST_RANKS}")
    return row


def quiet(rows: Iterable[LabRow]) -> list[LabRow]:
    """The rows with little variation, of operations that have a schedule."""
    known = RINGS.keys() | OPERATIONS.keys()
    return [
        row for row in rows if row.variation < QUIET and (row.algorithm or row.collective in known)
    ]


def _straight(back: bool) -> Callable[[int, float], Schedule]:
    def build(ranks: int, nbytes: float) -> Schedule:
        message = ScheduleBuilder(ranks, nbytes)
        message.copy(0, 1, slot=0)
        if back:
            message.copy(1, 0, slot=0)
        return rendezvous(message.build())

    return build


RINGS: dict[str, Callable[..., Schedule]] = {
    "all_reduce": gloo_ring_all_reduce,
    "reduce_scatter": gloo_ring_all_reduce,
    "reduce": gloo_ring_reduce,
}
"""Gloo's operations in segments."""
OPERATIONS: dict[str, Callable[[int, float], Schedule]] = {
    **{
        name: find(f"gloo_{name}").build
        for name in ("all_gather", "broadcast", "scatter", "gather", "all_to_all", "send_recv")
    },
    "sendrecv": _straight(back=False),
    "pingpong": _straight(back=True),
}
"""Gloo's other operations. The older sweeps also have a message from rank 0 to rank 1, and a
message with its answer."""


@cache
def schedule(
    collective: str, algorithm: str, ranks: int, nbytes: float, signals: bool, segmented: bool
) -> Schedule:
    """The schedule of gloo's operation, or of a program over isend and irecv."""
    if algorithm:
        built = rendezvous(find(algorithm).build(ranks, nbytes))
    elif collective in RINGS:
        options = {"segments": segments(ranks, nbytes)} if segmented else {}
        built = RINGS[collective](ranks, nbytes, **options)
    else:
        built = OPERATIONS[collective](ranks, nbytes)
    if signals:
        return built
    return replace(built, rank=np.where(built.source < 0, built.peer, built.rank))


def predict(
    row: LabRow,
    software: float,
    *,
    sharing: Sharing = "fair",
    signals: bool = True,
    segmented: bool = True,
    headers: bool = True,
) -> float:
    """Seconds of an operation, with `software` seconds for every message. The options say how flows
    share a link, whether signals that a receiver is ready take time, whether segments have at most
    1 MiB, and whether frames have headers."""
    operation = row.collective, row.algorithm, row.ranks, row.nbytes
    machine = lab(row.ranks, row.rate, row.delay, software, PAYLOAD if headers else 1.0)
    return simulate(schedule(*operation, signals, segmented), machine, sharing=sharing).makespan


def fit_software(errors: Callable[[float], Sequence[float]]) -> float:
    """Seconds of software for a message, by least squares of the relative `errors`."""
    result = minimize_scalar(
        lambda software: float(np.square(errors(software)).sum()),
        bounds=(0.0, 1e-3),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(result.x)


def errors(rows: Iterable[LabRow], software: float, **rules: Any) -> list[float]:
    """Predicted over measured time - 1, for each row."""
    return [predict(row, software, **rules) / row.measured - 1 for row in rows]


def by_ranks(rows: Sequence[LabRow]) -> list[bool]:
    """Whether each row is fitted if the largest number of ranks is held out.

    All rows are fitted if there is only one number of ranks.
    """
    counts = {row.ranks for row in rows}
    return [len(counts) == 1 or row.ranks < max(counts) for row in rows]


def by_sizes(rows: Sequence[LabRow]) -> list[bool]:
    """Whether each row is fitted if every second size is held out.

    Sizes are rounded to powers of two, since those of three ranks are a little lower.
    """
    sizes = sorted({round(np.log2(row.nbytes)) for row in rows})
    return [sizes.index(round(np.log2(row.nbytes))) % 2 == 0 for row in rows]


def held_out(
    rows: Sequence[LabRow], fitted: Sequence[bool], **rules: Any
) -> tuple[float, list[LabRow], list[float]]:
    """Seconds of software from the fitted rows, and the held-out rows with their errors."""
    training = [row for row, mark in zip(rows, fitted, strict=True) if mark]
    unseen = [row for row, mark in zip(rows, fitted, strict=True) if not mark]
    software = fit_software(lambda seconds: errors(training, seconds, **rules))
    return software, unseen, errors(unseen, software, **rules)


def main(path: Annotated[Path, typer.Argument(help="A sweep.")] = COMMITTED) -> str:
    """Held-out errors of gloo's operations and of programs over isend and irecv.

    Each table has a line without each of the rules.
    """
    rows = read(path)
    judged = quiet(rows)
    loud = sum(row.variation >= QUIET for row in rows)
    parts = [
        f"{path.name}: {len(rows)} rows, {len(judged)} judged; {loud} vary by {QUIET:.0%} or "
        f"more, of "
        f"{len(rows) - loud - len(judged)} there is no schedule"
    ]
    for title, by_program in (("gloo's own operations", False), ("over isend and irecv", True)):
        group = [row for row in judged if bool(row.algorithm) == by_program]
        if group:
            parts += [aligned(_rule_errors(title, group)), aligned(_operations(group))]
    return "\n\n".join(parts)


def _rule_errors(title: str, rows: Sequence[LabRow]) -> dict[str, list[str]]:
    """Columns of the errors with all rules and without each of them: software seconds and the
    spread of the held-out errors, with the largest number of ranks held out and with every second
    size held out."""
    columns = {title: [*WITHOUT]}
    for name, fitted in (
        (f"p = {max(row.ranks for row in rows)} unseen", by_ranks(rows)),
        ("every second size unseen", by_sizes(rows)),
    ):
        results = [held_out(rows, fitted, **rules) for rules in WITHOUT.values()]
        columns[f"software, {name}"] = [format_seconds(round(each[0], 6)) for each in results]
        columns[name] = [_spread(unseen) for _, _, unseen in results]
    return columns


def _operations(rows: Sequence[LabRow]) -> dict[str, list[str]]:
    """Columns of the errors of each operation, with the software seconds fitted to fewer ranks."""
    software = held_out(rows, by_ranks(rows))[0]
    groups = grouped(rows, lambda row: row.operation)
    off = [np.array(errors(group, software)) for group in groups.values()]
    places = [int(np.abs(each).argmax()) for each in off]
    worst = [group[place] for group, place in zip(groups.values(), places, strict=True)]
    return {
        "operation": [*groups],
        "rows": [str(len(group)) for group in groups.values()],
        "error": [f"{np.median(np.abs(each)):.1%}" for each in off],
        "bias": [f"{np.median(each):+.1%}" for each in off],
        "worst": [f"{each[place]:+.1%}" for each, place in zip(off, places, strict=True)],
        "ranks": [str(row.ranks) for row in worst],
        "size": [format_bytes(row.nbytes) for row in worst],
        "rate": [f"{row.rate / 1e6:g}Mbit/s" for row in worst],
        "delay": [format_seconds(row.delay) for row in worst],
    }


def _spread(off: Sequence[float]) -> str:
    if not off:
        return "none"
    size = np.abs(off)
    return f"{np.median(size):.1%}, mean {size.mean():.1%}, worst {size.max():.1%}"
