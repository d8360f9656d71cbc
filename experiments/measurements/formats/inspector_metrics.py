"""The Prometheus text of NCCL Inspector, version v5.1, as inspector_prom.cc writes it: a file for
each GPU.

A gauge holds what one GPU measured between the last two dumps: the mean time and the geometric mean
of the bus bandwidth. Its labels name the communicator, the call, the algorithm, and a range of one
rank's bytes, like 8-9MB (of 1024 x 1024 bytes).

Bandwidth times time is the size, if all calls of the gauge had one. A size within 1% above the
lower end of its range is that end. A size outside the range says that the times of the calls
differed much: then it is the geometric middle of the range. A GPU that waits for others has a
longer mean, so the time of a size is the shortest of all GPUs.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from experiments.measurements.collectives import bus_factor
from experiments.measurements.curve import GUESSED, WAITING, Curve, Point, tally
from experiments.measurements.formats.inspector_log import (
    COLLECTIVES,
    PARTS,
    InspectorFiles,
    job_curve,
    source_of,
)
from experiments.measurements.formats.text import whole_number
from experiments.output import counted
from experiments.text_lines import first_of
from topologies.errors import InputError
from topologies.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd

_METRICS = {
    "nccl_bus_bandwidth_gbs": "bandwidth",
    "nccl_collective_exec_time_microseconds": "time",
    "nccl_p2p_bus_bandwidth_gbs": "bandwidth",
    "nccl_p2p_exec_time_microseconds": "time",
}
_GAUGE = re.compile(rf"^(?:{'|'.join(_METRICS)})\{{", re.MULTILINE)
_LINE = re.compile(r"(nccl_\w+)\{(.*)\} (\S+)(?: [0-9]+)?\s*")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"(?:,|$)')
_RANGE = re.compile(r"([0-9]{1,4})-([0-9]{1,4})(B|KB|MB|GB|TB)")
_UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_NAMES = ("version", "node", "gpu", "comm_name", "n_nodes", "nranks", "message_size")


LABELS = ["name", "ranks", "nodes", "collective", "low", "high", "choice", "gpu"]
"""What a mean time and a bandwidth of one GPU have in common: the bytes of one rank between which
the range is, and in one word the algorithm and the protocol."""


def _curves(gauges: InspectorFiles) -> tuple[list[Curve], list[str]]:
    """The curves of the last dumps of GPUs."""
    import pandas as pd

    if not gauges.rows:
        return [], []
    values = {labels: rows[-1] for labels, rows in gauges.rows.items()}
    table = pd.Series(values, dtype=float).rename_axis([*LABELS, "metric"]).unstack()
    table = table.reindex(columns=["bandwidth", "time"], fill_value=0.0).fillna(0.0)
    timed = table[table["time"] > 0].reset_index()
    curves = [_curve(gauges, alike) for _, alike in timed.groupby(LABELS[:4])]
    untimed = len(table) - len(timed)
    return curves, [f"{counted(untimed, 'gauge')} without a time above 0"] * (untimed > 0)


def _curve(gauges: InspectorFiles, table: pd.DataFrame) -> Curve:
    first, guessed, times = table.iloc[0], set[int](), dict[int, float]()
    shortest = table.loc[table.groupby(["low", "choice"])["time"].idxmin()]
    for gauge in shortest.to_dict("records"):
        size, known = _size(gauge)
        guessed |= set() if known else {size}
        times[size] = min(times.get(size, math.inf), gauge["time"] / 1e6)
    return job_curve(
        first["collective"],
        int(first["ranks"]),
        int(first["nodes"]),
        [Point(size, times[size]) for size in sorted(times)],
        source_of(gauges.files, first["name"]),
        _notes(table, sorted(guessed)),
    )


def looks_like_metrics(text: str) -> bool:
    """Whether a metric of Inspector stands in a text."""
    return "nccl_" in text and _GAUGE.search(text) is not None


def read_metrics(text: str, name: str) -> InspectorFiles:
    """The gauges in the text of the file `name`.

    The last of equal gauges counts. Other metrics and a last line that is cut are left out. Raises
    InputError for a gauge of Inspector that is none.
    """
    gauges = InspectorFiles("metric", _curves, [name])
    others, sizeless = list[int](), list[int]()
    lines = text.split("\n")
    if lines.pop().strip():
        gauges.skipped.append(f"line {len(lines) + 1}, the last, is cut: left out")
    for number, line in enumerate(lines, 1):
        if line.startswith(tuple(_METRICS)):
            if not _add(gauges, line, f"{name} line {number}"):
                sizeless.append(number)
        elif line.strip() and not line.startswith("#"):
            others.append(number)
    reasons = {"of other metrics": others, "of calls whose bytes are not known": sizeless}
    gauges.skipped += [tally("line", why, numbers) for why, numbers in reasons.items() if numbers]
    return gauges


def _add(gauges: InspectorFiles, line: str, where: str) -> bool:
    """Add a line to the gauges; False if the bytes of its calls are not known."""
    match = _LINE.fullmatch(line.rstrip()) if line.rstrip().isprintable() else None
    text = match[2] if match else line
    pairs = _LABEL.findall(text)
    labels: dict[str, str] = dict(pairs)
    if not match or _LABEL.sub("", text) or len(labels) < len(pairs):
        raise InputError(f'{where} is no metric: expected NAME{{LABEL="VALUE",...}} NUMBER')
    if missing := [label for label in _NAMES if label not in labels]:
        raise InputError(f"{where} has no label {missing[0]}: expected {', '.join(_NAMES)}")
    if labels["version"] != "v5.1":
        raise InputError(f"{where} has the version {labels['version'][:20]!r}: only v5.1 is known")
    value = _value(match[3], where)
    ranks, nodes = (_count(labels, name, where) for name in ("nranks", "n_nodes"))
    if nodes > ranks:
        raise InputError(f"{where} has {nodes} nodes for {ranks} ranks: expected at most as many")
    word = labels.get("collective") or labels.get("p2p_operation", "")
    if word not in COLLECTIVES or labels["message_size"] == "0B":
        return False
    gauge = (
        labels["comm_name"][:80],
        ranks,
        nodes,
        COLLECTIVES[word],
        *_range(labels["message_size"], where),
        labels.get("algo_proto", word)[:40],
        f"{labels['node']} {labels['gpu']}"[:255],
        _METRICS[match[1]],
    )
    gauges.rows.setdefault(gauge, array("d")).append(value)
    return True


def _value(text: str, where: str) -> float:
    try:
        value = float(text.replace("_", "?"))
    except ValueError:
        value = math.nan
    if 0 <= value < 6.1e11:
        return value
    raise InputError(f"{where} has the value {text[:40]!r}: expected a number from 0")


def _count(labels: Mapping[str, str], name: str, where: str) -> int:
    if value := whole_number(labels[name], digits=9):
        return value
    raise InputError(
        f"{where} has the {name} {labels[name][:40]!r}: expected a whole number from 1"
    )


def _range(text: str, where: str) -> tuple[int, int]:
    match = _RANGE.fullmatch(text)
    if match is None or not 0 < int(match[1]) < int(match[2]):
        raise InputError(f"{where} has the message_size {text[:40]!r}: expected a range like 8-9MB")
    return int(match[1]) * _UNITS[match[3]], int(match[2]) * _UNITS[match[3]]


def _size(gauge: Mapping[Any, Any]) -> tuple[int, bool]:
    """Bytes as nccl-tests counts them, and whether they are known: else those of the middle."""
    parts = gauge["ranks"] if gauge["collective"] in PARTS else 1
    factor, low = bus_factor(gauge["collective"], gauge["ranks"]), gauge["low"]
    moved = gauge["bandwidth"] * gauge["time"] * 1e3
    bytes_of_rank = moved / factor / parts if factor else 0.0
    # bandwidths are rounded
    if 0.999 * low < bytes_of_rank < 1.001 * gauge["high"]:
        is_end = bytes_of_rank < 1.01 * low
        return low * parts if is_end else round(bytes_of_rank * parts), True
    return round(math.sqrt(low * gauge["high"]) * parts), False


def _notes(gauges: pd.DataFrame, guessed: list[int]) -> Iterator[str]:
    gpus, choices = gauges["gpu"].nunique(), sorted(gauges["choice"].unique())
    name, ranks = str(gauges["name"].iloc[0]), int(gauges["ranks"].iloc[0])
    yield (
        f"communicator {name!r}: a time is the mean of the last dump on the GPU that waits least "
        f"of {gpus}; a size is bandwidth x time; NCCL chose {first_of(choices, 4)}"
    )
    if gpus < ranks:
        yield f"metrics of {gpus} of {counted(ranks, 'rank')}: {WAITING}"
    if gpus > ranks:
        yield f"several communicators have this name: {gpus} GPUs, {ranks} ranks each"
    if guessed:
        yield f"{GUESSED}: {first_of([*map(format_bytes, guessed)], 4)}"
