"""Several training runs as a table, and what it tells: which is the fastest, and where more workers
stop paying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, cast

from experiments.output import Record, counted
from experiments.profiles.interval_levels import INTERVAL
from experiments.templates import Column, Columns, fill
from topologies.units import format_seconds

COLUMNS = {
    "twice the bandwidth": "twice_bandwidth",
    "half the latency": "half_latency",
    "twice the compute": "twice_compute",
}
"""The columns of what changes."""
HEADINGS = {
    "p": "ranks",
    "memory": "{peak_B:B}",
    "fits": "fits",
    "step": "step_s",
    **INTERVAL,
    "samples/s": "samples_per_s",
    "without": "plain_step_s",
    "efficiency": "{efficiency:.1%}",
    "tokens/s": "tokens_per_s",
    "MFU": "{mfu:.1%}",
    "exposed": "exposed_s",
    "hidden": "hidden_s",
    "all transfers": "transfers_s",
    "transfer": "{transfer_s:.1%}",
    "contention": "{contention_s:.1%}",
    "slower peer": "{slower_peer_s:.1%}",
    "drain": "{drain_s:.1%}",
    "idle": "{idle_s:.1%}",
    "sent": "{volume_B:B}",
    "input": "{input_s:.1%}",
    "epoch": "epoch_s",
    "training": "training_s",
    "staleness": "{staleness:.2f}",
    "2β": "twice_bandwidth_s",
    "α/2": "half_latency_s",
    "2x compute": "twice_compute_s",
}
"""The columns of a table."""


RARE = ("drain", "slower peer", "sent", "hidden", "contention", "transfer", "exposed")
"""Columns that a terminal leaves out, in this order, where others need their place."""


def shown_runs(
    records: Sequence[Record], swept: str, names: Mapping[str, str]
) -> tuple[list[Record], Columns]:
    """The rows and columns of a table of runs."""
    rows = [_shown(record, swept, names) for record in records]
    columns: dict[str, Column] = {swept: swept, **HEADINGS} if swept else dict(HEADINGS)
    if not any(str(row.get("strategy")).startswith(("asgd", "ssp")) for row in rows):
        del columns["staleness"]
    return rows, columns


def _shown(record: Record, swept: str, names: Mapping[str, str]) -> Record:
    causes = "transfer_s", "contention_s", "slower_peer_s", "drain_s", "idle_s", "input_s"
    fits, step = record.get("fits"), record.get("step_s")
    values: dict[str, Any] = {**record, "fits": "?" if fits is None else fits}
    if isinstance(step, int | float):  # a stored result may lack it
        waits = {key: record[key] for key in causes if isinstance(record.get(key), int | float)}
        values |= {key: cast(float, seconds) / (step or 1.0) for key, seconds in waits.items()}
    return values | ({swept: names[str(record[swept])]} if swept else {})


TERMS = (
    "efficiency    samples/s as a share of p times one worker alone",
    "stops paying  a further worker adds less than half of what a worker alone does",
)
Rows = Sequence[Mapping[str, Any]]
"""Rows of runs, as tables and files have them."""


class Scaling(NamedTuple):
    """How fast a job is on more and more workers."""

    ranks: list[int]
    """Ascending numbers of workers."""
    speed_up: list[float]
    """The multiple of a worker alone, at each number."""

    def added(self, place: int) -> tuple[float, int]:
        """The most that each further worker adds from one number to a later one, as a share of a
        worker alone, and the later number."""
        points = list(zip(self.ranks, self.speed_up, strict=True))
        p, speed_up = points[place]
        later = points[place + 1 :]
        return max(((faster - speed_up) / (number - p), number) for number, faster in later)

    @property
    def end(self) -> int | None:
        """The place of the number beyond which each further worker adds less than half of what a
        worker alone does; None if all pay."""
        places = range(len(self.ranks) - 1)
        return next((place for place in places if self.added(place)[0] < 0.5), None)

    def __str__(self) -> str:
        """The same in words.

        >>> print(Scaling([1, 2, 4], [1.0, 1.9, 2.5]))
        stops paying beyond 2 workers: up to 4, each further worker adds 30.0% of a worker alone
        >>> print(Scaling([1, 2, 4], [1.0, 1.9, 3.5]))
        pays up to 4 workers, the most here: they are 3.5 times one worker (88%)
        """
        last, speed_up = self.ranks[-1], self.speed_up[-1]
        if self.end is None:
            return (
                f"pays up to {last} workers, the most here: they are {speed_up:.4g} times one "
                f"worker ({speed_up / last:.0%})"
            )
        share, up_to = self.added(self.end)
        adds = f"up to {up_to}, each further worker adds {share:.1%} of a worker alone"
        ends = f"{up_to} are slower" if share < 0 else adds
        return f"stops paying beyond {counted(self.ranks[self.end], 'worker')}: {ends}"


def scaling(records: Rows) -> Scaling:
    """The scaling of the runs of one job."""
    speed_up = {record["ranks"]: record["efficiency"] * record["ranks"] for record in records}
    return Scaling(sorted(speed_up), [speed_up[p] for p in sorted(speed_up)])


def series(records: Rows, swept: str) -> dict[str, Rows]:
    """The runs of each value of the swept option, by ascending numbers of workers."""
    values = [str(record[swept]) if swept else "" for record in records]
    runs = sorted(zip(values, records, strict=True), key=lambda run: run[1]["ranks"])
    return {value: [run for key, run in runs if key == value] for value in dict.fromkeys(values)}


def scaling_lines(records: Rows, swept: str, names: Mapping[str, str]) -> list[str]:
    """Where more workers stop paying, a line each value of the swept option; of a single job also
    which change of the machine would help most on the most workers.

    None for one number of workers, and where there are more values of an option than numbers.
    """
    numbers, values = len({record["ranks"] for record in records}), len(names)
    if numbers < 2 or (values >= numbers and swept != "strategy"):
        return []
    curves = series(records, swept)
    if swept:
        lines = [f"{swept} {names[value]} {scaling(curve)}" for value, curve in curves.items()]
        return [*lines, *TERMS]
    last = curves[""][-1]
    steps = {name: last[f"{column}_s"] for name, column in COLUMNS.items()}
    best = min(steps, key=steps.__getitem__)
    return [
        f"scaling {scaling(records)}",
        f"on {last['ranks']} workers {best} would help most: {format_seconds(steps[best])} a step "
        f"instead of {format_seconds(last['step_s'])}",
        *TERMS,
    ]


def comparison_lines(records: Rows, swept: str, names: Mapping[str, str]) -> list[str]:
    """The value of the swept option that is fastest at the numbers of workers, and by how much."""
    ordered = []
    for p in dict.fromkeys(record["ranks"] for record in records):
        alike = [record for record in records if record["ranks"] == p]
        fitting = [record for record in alike if record.get("fits") is not False]
        ordered.append(sorted(fitting or alike, key=lambda run: -run["samples_per_s"]))
    winners = groupby(ordered, key=lambda runs: runs[0][swept])
    lines = [_words(swept, names, list(span)) for _, span in winners]
    strategies = dict.fromkeys(str(record["strategy"]).partition(":")[0] for record in records)
    # Their steps do not learn the same as those of a single worker.
    unlike = ", ".join(name for name in strategies if name in ("asgd", "ssp", "local_sgd"))
    if unlike and swept == "strategy":
        lines.append(f"samples/s do not show the learning of {unlike}: --learn mlp compares it")
    batches = {names[str(row[swept])]: row.get("batch") for row in records}
    if swept == "strategy" and len({*batches.values()} - {None}) > 1:
        sizes = ", ".join(f"{name} {batch:g}" for name, batch in batches.items() if batch)
        lines.append(f"samples of a worker in a step differ: {sizes}")
    return lines


def _words(swept: str, names: Mapping[str, str], span: Sequence[Rows]) -> str:
    """The same winner at some numbers of workers, in words. At each number the runs that fit are
    in the order of their rates."""
    first, last, many = span[0][0], span[-1][0], len(span) > 1

    def lead(runs: Rows) -> float:
        """How many times as fast as the second run the first one is; 1 if it is alone."""
        first, second, *_ = (run["samples_per_s"] for run in (*runs, runs[0]))
        return float(first / (second or 1.0))

    most = max(span, key=lead)
    ahead = "and no other fits in memory"
    if len(most) > 1:
        second, factor = names[str(most[1][swept])], lead(most)
        ahead = f"{second} is as fast"
        # What is closer is as fast.
        if factor > 1.005:
            ahead = f"{'up to ' * many}{factor:.3g} times {second}"
    ranks = counted(first["ranks"], "worker")
    ranks = f"{first['ranks']} to {last['ranks']} workers" if many else ranks
    rates = " to ".join(dict.fromkeys(fill("{samples_per_s}", run) for run in (first, last)))
    noun = "" if swept == "strategy" else f"{swept} "
    return f"{ranks}: {noun}{names[str(first[swept])]} is fastest, {rates} samples/s, {ahead}"
