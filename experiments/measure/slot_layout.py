"""Places the slots of a schedule in an array of elements."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np

from simulator.schedules.schedule import Schedule
from topologies.errors import InputError
from topologies.topology import Ints


def granularity(schedule: Schedule) -> int:
    """The least number of elements that the slots of a schedule divide.

    Raises InputError if that is above 2^16 for one slot: shares like 1/3 and 0.15 are fine, 1/π is
    not. It also refuses slots whose sizes differ by rank.
    """
    if schedule.shares.ndim > 1:
        raise InputError(
            "the ranks of this algorithm hold data of different sizes: simctl measure runs "
            "algorithms whose ranks are alike"
        )
    shares = [Fraction(share).limit_denominator(2**16) for share in np.unique(schedule.shares)]
    if not np.allclose(
        [float(share) for share in shares], np.unique(schedule.shares), rtol=1e-9, atol=0
    ):
        raise InputError(
            f"slots with the shares {schedule.shares[:8].tolist()} cut no number of elements "
            f"exactly"
        )
    return lcm(*(share.denominator for share in shares))


def slot_bounds(schedule: Schedule, elements: int) -> Ints:
    """Where the slots of a schedule begin in a buffer of `elements` elements, a multiple of its
    granularity; and where the last one ends, scratch included. Shape (slots + 1,)."""
    sizes = np.rint(schedule.shares * elements).astype(np.int64)
    return np.concatenate(([0], np.cumsum(sizes)))


def slot_span(bounds: Ints, slot: int, count: int) -> slice:
    """The elements of `count` slots from `slot` on; none of slot -1."""
    return slice(int(bounds[slot]), int(bounds[slot + count])) if slot >= 0 else slice(0, 0)
