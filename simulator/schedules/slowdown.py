"""Computations that communication slows down."""

from __future__ import annotations

import numpy as np

from topologies.topology import Floats


def slowed(
    start: Floats, seconds: Floats, busy: tuple[Floats, Floats], slowdown: float, until: float
) -> Floats:
    """What computations take that start at `start` and would take `seconds` by themselves.

    Within the intervals of `busy`, which has their starts and ends in order, a second counts as
    1 / (1 + slowdown) seconds. A computation ends when its seconds add up. All start before
    `until`.
    """
    begin, end = busy
    if not len(begin):
        return seconds.copy()
    # Work done since time 0 is piecewise linear in time: slope 1, and 1 / (1 + s) while
    # communicating.
    corners = np.concatenate(([0.0], np.stack((begin, end), axis=1).ravel()))
    slope = np.where(np.arange(len(corners) - 1) % 2 == 0, 1.0, 1 / (1 + slowdown))
    work = np.concatenate(([0.0], np.cumsum(np.diff(corners) * slope)))
    far = 1e3 * (1 + until)
    corners, work = np.append(corners, corners[-1] + far), np.append(work, work[-1] + far)
    keep = np.concatenate(([True], np.diff(work) > 0))
    done = np.interp(np.interp(start, corners, work) + seconds, work[keep], corners[keep])
    return np.asarray(np.where(seconds > 0, done - start, 0.0))
