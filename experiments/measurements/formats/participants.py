"""Recognises the collective of a table, and how many ranks and nodes took part."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from experiments.measurements.collectives import PARTS, UNKNOWN, bus_factor, canonical
from experiments.measurements.formats.printed_table import Interval, PrintedRow
from experiments.output import counted

_DEVICE = re.compile(
    r"\bRank\s{1,9}([0-9]{1,7})\s{1,9}(?:Group\s{1,9}([0-9]{1,7})\s{1,9})?"
    r"(?:Pid\s{1,9}[0-9]{1,9}\s{1,9})?"
    r"(?:on\s{1,90}(\S{1,255})|uses)\s{1,9}device\s{1,9}[0-9]{1,4}"
    r"(?:\s{1,9}\[[0-9A-Fa-fx:.]{1,20}\]\s{1,9}(\w[\w .()/-]{0,79})$)?"
)


@dataclass(frozen=True)
class Device:
    """One rank of a list of devices."""

    rank: int
    """Its number; -1 if its line is torn."""
    group: int = 0
    host: str = ""
    model: str = ""


@dataclass(frozen=True)
class RankCount:
    """How many ranks and nodes took part. None: the log does not tell."""

    ranks: int | None
    nodes: int | None
    notes: tuple[str, ...] = ()
    per_node: int | None = None
    """Ranks of a node, if all nodes have as many."""


def device(text: str) -> Device | None:
    """The device in a line of the list of devices."""
    if entry := _DEVICE.search(text):
        return Device(int(entry[1]), int(entry[2] or 0), entry[3] or "", (entry[4] or "").strip())
    return (
        Device(-1)
        if re.search(r"#\s{0,9}Rank\s{1,9}[0-9]|\bPid\s{1,9}[0-9]{1,9}\s{1,9}on\s", text)
        else None
    )


def whole_list(devices: Sequence[Device], ranks_of_process: int) -> list[Device]:
    """All ranks of a list that holds only the first rank of each process; or the list as it is."""
    if any(entry.rank % ranks_of_process for entry in devices):
        return list(devices)
    return [
        replace(entry, rank=entry.rank + at) for entry in devices for at in range(ranks_of_process)
    ]


def programs(text: str) -> list[str]:
    """The benchmarks named in a line: `all_reduce` for a command with `all_reduce_perf`.

    >>> programs("+ srun ./build/alltoall_perf -b 8")
    ['alltoall']
    """
    return (
        re.findall(r"(?<![A-Za-z_])([A-Za-z_]{1,20})_perf(?![A-Za-rt-z])", text)
        if "_perf" in text
        else []
    )


def count_ranks(devices: Sequence[Device]) -> RankCount:
    """Ranks and nodes of rank 0's group, by the list of devices; unknown where the list is
    damaged."""
    if not devices:
        return RankCount(None, None)
    if reason := _doubt(devices):
        return RankCount(None, None, (f"number of ranks unknown: {reason}",))
    group = [
        entry
        for entry in devices
        if entry.group == min(devices, key=lambda entry: entry.rank).group
    ]
    notes = (
        ()
        if len(group) == len(devices)
        else (f"{len(devices)} ranks in groups of {len(group)}; ranks of one group",)
    )
    hosts = Counter(entry.host for entry in group)
    return RankCount(
        len(group),
        len(hosts),
        notes,
        max(hosts.values()) if len(set(hosts.values())) == 1 else None,
    )


def gpu_model(devices: Sequence[Device]) -> tuple[str, tuple[str, ...]]:
    """The model of all GPUs, or none and a note if there are several."""
    models = sorted({entry.model for entry in devices if entry.model})
    if len(models) > 1:
        return "", (f"{len(models)} models of GPU: {', '.join(models[:3])}",)
    return (models[0] if models else ""), ()


def name_collective(
    programs: Iterable[str], rows: Sequence[PrintedRow], ranks: int | None, ratio: Interval | None
) -> tuple[str, str]:
    """The collective and a note on how it is known, empty where the log names it. `ratio` is that
    of :func:`experiments.measurements.formats.printed_table.bus_ratio`."""
    names = {name: canonical(name) for name in programs}
    if len(names) == 1:
        ((printed, name),) = names.items()
        return (
            (name, "")
            if name
            else (UNKNOWN, f"collective unknown: {printed}_perf is not known to simctl")
        )
    pool = _pool(rows, ratio, ranks)
    likely = [name for name in pool if name in names.values()] or pool
    if len(likely) == 1:
        return likely[
            0
        ], f"collective inferred from redop, root and busbw: {likely[0]} is not named in the log"
    fits = f"redop, root and busbw fit {' or '.join(likely)}" if likely else "busbw fits none"
    return UNKNOWN, f"collective unknown: not named in the log, and {fits}"


def contradicts(collective: str, ranks: int, ratio: Interval | None) -> bool:
    """Whether the printed busbw is that of another collective or number of ranks."""
    return ratio is not None and collective != UNKNOWN and not _fits(collective, ratio, ranks)


def confirms(collective: str, ranks: int, ratio: Interval | None) -> bool:
    """Whether the printed busbw singles out this number of ranks."""
    if ratio is None or collective not in ("all_reduce", *PARTS):
        return False
    return [
        near for near in (ranks - 1, ranks, ranks + 1) if near and _fits(collective, ratio, near)
    ] == [ranks]


def _doubt(devices: Sequence[Device]) -> str:
    ranks = [entry.rank for entry in devices]
    if -1 in ranks:
        return "a line of the list of devices is torn"
    if len(set(ranks)) < len(ranks):
        twice = Counter(ranks).most_common(1)[0][0]
        return f"rank {twice} is listed twice (processes that did not join in one job?)"
    if set(ranks) != set(range(len(ranks))):
        return f"the list of devices has {counted(len(ranks), 'rank')}, the highest is {max(ranks)}"
    sizes = set(Counter(entry.group for entry in devices).values())
    return "" if len(sizes) == 1 else "the groups differ in size"


def _pool(rows: Sequence[PrintedRow], ratio: Interval | None, ranks: int | None) -> list[str]:
    rooted = rows[0].root is not None and rows[0].root >= 0
    if rows[0].redop not in ("", "none"):
        names = ["reduce"] if rooted else ["all_reduce", "reduce_scatter", "send_recv"]
    else:
        names = (
            ["broadcast", "gather", "scatter"]
            if rooted
            else ["all_gather", "all_to_all", "hypercube"]
        )
    names = [name for name in names if _place_fits(name, rows) and _algbw_fits(name, rows)]
    if ratio is None:
        return names
    return [name for name in names if _fits(name, ratio, ranks)]


def _algbw_fits(name: str, rows: Sequence[PrintedRow]) -> bool:
    """Hypercube prints busbw as its algbw."""
    return name != "hypercube" or all(
        cell.algbw == cell.busbw for row in rows for cell in row.cells
    )


def _place_fits(name: str, rows: Sequence[PrintedRow]) -> bool:
    """All-to-all and send-receive are never checked in place, the others always if they are out of
    place."""
    pairs = [row.cells for row in rows if len(row.cells) == 2 and row.cells[0].wrong != "N/A"]
    if not pairs:
        return True
    checked = any(cells[1].wrong != "N/A" for cells in pairs)
    return checked != (name in ("all_to_all", "send_recv"))


def _fits(collective: str, ratio: Interval, ranks: int | None) -> bool:
    counts = range(2, 4097) if ranks is None else (ranks,)
    return any(ratio[0] <= bus_factor(collective, count) <= ratio[1] for count in counts)
