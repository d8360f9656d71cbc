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
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from experiments.measurements.curve import WAITING, Curve, Measurements, Point, ranks_per_node
from experiments.output import counted
from topologies.errors import InputError, shown

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


class _Series(NamedTuple):
    """The operations of one kind and size. The clock is a place in `CLOCKS`, the size is in bytes
    as nccl-tests counts them."""

    communicator: str
    name: str
    ranks: int
    nodes: int
    collective: str
    clock: int
    size: int


@dataclass
class InspectorCalls:
    """The operations in the logs of a job's ranks."""

    files: list[str] = field(default_factory=list)
    rows: dict[_Series, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("q")))
    """The number of the call, the rank and the microseconds of each record, one after the other."""
    skipped: list[str] = field(default_factory=list)
    uncounted: Counter[str] = field(default_factory=Counter)
    """Records that do not count, by the reason."""

    def add(self, other: InspectorCalls) -> None:
        """Add the operations in other files of the job."""
        self.skipped += [f"{other.files[0]}: {line}" for line in other.skipped]
        self.files += other.files
        for series, rows in other.rows.items():
            self.rows[series].extend(rows)
        self.uncounted += other.uncounted

    def measurements(self) -> Measurements:
        """A curve for each communicator and collective. Raises InputError without any."""
        curves, uncounted = [], Counter(self.uncounted)
        for _, alike in groupby(sorted(self.rows), key=lambda series: series[:5]):
            best, *others = ([*each] for _, each in groupby(alike, key=lambda each: each.clock))
            curves.append(self._curve(best))
            for series in (series for other in others for series in other):
                why = f"by {CLOCKS[series.clock]}, where others are by {CLOCKS[best[0].clock]}"
                uncounted[why] += len(self.rows[series]) // 3
        lines = [f"{counted(number, 'record')} {why}" for why, number in uncounted.items()]
        if not curves:
            why = "; ".join([*lines, *self.skipped]) or "no record in it"
            raise InputError(f"no usable record of NCCL Inspector in {self.files[0]}: {why}")
        return Measurements(tuple(curves), (*self.skipped, *lines))

    def _curve(self, series: Sequence[_Series]) -> Curve:
        first = series[0]
        sizes = [_size(each, self.rows[each]) for each in series]
        return job_curve(
            first.collective,
            first.ranks,
            first.nodes,
            [size.point for size in sizes],
            source_of(self.files, first.communicator),
            _notes(first, sizes),
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


def read_inspector(lines: Iterable[bytes], name: str) -> InspectorCalls:
    """The operations in the lines of the log `name`.

    A last line that is cut is left out. Raises InputError for any other line that is no record.
    """
    calls = InspectorCalls([name])
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


def _add(calls: InspectorCalls, record: object, where: str) -> None:
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
    series = _Series(communicator, name, ranks, nodes, collective, place, total)
    calls.rows[series].extend((number, rank, time_us))


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


class _Size(NamedTuple):
    """The calls of a size: the time, how many have the records of all ranks or not, and how many
    records stand twice."""

    point: Point
    whole: int
    partial: int
    repeated: int


def _size(series: _Series, flat: array[int]) -> _Size:
    import numpy as np

    rows = np.frombuffer(flat, dtype=np.int64).reshape(-1, 3)
    rows = rows[np.lexsort(rows.T[::-1])]
    once = rows[np.append(True, np.diff(rows[:, :2], axis=0).any(axis=1))]
    begins = np.flatnonzero(np.append(True, np.diff(once[:, 0]) != 0))
    complete = np.diff(np.append(begins, len(once))) == series.ranks
    times_us = np.minimum.reduceat(once[:, 2], begins)
    if series.collective == "send_recv":
        times_us, complete = once[:, 2], np.ones(len(once), dtype=bool)
    whole = int(complete.sum())
    seconds = (times_us[complete] if whole else times_us) / 1e6
    mean = float(seconds.mean())
    point = Point(
        series.size,
        float(np.median(seconds)),
        cv=float(seconds.std()) / mean,
        repetitions=len(seconds),
        min_s=float(seconds.min()),
        p90_s=float(np.quantile(seconds, 0.9)),
        mean_s=mean,
    )
    return _Size(point, whole, len(complete) - whole, len(rows) - len(once))


def _notes(series: _Series, sizes: Sequence[_Size]) -> Iterator[str]:
    messages = series.collective == "send_recv"
    numbers = sorted({size.point.repetitions or 0 for size in sizes})
    spread = median([(size.point.p90_s or 0.0) / size.point.time_s - 1 for size in sizes])
    yield (
        f"communicator {series.name!r} of {counted(series.ranks, 'rank')}: a size has the median "
        f"of {' to '.join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))} "
        f"{'sends and receives' if messages else 'calls, a call its shortest kernel'}; the 90th "
        f"percentile is {spread:.0%} above"
    )
    if partial := sum(size.partial for size in sizes if size.whole):
        yield f"{counted(partial, 'call')} without the records of all ranks: left out"
    if alone := sum(not size.whole for size in sizes):
        yield (
            f"{counted(alone, 'size')} without a call that has the records of all ranks: {WAITING} "
            f"for ranks"
        )
    if repeated := sum(size.repeated for size in sizes):
        yield f"{counted(repeated, 'record')} of the same call and rank as another: left out"
    if series.clock:
        yield f"the clock of the times is {CLOCKS[series.clock]}, not the GPU's"
    if series.collective in ("broadcast", "reduce", "send_recv"):
        yield (
            f"{WAITING} for the peer and for other messages"
            if messages
            else "a rank may leave before the last has its data: times may be short"
        )
