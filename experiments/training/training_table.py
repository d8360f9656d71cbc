"""Several training runs as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.output import Record, render
from experiments.profiles.interval_levels import INTERVAL, columns_at
from experiments.templates import cells_of
from experiments.training.changes import CHANGES

COLUMNS = dict(zip(CHANGES, ("twice_bandwidth", "half_latency", "twice_compute"), strict=True))


def rate(samples: float) -> str:
    """Samples per second as text."""
    return f"{samples:.0f}" if samples >= 1000 else f"{samples:.4g}"


HEADINGS = {
    "p": "{ranks}",
    "memory": "{peak_B:B}",
    "fits": "{fits}",
    "step": "{step_s:s}",
    **INTERVAL,
    "samples/s": "{rate}",
    "without": "{plain_step_s:s}",
    "efficiency": "{efficiency:.1%}",
    "tokens/s": "{tokens_per_s:.0f}",
    "MFU": "{mfu:.1%}",
    "exposed": "{exposed_s:s}",
    "hidden": "{hidden_s:s}",
    "all transfers": "{transfers_s:s}",
    "transfer": "{transfer_s:.1%}",
    "contention": "{contention_s:.1%}",
    "slower peer": "{slower_peer_s:.1%}",
    "drain": "{drain_s:.1%}",
    "idle": "{idle_s:.1%}",
    "sent": "{volume_B:B}",
    "input": "{input_s:.1%}",
    "epoch": "{epoch_s:s}",
    "training": "{training_s:s}",
    "staleness": "{staleness:.2f}",
    "2β": "{twice_bandwidth_s:s}",
    "α/2": "{half_latency_s:s}",
    "2x compute": "{twice_compute_s:s}",
}
"""The columns of a table."""


def table(records: Sequence[Record], swept: str, names: Mapping[str, str], level: float) -> str:
    """The runs as a table. `swept` is the option whose values differ, or "". `names` has what the
    table shows for a value. Runs have intervals of `level`; 0: they have none."""
    rows = [_shown(record, swept, names) for record in records]
    columns = columns_at(level, {swept: f"{{{swept}}}", **HEADINGS} if swept else HEADINGS)
    if not any(str(row["strategy"]).startswith(("asgd", "ssp")) for row in rows):
        del columns["staleness"]
    if not any(row.get("transfers_s") for row in rows):
        del columns["all transfers"]
    # The table leaves these out, in this order, where others need their place.
    dispensable = "drain", "slower peer", "sent", "hidden", "contention", "transfer", "exposed"
    return render(rows, cells_of(columns, rows[0]), dispensable)


def _shown(record: Mapping[str, Any], swept: str, names: Mapping[str, str]) -> dict[str, Any]:
    """A row with the values that the table shows."""
    causes = "transfer_s", "contention_s", "slower_peer_s", "drain_s", "idle_s", "input_s"
    shares = {key: record[key] / (record["step_s"] or 1.0) for key in causes if key in record}
    fits = {True: "yes", False: "no", None: "?"}[record["fits"]]
    words = {"fits": fits, "rate": rate(record["samples_per_s"])}
    if swept:
        words[swept] = names[str(record[swept])]
    return {**record, **shares, **words}
