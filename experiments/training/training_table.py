"""Several training runs as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from experiments.output import Record, render
from experiments.profiles.interval_levels import span
from experiments.text_lines import bytes_cell
from experiments.training.changes import CHANGES
from topologies.units import format_seconds

FITS = {True: "yes", False: "no", None: "?"}
"""Whether a run fits into the memory of its devices."""
DISPENSABLE = ("drain", "slower peer", "sent", "hidden", "contention", "transfer", "exposed")
"""Columns that the table leaves out, in this order, where others need their place."""
COLUMNS = dict(zip(CHANGES, ("twice_bandwidth", "half_latency", "twice_compute"), strict=True))
SHARES = ("transfer_s", "contention_s", "slower_peer_s", "drain_s", "input_s")
"""Columns that the table shows as shares of a step."""


def rate(samples: float) -> str:
    """Samples per second as text."""
    return f"{samples:.0f}" if samples >= 1000 else f"{samples:.4g}"


Column = tuple[str, Callable[[Any], str]]
"""The key of a column, and what writes its values."""
HEADINGS: Mapping[str, Column] = {
    "p": ("ranks", str),
    "memory": ("peak_B", bytes_cell),
    "fits": ("fits", str),
    "step": ("step_s", format_seconds),
    "expected": ("expected_s", format_seconds),
    "interval": ("interval", str),
    "samples/s": ("samples_per_s", rate),
    "efficiency": ("efficiency", "{:.1%}".format),
    "exposed": ("exposed_s", format_seconds),
    "hidden": ("hidden_s", format_seconds),
    "transfer": ("transfer_s", "{:.1%}".format),
    "contention": ("contention_s", "{:.1%}".format),
    "slower peer": ("slower_peer_s", "{:.1%}".format),
    "drain": ("drain_s", "{:.1%}".format),
    "sent": ("volume_B", bytes_cell),
    "input": ("input_s", "{:.1%}".format),
    "epoch": ("epoch_s", format_seconds),
    "training": ("training_s", format_seconds),
    "staleness": ("staleness", "{:.2f}".format),
    "2β": ("twice_bandwidth_s", format_seconds),
    "α/2": ("half_latency_s", format_seconds),
    "2x compute": ("twice_compute_s", format_seconds),
}
"""The columns of a table."""


def table(records: Sequence[Record], swept: str, names: Mapping[str, str], level: float) -> str:
    """The runs as a table. `swept` is the option whose values differ, or "". `names` has what the
    table shows for a value. Runs have intervals of `level`; 0: they have none."""
    rows = [_shown(record, swept, names) for record in records]
    absent = set() if level else {"expected", "interval"}
    if not any(str(row["strategy"]).startswith(("asgd", "ssp")) for row in rows):
        absent.add("staleness")
    columns: dict[str, Column] = {swept: (swept, str), **HEADINGS}
    cells = {
        f"{level:.0%} of steps" if heading == "interval" else heading: partial(_cell, *column)
        for heading, column in columns.items()
        if column[0] in rows[0] and heading not in absent
    }
    return render(rows, cells, DISPENSABLE)


def _shown(record: Mapping[str, Any], swept: str, names: Mapping[str, str]) -> dict[str, Any]:
    """A row with the values that the table shows."""
    ends = None if record["level"] is None else span(record["low_s"], record["high_s"])
    step = record["step_s"] or 1.0
    shares = {key: record[key] / step for key in SHARES if key in record}
    values = {swept: names[str(record[swept])]} if swept else {}
    return {**record, **shares, **values, "fits": FITS[record["fits"]], "interval": ends}


def _cell(key: str, written: Callable[[Any], str], row: Record) -> str:
    return "-" if row[key] is None else written(row[key])
