"""Operations of gloo in a lab, predicted and measured.

On links of known rate and delay one number is fitted: the software that a message meets on its way.
Predictions are compared only with rows that were not fitted: more ranks, or sizes in between.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from scipy.optimize import minimize_scalar

from experiments import output
from experiments.shipped_tables import rows_of
from experiments.spellings import GLOO_LAB
from experiments.studies.measured_rows import formatted
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
    row: Any,
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


def fit_software(errors: Callable[[float], pd.Series[float]]) -> float:
    """Seconds of software for a message, by least squares of the relative `errors`."""
    result = minimize_scalar(
        lambda software: float(np.square(errors(software)).sum()),
        bounds=(0.0, 1e-3),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(result.x)


def errors(rows: pd.DataFrame, software: float, **rules: Any) -> pd.Series[float]:
    """Predicted over measured time - 1, for each row."""
    seconds = [predict(row, software, **rules) for row in rows.itertuples()]
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


def held_out(
    rows: pd.DataFrame, fitted: pd.Series[bool], **rules: Any
) -> tuple[float, pd.DataFrame]:
    """Seconds of software from the fitted rows, and the held-out rows with their `error`."""
    training, unseen = rows[fitted], rows[~fitted]
    software = fit_software(lambda seconds: errors(training, seconds, **rules))
    return software, unseen.assign(error=errors(unseen, software, **rules))


def main(path: Annotated[Path, typer.Argument(help="A sweep.")] = COMMITTED) -> str:
    """Held-out errors of gloo's operations and of programs over isend and irecv.

    Each table has a line without each of the rules.
    """
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
            tables = formatted(_rule_errors(title, group)), output.align([*_operations(group)])
            parts += tables
    return "\n\n".join(parts)


def _rule_errors(title: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Columns of the errors with all rules and without each of them: software seconds and the
    spread of the held-out errors, with the largest number of ranks held out and with every second
    size held out."""
    columns = {title: [*WITHOUT]}
    for name, fitted in (
        (f"p = {rows['ranks'].max()} unseen", by_ranks(rows)),
        ("every second size unseen", by_sizes(rows)),
    ):
        results = [held_out(rows, fitted, **rules) for rules in WITHOUT.values()]
        columns[f"software, {name}"] = [format_seconds(round(each, 6)) for each, _ in results]
        columns[name] = [_spread(unseen["error"].abs()) for _, unseen in results]
    return pd.DataFrame(columns)


def _operations(rows: pd.DataFrame) -> Iterator[list[str]]:
    """The errors of each operation, with the software seconds fitted to fewer ranks."""
    yield ["operation", "rows", "error", "bias", "worst", "ranks", "size", "rate", "delay"]
    rows = rows.assign(error=errors(rows, held_out(rows, by_ranks(rows))[0]))
    for operation, group in rows.groupby("operation", sort=False):
        worst: Any = next(group.loc[[group["error"].abs().idxmax()]].itertuples())
        off = [f"{group['error'].abs().median():.1%}", f"{group['error'].median():+.1%}"]
        place = [str(worst.ranks), format_bytes(worst.nbytes), f"{worst.rate / 1e6:g}Mbit/s"]
        figures = [*off, f"{worst.error:+.1%}", *place, format_seconds(worst.delay)]
        yield [str(operation), str(len(group)), *figures]


def _spread(size: pd.Series[float]) -> str:
    if size.empty:
        return "none"
    return f"{size.median():.1%}, mean {size.mean():.1%}, worst {size.max():.1%}"
