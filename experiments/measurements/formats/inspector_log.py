"""The log of NCCL Inspector: a line of JSON for each operation of a rank, version v4.0, as
inspector_json.cc writes it.

A line has a `header` (the communicator: id, comm_name, rank, n_ranks, nnodes), `metadata`, and
`coll_perf` or `p2p_perf`: name, number, bytes, and the time of this rank in whole microseconds. The
bytes are one rank's count: a part of an all-gather's and a reduce-scatter's array.

The time is that of the longest channel of the rank's kernel, which waits for its peers. So the
shortest kernel of a call is the time of the collective. The time of a size is the median over its
calls.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from experiments.measurements.curve import WAITING, Curve, Measurements, Point, ranks_per_node
from experiments.output import counted
from topologies.errors import InputError, shown

if TYPE_CHECKING:
    import pandas as pd

COLLECTIVES = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "Send": "send_recv",
    "Recv": "send_recv",
    "SendRecv": "send_recv",
}
"""What is read. Inspector has no bandwidth of other calls, so nobody knows what their bytes are."""
PARTS = ("all_gather", "reduce_scatter")
CLOCKS = ("kernel_gpu", "kernel_cpu", "collective_cpu", "unknown")
"""What took the time, the best first: the GPU in the kernel, the CPU that saw the kernel begin and
end, or the CPU that began and ended the call."""
_BEGIN = re.compile(r'\ufeff?\s{0,99}\{\s{0,99}"header"\s{0,99}:')
_LONGEST_LINE = 2**20
_WEEK_US = 604_800_000_000
_Object = dict[str, Any]


LABELS = ["communicator", "name", "ranks", "nodes", "collective", "clock", "size"]
"""What the records of one kind and size have in common. The clock is a place in `CLOCKS`, the size
is in bytes as nccl-tests counts them."""
CLOCK = LABELS.index("clock")
NUMBERS = ["call", "rank", "time_us"]
"""The numbers of a record."""


@dataclass
class InspectorFiles:
    """What NCCL Inspector wrote in files of a job."""

    noun: str
    """What a file consists of."""
    curves: Callable[[InspectorFiles], tuple[list[Curve], list[str]]]
    """The curves of such files, and what does not count."""
    files: list[str] = field(default_factory=list)
    rows: dict[tuple[Any, ...], array[Any]] = field(default_factory=dict)
    """The numbers of records, one after the other, by what the records have in common."""
    skipped: list[str] = field(default_factory=list)
    uncounted: Counter[str] = field(default_factory=Counter)
    """Records that do not count, by the reason."""

    def add(self, other: InspectorFiles) -> None:
        """Add the records in other files of the job."""
        self.skipped += [f"{other.files[0]}: {line}" for line in other.skipped]
        self.files += other.files
        for labels, rows in other.rows.items():
            self.rows.setdefault(labels, rows[:0]).extend(rows)
        self.uncounted += other.uncounted

    def measurements(self) -> Measurements:
        """A curve for each communicator and collective. Raises InputError without any."""
        curves, lines = self.curves(self)
        lines = [*self.skipped, *lines]
        if not curves:
            why = "; ".join(lines) or f"no {self.noun} in it"
            raise InputError(f"no usable {self.noun} of NCCL Inspector in {self.files[0]}: {why}")
        return Measurements(tuple(curves), tuple(lines))


def _curves(calls: InspectorFiles) -> tuple[list[Curve], list[str]]:
    """The curves of logs, each by the best of its clocks."""
    curves, uncounted = list[Curve](), Counter(calls.uncounted)
    for _, alike in groupby(sorted(calls.rows), key=lambda labels: labels[:CLOCK]):
        best, *others = ([*each] for _, each in groupby(alike, key=lambda labels: labels[CLOCK]))
        clock = CLOCKS[best[0][CLOCK]]
        curves.append(_curve(calls, best))
        for labels in (labels for other in others for labels in other):
            why = f"by {CLOCKS[labels[CLOCK]]}, where others are by {clock}"
            uncounted[why] += len(calls.rows[labels]) // 3
    return curves, [f"{counted(number, 'record')} {why}" for why, number in uncounted.items()]


def _curve(calls: InspectorFiles, series: Sequence[tuple[Any, ...]]) -> Curve:
    """The curve of records that differ in their size alone. A call without the records of all ranks
    counts where no call of its size has them."""
    import pandas as pd

    communicator, name, ranks, nodes, collective, clock, _ = series[0]
    messages = collective == "send_recv"
    tables = {
        labels[-1]: pd.DataFrame(zip(*[iter(calls.rows[labels])] * 3, strict=True), columns=NUMBERS)
        for labels in series
    }
    records = pd.concat(tables, names=["size"])
    once = records.groupby(["size", "call", "rank"])["time_us"].min()
    times = once.groupby(["size", "call", "rank"] if messages else ["size", "call"])
    whole = (times.size() == ranks) | messages
    has_whole = whole.groupby("size").transform("any")
    chosen = times.min()[whole | ~has_whole] / 1e6
    points = [_point(size, seconds) for size, seconds in chosen.groupby("size")]
    numbers = sorted({point.repetitions or 0 for point in points})
    spread = median([(point.p90_s or 0.0) / point.time_s - 1 for point in points])
    notes = [
        f"communicator {name!r} of {counted(ranks, 'rank')}: a size has the median of "
        f"{' to '.join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))} "
        f"{'sends and receives' if messages else 'calls, a call its shortest kernel'}; the 90th "
        f"percentile is {spread:.0%} above"
    ]
    if partial := int((has_whole & ~whole).sum()):
        notes.append(f"{counted(partial, 'call')} without the records of all ranks: left out")
    if alone := int((~has_whole.groupby("size").any()).sum()):
        why = "without a call that has the records of all ranks"
        notes.append(f"{counted(alone, 'size')} {why}: {WAITING} for ranks")
    if repeated := len(records) - len(once):
        why = "of the same call and rank as another: left out"
        notes.append(f"{counted(repeated, 'record')} {why}")
    if clock:
        notes.append(f"the clock of the times is {CLOCKS[clock]}, not the GPU's")
    if messages:
        notes.append(f"{WAITING} for the peer and for other messages")
    elif collective in ("broadcast", "reduce"):
        notes.append("a rank may leave before the last has its data: times may be short")
    source = source_of(calls.files, communicator)
    return job_curve(collective, ranks, nodes, points, source, notes)


def _point(size: int, seconds: pd.Series[float]) -> Point:
    mean = float(seconds.mean())
    return Point(
        size,
        float(seconds.median()),
        cv=float(seconds.std(ddof=0)) / mean,
        repetitions=len(seconds),
        min_s=float(seconds.min()),
        p90_s=float(seconds.quantile(0.9)),
        mean_s=mean,
    )


def job_curve(
    collective: str,
    ranks: int,
    nodes: int | None,
    points: Iterable[Point],
    source: str,
    notes: Iterable[str],
) -> Curve:
    """The curve of a communicator of a job. A message is of two ranks: their nodes are known if all
    pairs of the communicator are alike."""
    if collective == "send_recv":
        ranks, nodes = 2, {ranks: 2, 1: 1}.get(nodes or 0)
    return Curve(
        collective,
        ranks,
        nodes,
        tuple(points),
        (),
        source,
        tuple(notes),
        library="NCCL",
        gpus_per_node=ranks_per_node(ranks, nodes),
        backend="nccl",
    )


def source_of(files: Sequence[str], communicator: str) -> str:
    """A communicator in the file of a job, or in the folder of its files."""
    return f"{files[0] if len(files) == 1 else Path(files[0]).parent}:{communicator}"


def looks_like_inspector(text: str) -> bool:
    """Whether a file begins as a record of Inspector does."""
    return _BEGIN.match(text) is not None


def read_inspector(lines: Iterable[bytes], name: str) -> InspectorFiles:
    """The operations in the lines of the log `name`.

    A last line that is cut is left out. Raises InputError for any other line that is no record.
    """
    calls = InspectorFiles("record", _curves, [name])
    for number, line in enumerate(lines, 1):
        where = f"{name} line {number}"
        try:
            record = _DECODER.decode(line.decode().removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:
            if line.isspace():
                continue
            if line.endswith(b"\n") or len(line) >= _LONGEST_LINE:
                why = str(error)[:80]
                raise InputError(f"{where} is no record of NCCL Inspector: {why}") from None
            calls.skipped.append(f"line {number}, the last, is cut: left out")
            break
        _add(calls, record, where)
    return calls


def log_lines(path: Path) -> Iterator[bytes]:
    """The lines of the file at `path`, one at a time. A line ends after 1 MiB at the latest."""
    with path.open("rb") as file:
        yield from iter(lambda: file.readline(_LONGEST_LINE), b"")


def _once(pairs: list[tuple[str, Any]]) -> _Object:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


def _add(calls: InspectorFiles, record: object, where: str) -> None:
    header, about, perf, kind = _parts(record, where)
    version = about.get("inspector_output_format_version")
    if version != "v4.0":
        raise InputError(f"{where} has the version {shown(version)}: only v4.0 is known")
    clock = perf.get(f"{kind}_timing_source", "unknown")
    if clock not in CLOCKS:
        known = ", ".join(CLOCKS)
        raise InputError(f"{where} has the {kind}_timing_source {shown(clock)}: expected {known}")
    ranks = _whole(header, "n_ranks", where, 1, 2**31)
    rank = _whole(header, "rank", where, 0, ranks)
    nodes = _whole(header, "nnodes", where, 1, ranks + 1)
    number = _whole(perf, f"{kind}_sn", where, 0, 2**62)
    size = _whole(perf, f"{kind}_msg_size_bytes", where, 0, 2**50)
    time_us = _whole(perf, f"{kind}_exec_time_us", where, 0, _WEEK_US)
    communicator, name, word = (
        _text(*entry, where) for entry in ((header, "id"), (header, "comm_name"), (perf, kind))
    )
    collective = COLLECTIVES.get(word, "")
    if not collective or not size or not time_us:
        calls.uncounted["without bytes or time" if collective else f"of {word}"] += 1
        return
    total = size * ranks if collective in PARTS else size
    rate = perf.get(f"{kind}_algobw_gbs")
    # six decimals of GB/s
    if type(rate) is float and abs(rate * 1e3 * time_us - total) > 1e-5 * total + 1e-3 * time_us:
        calls.uncounted["whose bytes are not bandwidth times time"] += 1
        return
    place = CLOCKS.index(clock)
    labels = communicator, name, ranks, nodes, collective, place, total
    calls.rows.setdefault(labels, array("q")).extend((number, rank, time_us))


def _parts(record: object, where: str) -> tuple[_Object, _Object, _Object, str]:
    """The header, the metadata and the times of a record, and the word before their names."""
    value = record if isinstance(record, dict) else {}
    kind = "coll" if "coll_perf" in value else "p2p"
    header, about, perf = (value.get(key) for key in ("header", "metadata", f"{kind}_perf"))
    if isinstance(header, dict) and isinstance(about, dict) and isinstance(perf, dict):
        return {"comm_name": "unknown"} | header, about, perf, kind
    raise InputError(
        f"{where} is no record of NCCL Inspector: expected the objects header, metadata, and "
        f"coll_perf or p2p_perf"
    )


def _whole(part: _Object, key: str, where: str, least: int, end: int) -> int:
    value = part.get(key)
    if type(value) is int and least <= value < end:
        return value
    expected = f"expected a whole number from {least} to {end - 1}"
    raise InputError(f"{where} has the {key} {shown(value)}: {expected}")


def _text(part: _Object, key: str, where: str) -> str:
    value = part.get(key)
    if isinstance(value, str) and value and value.isprintable():
        return value[:80]
    raise InputError(f"{where} has the {key} {shown(value)}: expected a text")
