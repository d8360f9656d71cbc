"""How the time of a run divides among its messages, by their sizes.

If the curve of message costs is off at a size, all runs with messages of this size are off alike:
each by the share of its time that these messages take.
"""

from __future__ import annotations

import numpy as np

from topologies.topology import Floats

OCTAVES = 48
"""Powers of 2 bytes that are told apart. Longer messages count as of the longest."""
LIKENESS_LENGTH = 1.5
"""The distance of two sizes, in powers of 2, at which their likeness has fallen to 1/sqrt(e)."""


def no_messages(points: int) -> Floats:
    """The shares of points whose messages are not known, shape (points, OCTAVES)."""
    return np.zeros((points, OCTAVES))


def shares(sizes: Floats, counts: Floats, latency: float, crossed: float) -> Floats:
    """The shares of a run's time that its messages take by size, shape (OCTAVES,): at each power of
    2 bytes. A size between two powers is divided among both.

    There are `counts` messages of each of `sizes` bytes. `latency` is the share of the time that is
    α and g, and each message has as much of it. `crossed` is the share that bytes take on links.

    >>> shares(np.array([4.0, 12.0]), np.array([1, 1]), 0.2, 0.4)[:5].round(3).tolist()
    [0.0, 0.0, 0.2, 0.166, 0.234]
    """
    if not len(sizes):
        return np.zeros(OCTAVES)
    each = latency * counts / counts.sum()
    moved = counts * sizes
    if moved.any():
        each = each + crossed * moved / moved.sum()
    at = np.clip(np.log2(np.maximum(sizes, 1)), 0, OCTAVES - 1)
    low = np.minimum(at.astype(np.int64), OCTAVES - 2)
    above = at - low
    lower, upper = (
        np.bincount(place, weights, OCTAVES)
        for place, weights in ((low, each * (1 - above)), (low + 1, each * above))
    )
    return np.asarray(lower + upper)


def message_likeness(left: Floats, right: Floats) -> Floats:
    """How far the same messages make up two sets of points, shape (left, right). Points that are
    nothing but messages of one size have 1."""
    return np.asarray(left @ _KERNEL @ right.T)


def own_likeness(messages: Floats) -> Floats:
    """As :func:`message_likeness`, of each point with itself, shape (points,)."""
    return np.asarray(np.einsum("po,po->p", messages @ _KERNEL, messages))


_KERNEL = np.exp(
    -0.5 * (np.subtract.outer(np.arange(OCTAVES), np.arange(OCTAVES)) / LIKENESS_LENGTH) ** 2
)
