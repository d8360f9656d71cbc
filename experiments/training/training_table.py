"""Several training runs as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import cast

from experiments.output import Cell, Value
from experiments.profiles.interval_levels import span
from experiments.training.changes import CHANGES
from experiments.training.job import Job
from topologies.units import format_bytes, format_seconds

FITS = {True: "yes", False: "no", None: "?"}
"""Whether a run fits into the memory of its devices."""
DISPENSABLE = ("drain", "slower peer", "sent", "hidden", "contention", "transfer", "exposed")
"""Columns that the table leaves out, in this order, where others need their place."""
COLUMNS = dict(zip(CHANGES, ("twice_bandwidth", "half_latency", "twice_compute"), strict=True))


def rate(samples: float) -> str:
    """Samples per second as text."""
    return f"{samples:.0f}" if samples >= 1000 else f"{samples:.4g}"


def memory_cell(nbytes: Value) -> str:
    """Bytes as text, or a dash if the memory was not traced."""
    return "-" if nbytes is None else format_bytes(float(nbytes), binary=False)


def _seconds(key: str) -> Cell:
    return lambda record: format_seconds(float(record[key] or 0.0))


def _share(key: str) -> Cell:
    return lambda record: (
        f"{float(record[key] or 0.0) / (float(record['step_s'] or 0.0) or 1.0):.1%}"
    )


def cells(swept: str, names: Mapping[str, str], jobs: Sequence[Job]) -> Mapping[str, Cell]:
    """The columns of a table of runs of the jobs. `swept` is the option whose values differ, or "".
    `names` has what the table shows for a value."""
    epochs = jobs[0].epochs
    columns: dict[str, Cell] = {}
    if swept:
        columns[swept] = lambda record: names[str(record[swept])]
    columns |= {
        "p": lambda record: str(record["ranks"]),
        "memory": lambda record: memory_cell(record["peak_B"]),
        "fits": lambda record: FITS[cast(bool | None, record["fits"])],
        "step": _seconds("step_s"),
        **_interval(jobs),
        "samples/s": lambda record: rate(float(record["samples_per_s"] or 0.0)),
        "efficiency": lambda record: f"{float(record['efficiency'] or 0.0):.1%}",
        "exposed": _seconds("exposed_s"),
        "hidden": _seconds("hidden_s"),
        "transfer": _share("transfer_s"),
        "contention": _share("contention_s"),
        "slower peer": _share("slower_peer_s"),
        "drain": _share("drain_s"),
        "sent": lambda record: format_bytes(float(record["volume_B"] or 0.0), binary=False),
    }
    if epochs.input_rate < inf:
        columns["input"] = _share("input_s")
    if epochs.dataset is not None:
        columns |= {"epoch": _seconds("epoch_s"), "training": _seconds("training_s")}
    if any(job.name.partition(":")[0] in ("asgd", "ssp") for job in jobs):
        columns["staleness"] = lambda record: f"{float(record['staleness'] or 0.0):.2f}"
    if not swept:
        for name, heading in zip(COLUMNS.values(), ("2β", "α/2", "2x compute"), strict=True):
            columns[heading] = _seconds(f"{name}_s")
    return columns


def _interval(jobs: Sequence[Job]) -> Mapping[str, Cell]:
    """The columns of intervals, if libraries say how sure they are."""
    profile = jobs[0].profile
    if profile is None or profile.uncertainty is None:
        return {}

    def shown(cell: Cell) -> Cell:
        return lambda record: "-" if record["level"] is None else cell(record)

    ends = shown(lambda record: span(cast(float, record["low_s"]), cast(float, record["high_s"])))
    level = f"{profile.uncertainty.level:.0%} of steps"
    return {"expected": shown(_seconds("expected_s")), level: ends}
