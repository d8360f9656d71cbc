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
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from experiments.measurements.collectives import bus_factor
from experiments.measurements.curve import (
    GUESSED,
    WAITING,
    Curve,
    Measurements,
    Point,
    tally,
)
from experiments.measurements.formats.inspector_log import (
    COLLECTIVES,
    PARTS,
    job_curve,
    source_of,
)
from experiments.measurements.formats.text import whole_number
from experiments.output import counted
from experiments.text_lines import first_of
from topologies.errors import InputError
from topologies.units import format_bytes

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


class _Gauge(NamedTuple):
    """The labels that a mean time and a bandwidth of one GPU have in common."""

    name: str
    ranks: int
    nodes: int
    collective: str
    low: int
    """Bytes of one rank from which on the range begins."""
    high: int
    choice: str
    """The algorithm and the protocol."""
    gpu: str


@dataclass
class InspectorGauges:
    """The last dumps of the GPUs of a job."""

    files: list[str] = field(default_factory=list)
    values: dict[_Gauge, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    """Bandwidths in GB/s and times in microseconds."""
    skipped: list[str] = field(default_factory=list)

    def add(self, other: InspectorGauges) -> None:
        """Add the dumps of other GPUs of the job."""
        self.skipped += [f"{other.files[0]}: {line}" for line in other.skipped]
        self.files += other.files
        for gauge, values in other.values.items():
            self.values[gauge] |= values

    def measurements(self) -> Measurements:
        """A curve for each communicator and collective. Raises InputError without any."""
        timed = sorted(gauge for gauge, values in self.values.items() if values.get("time"))
        if not timed:
            why = "; ".join(self.skipped) or "no time above 0"
            raise InputError(f"no usable metric of NCCL Inspector in {self.files[0]}: {why}")
        curves = [self._curve([*alike]) for _, alike in groupby(timed, key=lambda each: each[:4])]
        untimed = len(self.values) - len(timed)
        lines = [f"{counted(untimed, 'gauge')} without a time above 0"] if untimed else []
        return Measurements(tuple(curves), (*self.skipped, *lines))

    def _curve(self, gauges: list[_Gauge]) -> Curve:
        first, guessed, times = gauges[0], set[int](), dict[int, float]()
        longest_first = sorted(gauges, key=lambda gauge: -self.values[gauge]["time"])
        for gauge in {(gauge.low, gauge.choice): gauge for gauge in longest_first}.values():
            size, known = _size(gauge, self.values[gauge])
            guessed |= set() if known else {size}
            times[size] = min(times.get(size, math.inf), self.values[gauge]["time"] / 1e6)
        return job_curve(
            first.collective,
            first.ranks,
            first.nodes,
            [Point(size, times[size]) for size in sorted(times)],
            source_of(self.files, first.name),
            _notes(first, gauges, sorted(guessed)),
        )


def looks_like_metrics(text: str) -> bool:
    """Whether a metric of Inspector stands in a text."""
    return "nccl_" in text and _GAUGE.search(text) is not None


def read_metrics(text: str, name: str) -> InspectorGauges:
    """The gauges in the text of the file `name`.

    The last of equal gauges counts. Other metrics and a last line that is cut are left out. Raises
    InputError for a gauge of Inspector that is none.
    """
    gauges, others, sizeless = InspectorGauges([name]), list[int](), list[int]()
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


def _add(gauges: InspectorGauges, line: str, where: str) -> bool:
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
    gauge = _Gauge(
        labels["comm_name"][:80],
        ranks,
        nodes,
        COLLECTIVES[word],
        *_range(labels["message_size"], where),
        labels.get("algo_proto", word)[:40],
        f"{labels['node']} {labels['gpu']}"[:255],
    )
    gauges.values[gauge][_METRICS[match[1]]] = value
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


def _size(gauge: _Gauge, values: Mapping[str, float]) -> tuple[int, bool]:
    """Bytes as nccl-tests counts them, and whether they are known: else those of the middle."""
    parts = gauge.ranks if gauge.collective in PARTS else 1
    factor = bus_factor(gauge.collective, gauge.ranks)
    moved = values.get("bandwidth", 0.0) * values["time"] * 1e3
    bytes_of_rank = moved / factor / parts if factor else 0.0
    # bandwidths are rounded
    if 0.999 * gauge.low < bytes_of_rank < 1.001 * gauge.high:
        low = bytes_of_rank < 1.01 * gauge.low
        return gauge.low * parts if low else round(bytes_of_rank * parts), True
    return round(math.sqrt(gauge.low * gauge.high) * parts), False


def _notes(first: _Gauge, gauges: list[_Gauge], guessed: list[int]) -> Iterator[str]:
    gpus, choices = {gauge.gpu for gauge in gauges}, sorted({gauge.choice for gauge in gauges})
    yield (
        f"communicator {first.name!r}: a time is the mean of the last dump on the GPU that waits "
        f"least of {len(gpus)}; a size is bandwidth x time; NCCL chose {first_of(choices, 4)}"
    )
    if len(gpus) < first.ranks:
        yield f"metrics of {len(gpus)} of {counted(first.ranks, 'rank')}: {WAITING}"
    if len(gpus) > first.ranks:
        yield f"several communicators have this name: {len(gpus)} GPUs, {first.ranks} ranks each"
    if guessed:
        yield f"{GUESSED}: {first_of([*map(format_bytes, guessed)], 4)}"
