"""Whether the shifts that an algorithm of a user declares take its schedule to itself."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import Algorithm
from simulator.schedules.folding import spread
from simulator.schedules.schedule import Schedule
from topologies.errors import InputError

SMALL = (2, 3, 4, 6, 8)
"""Numbers of ranks that are tried."""
Rows = npt.NDArray[np.int64]


def check_shifts(algorithm: Algorithm) -> None:
    """Compare what one rank of each orbit stands for with the schedule of all ranks, on few ranks.

    Raises InputError with the first operation that differs.

    >>> from simulator.collectives import find
    >>> check_shifts(find("ring"))
    """
    if algorithm.fit is not None or algorithm.shifts_on is not None:
        return
    for ranks in filter(algorithm.defined, SMALL):
        shifts = algorithm.shifts(ranks)
        if shifts is None:
            continue
        whole = algorithm.schedule(ranks, 1.0)
        folded = algorithm.schedule(ranks, 1.0, shifts)
        if folded.fold is not None:
            where = f"{algorithm.origin}: {algorithm.name} has wrong shifts on {ranks} ranks"
            _compare(_rows(whole), _rows(folded), where)


def _rows(schedule: Schedule) -> Rows:
    """What the operations of all ranks do with each slot: rank by rank, in their order."""
    operation, offset = spread(np.maximum(schedule.count, 1))
    columns = "rank", "peer", "source", "target", "lane", "kind", "reduces"
    plain = [getattr(schedule, name)[operation] for name in columns]
    plain[2:4] = [np.where(slot < 0, slot, slot + offset) for slot in plain[2:4]]
    parts = [np.stack([*plain, operation])]
    if schedule.fold is not None:
        shifts, rank_and_peer, slots = schedule.fold.shifts, plain[:2], plain[2:4]
        parts = []
        for element in shifts.elements:
            ends = [shifts.shifted(end, element) for end in rank_and_peer]
            ends += [shifts.slots_shifted(end, element, schedule.fold.moves) for end in slots]
            channel = schedule.fold.channel(plain[4], element)
            parts.append(np.stack([*ends, channel, *plain[5:], operation]))
    rows = np.concatenate(parts, axis=1).T.astype(np.int64)
    rank, source = rows[:, 0], rows[:, 2]
    return rows[np.lexsort((source, rows[:, -1], rank)), :-1]


def _compare(whole: Rows, folded: Rows, where: str) -> None:
    if len(whole) != len(folded):
        raise InputError(
            f"{where}: by them {len(folded)} slots are sent, without them {len(whole)}"
        )
    wrong = np.flatnonzero((whole != folded).any(axis=1))
    if len(wrong):
        right, declared = (_words(rows[wrong[0]]) for rows in (whole, folded))
        raise InputError(f"{where}: by them {declared}, without them {right}")


def _words(row: npt.NDArray[np.int64]) -> str:
    rank, peer, source, target, channel, _, reduces = row.tolist()
    verb = "adds" if reduces else "copies"
    ends = f"its slot {source} to slot {target} of rank {peer}"
    return f"rank {rank} {verb} {ends} on channel {channel}"
