"""Several training runs as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.output import Record
from experiments.profiles.interval_levels import INTERVAL
from experiments.templates import render
from experiments.training.changes import CHANGES

COLUMNS = dict(zip(CHANGES, ("twice_bandwidth", "half_latency", "twice_compute"), strict=True))


def rate(samples: float) -> str:
    """Samples per second as text."""
    return f"{samples:.0f}" if samples >= 1000 else f"{samples:.4g}"


HEADINGS = {
    "p": "ranks",
    "memory": "{peak_B:B}",
    "fits": "fits",
    "step": "step_s",
    **INTERVAL,
    "samples/s": "rate",
    "without": "plain_step_s",
    "efficiency": "{efficiency:.1%}",
    "tokens/s": "{tokens_per_s:.0f}",
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
    rows = [_shown(record, swept, names) for record in records]
    columns = {swept: swept, **HEADINGS} if swept else dict(HEADINGS)
    if not any(str(row["strategy"]).startswith(("asgd", "ssp")) for row in rows):
        del columns["staleness"]
    # The table leaves these out, in this order, where others need their place.
    dispensable = "drain", "slower peer", "sent", "hidden", "contention", "transfer", "exposed"
    return render(rows, columns, dispensable)


def _shown(record: Mapping[str, Any], swept: str, names: Mapping[str, str]) -> dict[str, Any]:
    """A row with the values that the table shows."""
    causes = "transfer_s", "contention_s", "slower_peer_s", "drain_s", "idle_s", "input_s"
    shares = {key: record[key] / (record["step_s"] or 1.0) for key in causes if key in record}
    fits = {True: "yes", False: "no", None: "?"}[record["fits"]]
    words = {"fits": fits, "rate": rate(record["samples_per_s"])}
    if swept:
        words[swept] = names[str(record[swept])]
    return {**record, **shares, **words}
