"""Operations of gloo in a lab, predicted and measured.

On links of known rate and delay one number is fitted: the software that a message meets on its way.
Predictions are compared only with rows that were not fitted: more ranks, or sizes in between.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from scipy.optimize import minimize_scalar

from experiments.shipped_tables import rows_of
from experiments.spellings import GLOO_LAB
from experiments.studies.measured_rows import formatted
from simulator.collectives import find
from simulator.collectives.gloo import gloo_ring_all_reduce, gloo_ring_reduce, segments
from simulator.engines import simulate
from simulator.schedules.rendezvous import rendezvous
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.errors import InputError
from topologies.shapes import star
from topologies.topology import Topology
from topologies.units import format_seconds

COMMITTED = Path("examples/lab/gloo.csv")
PAYLOAD = 1448 / 1514
"""The share of an Ethernet frame of 1500 bytes that TCP carries as data."""
QUIET = 0.05
"""Rows with a coefficient of variation (standard deviation over mean) above this are ignored."""
MOST_RANKS = 64


NUMBERS = {
    "ranks": ("ranks", "p"),
    "nbytes": ("size_bytes", "size_bytes"),
    "rate": ("rate_bps", "rate_bps"),
    "delay": ("delay_s", "delay_s"),
    "measured": ("time_us", "median_s"),
    "variation": ("cv", "cv"),
}
"""The columns of numbers: their names here, in our sweeps, and in those of the first lab. Links
have a `rate` in bits/s and a one-way `delay`; `measured` are median seconds, `variation` the
coefficient of variation."""


@lru_cache(maxsize=64)
def lab(ranks: int, rate: float, delay: float, software: float) -> Topology:
    """A switch with links of `rate` bit/s.

    A message from rank to rank takes `delay` and `software` seconds besides its bytes.
    """
    return star(ranks, bandwidth=rate / 8 * PAYLOAD, latency=(delay + software) / 2)


def read(path: Path) -> pd.DataFrame:
    """The rows of a sweep, with :data:`NUMBERS`, the `collective`, the `algorithm` over isend and
    irecv, "" for gloo's own operation, and the name of one or the other as `operation`.

    Raises InputError if the file is no such sweep.
    """
    try:
        table = pd.DataFrame(rows_of(path))
        old = "median_s" in table
        rows = pd.DataFrame({name: table[each[old]] for name, each in NUMBERS.items()})
        rows = rows.astype(float)
        above = rows["ranks"].between(2, MOST_RANKS) & (rows[["nbytes", "rate"]] > 0).all(axis=1)
        sound = above & ((rows >= 0) & np.isfinite(rows)).all(axis=1)
        if not sound.all():
            wrong = table[~sound].iloc[0].to_dict()
            raise ValueError(f"{wrong} has a number that none can be; ranks are 2 to {MOST_RANKS}")
        rows = rows.astype({"ranks": int}).assign(collective=table["collective"], algorithm="")
        if old:
            rows["algorithm"] = table["collective"].map(GLOO_LAB).fillna("")
        elif "algorithm" in table:
            rows["algorithm"] = [name and find(name).name for name in table["algorithm"]]
    except KeyError as error:
        raise InputError(
            f"{path}: no column {error}: a lab's sweep has collective, ranks, size_bytes, time_us, "
            "cv, rate_bps, delay_s"
        ) from None
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise InputError(f"{path} is no sweep of a lab: {error}") from None
    programs = rows["algorithm"] != ""
    return rows.assign(
        measured=rows["measured"] * (1.0 if old else 1e-6),
        collective=rows["collective"].mask(programs, "all_reduce"),
        operation=rows["algorithm"].where(programs, rows["collective"]),
    )


def quiet(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with little variation, of operations that have a schedule."""
    known = rows["collective"].isin([*RINGS, *OPERATIONS]) | (rows["algorithm"] != "")
    return rows[(rows["variation"] < QUIET) & known]


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
def schedule(collective: str, algorithm: str, ranks: int, nbytes: float) -> Schedule:
    """The schedule of gloo's operation, or of a program over isend and irecv."""
    if algorithm:
        return rendezvous(find(algorithm).build(ranks, nbytes))
    if collective in RINGS:
        return RINGS[collective](ranks, nbytes, segments=segments(ranks, nbytes))
    return OPERATIONS[collective](ranks, nbytes)


