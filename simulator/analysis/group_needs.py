"""The bytes that a collective must move between groups of devices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import Collective, Pairs
from topologies.topology import Flags, Floats, Ints

Longs = npt.NDArray[np.int64]
Shares = Floats | Longs | Flags


class Needs(NamedTuple):
    """Bytes that must leave and enter each group of devices, and all that must go from group to
    group. The unit is V."""

    leave: Floats
    enter: Floats
    total: float


def needs(collective: Collective, group: Ints, groups: int) -> Needs:
    """The bytes that `collective` must move between groups of devices. Worker r is in `group[r]`.

    A group of k of p workers must get the data that it lacks, and must send the data that others
    lack:

    - All-gather: k/p of V leave the group, and (p - k)/p enter it.
    - Reduce-scatter: the reverse, since a group may merge data before it sends them.
    - All-reduce: V leaves and enters each of m groups, and 2(m - 1)V move in all. Until some group
      knows the sum of a byte, each other group has sent something. After that, each other group
      receives something.
    """
    workers = np.bincount(group, minlength=groups)
    occupied = workers > 0
    if collective.pairs is not None:
        leave, enter = _of_pairs(collective.pairs(len(group)), collective.merges, group, groups)
    else:
        share = weights(collective, group, groups)
        root = np.arange(groups) == group[0]
        leave, enter = _leave_and_enter(collective.family, group, share, occupied, root)
    split = float(np.count_nonzero(occupied) > 1)
    total = (
        2.0 * (np.count_nonzero(occupied) - 1)
        if collective.name == "all_reduce"
        else max(leave.sum(), enter.sum())
    )
    out, into = (np.asarray(split * column, dtype=np.float64) for column in (leave, enter))
    return Needs(out, into, split * float(total))


def weights(collective: Collective, group: Ints, groups: int) -> Floats:
    """The chunks of the ranks of each group, as shares of V."""
    if collective.shares is None:
        return np.bincount(group, minlength=groups) / len(group)
    return np.asarray(np.bincount(group, collective.shares(len(group)), groups), np.float64)


def _of_pairs(pairs: Pairs, merges: bool, group: Ints, groups: int) -> tuple[Shares, Shares]:
    """What pairs send between groups: all of it, or a single sum if messages may be merged."""
    crossing = group[pairs.source] != group[pairs.target]
    leave, enter = (
        np.bincount(group[end[crossing]], pairs.share[crossing], groups)
        for end in (pairs.source, pairs.target)
    )
    return (leave > 0, enter > 0) if merges else (leave, enter)


def _leave_and_enter(
    name: str, group: Ints, share: Floats, occupied: Flags, root: Flags
) -> tuple[Shares, Shares]:
    """The bytes that leave and enter each group, if there are several. `share` has the chunks of
    each group."""
    match name:
        case "all_reduce":
            return occupied, occupied
        case "reduce":
            return occupied & ~root, root
        case "broadcast":
            return root, occupied & ~root
        case "scatter":
            return root * (1.0 - share), share * ~root
        case "gather":
            return share * ~root, root * (1.0 - share)
        case "all_gather":
            return share, occupied * (1.0 - share)
        case "reduce_scatter":
            return occupied * (1.0 - share), share
        case "all_to_all":
            moved = share * len(group) * (occupied * (1.0 - share))
            return moved, moved
        case "ring_exchange":
            blocks = share * len(group)
            return blocks, occupied * (len(group) - blocks)
        case "send_recv":
            later = np.roll(group, -1)
            leave, enter = (
                np.bincount(end[group != later], minlength=len(share)) for end in (group, later)
            )
            return leave, enter
    return np.zeros(len(share)), np.zeros(len(share))
