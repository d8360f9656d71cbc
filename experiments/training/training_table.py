"""Several training runs as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from experiments.output import Record
from experiments.profiles.interval_levels import INTERVAL
from experiments.templates import Column, Columns, render
from experiments.training.changes import CHANGES

COLUMNS = dict(zip(CHANGES, ("twice_bandwidth", "half_latency", "twice_compute"), strict=True))


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


def table(records: Sequence[Record], swept: str, names: Mapping[str, str]) -> str:
    """The runs as a table. `swept` is the option whose values differ, or "". `names` has what the
    table shows for a value."""
    # The table leaves these out, in this order, where others need their place.
    dispensable = "drain", "slower peer", "sent", "hidden", "contention", "transfer", "exposed"
    return render(*shown_runs(records, swept, names), dispensable)


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
    """A row with the values that the table shows."""
    causes = "transfer_s", "contention_s", "slower_peer_s", "drain_s", "idle_s", "input_s"
    fits, step = record.get("fits"), record.get("step_s")
    values: dict[str, Any] = {**record, "fits": "?" if fits is None else fits}
    if isinstance(step, int | float):  # a stored result may lack it
        waits = {key: record[key] for key in causes if isinstance(record.get(key), int | float)}
        values |= {key: cast(float, seconds) / (step or 1.0) for key, seconds in waits.items()}
    return values | ({swept: names[str(record[swept])]} if swept else {})