def predict(row: Any, software: float) -> float:
    """Seconds of an operation, with `software` seconds for every message."""
    operation = schedule(row.collective, row.algorithm, row.ranks, row.nbytes)
    machine = lab(row.ranks, row.rate, row.delay, software)
    return simulate(operation, machine, sharing="fair").makespan


def fit_software(errors: Callable[[float], pd.Series[float]]) -> float:
    """Seconds of software for a message, by least squares of the relative `errors`."""
    result = minimize_scalar(
        lambda software: float(np.square(errors(software)).sum()),
        bounds=(0.0, 1e-3),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(result.x)


def errors(rows: pd.DataFrame, software: float) -> pd.Series[float]:
    """Predicted over measured time - 1, for each row."""
    seconds = [predict(row, software) for row in rows.itertuples()]
    return seconds / rows["measured"] - 1


def by_ranks(rows: pd.DataFrame) -> pd.Series[bool]:
    """Whether each row is fitted if the largest number of ranks is held out.

    All rows are fitted if there is only one number of ranks.
    """
    ranks = rows["ranks"]
    fewer: pd.Series[bool] = ranks < ranks.max() if ranks.nunique() > 1 else ranks > 0
    return fewer


def by_sizes(rows: pd.DataFrame) -> pd.Series[bool]:
    """Whether each row is fitted if every second size is held out.

    Sizes are rounded to powers of two, since those of three ranks are a little lower.
    """
    odd: pd.Series[bool] = np.log2(rows["nbytes"]).round().rank(method="dense") % 2 == 1
    return odd


def held_out(rows: pd.DataFrame, fitted: pd.Series[bool]) -> tuple[float, pd.DataFrame]:
    """Seconds of software from the fitted rows, and the held-out rows with their `error`."""
    training, unseen = rows[fitted], rows[~fitted]
    software = fit_software(lambda seconds: errors(training, seconds))
    return software, unseen.assign(error=errors(unseen, software))


def main(path: Annotated[Path, typer.Argument(help="A sweep.")] = COMMITTED) -> str:
    """Errors of gloo's operations and of programs over isend and irecv, on rows that were not
    fitted."""
    rows = read(path)
    judged = quiet(rows)
    loud = int((rows["variation"] >= QUIET).sum())
    parts = [
        f"{path.name}: {len(rows)} rows, {len(judged)} judged; {loud} vary by {QUIET:.0%} or "
        f"more, of "
        f"{len(rows) - loud - len(judged)} there is no schedule"
    ]
    for title, by_program in (("gloo's own operations", False), ("over isend and irecv", True)):
        group = judged[(judged["algorithm"] != "") == by_program]
        if len(group):
            parts.append(_errors_of(title, group))
    return "\n\n".join(parts)


def _errors_of(title: str, rows: pd.DataFrame) -> str:
    """A table of the errors with the largest number of ranks held out, and with every second size
    held out. The errors of each operation are by the software of fewer ranks."""
    software, ranks = held_out(rows, by_ranks(rows))
    other, sizes = held_out(rows, by_sizes(rows))
    fewer, fewest = (format_seconds(round(each, 6)) for each in (software, other))
    parts = {
        f"p = {rows['ranks'].max()} unseen, {fewer} a message": ranks,
        f"every second size unseen, {fewest} a message": sizes,
        **dict(iter(rows.assign(error=errors(rows, software)).groupby("operation", sort=False))),
    }
    table = pd.concat(parts, names=[title])
    figures = table.assign(size=table["error"].abs()).groupby(title, sort=False)
    shown = figures.agg(
        rows=("error", "size"),
        median=("size", "median"),
        mean=("size", "mean"),
        worst=("size", "max"),
        bias=("error", "median"),
    )
    formats = {title: "{}", "rows": "{}"} | dict.fromkeys(("median", "mean", "worst"), "{:.1%}")
    formats |= {"bias": "{:+.1%}"}
    return formatted(shown.reset_index(), formats)
