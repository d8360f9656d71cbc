"""Findings in a curve, and the thresholds that decide about them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

BOTH_SIDES = 1.5
"""A size is abnormal that takes this many times what the sizes on both sides of it allow. Where a
library changes its algorithm or protocol it may well do worse for a size or two: on healthy
machines by up to 1.44 (NCCL's all-reduce) and 1.52 in bandwidth (NCCL's broadcast), also when it is
repeated in place."""
ONE_SIDE = 2.0
"""The same where one side is all there is: the smallest sizes (cold clocks, first use of buffers)
and the largest one, of which nobody knows what would come next."""
LOST_BANDWIDTH = 4.0
"""A protocol is abnormal that loses this factor of the bandwidth that smaller sizes reach. Healthy
libraries lose up to 3.4 between short protocols (Cray MPICH on GPUs, 128 KiB), MPI on the host up
to 3.2."""
BANDWIDTH_SHARE = 1 / 6
"""The share of a curve's best bandwidth from which bandwidth matters: where smaller sizes of GPU
buffers reach it, a protocol that loses a factor of ONE_SIDE is abnormal. Healthy libraries lose up
to 1.8 there."""
SHARED_STEP = 1.7
"""A step below this factor that most peers have at the same size is the library's choice."""
FALLS = 1.25
"""Time that falls by this much as size grows is beyond noise: of sizes measured twice, 99 in 100
are nearer."""
ATTACHED = 1.15
"""A neighbour of an abnormal size belongs to it if it is slow by this much."""
FEWEST_POINTS = 3
"""Points of a curve from which on its shape can be judged: the size in question and one on each
side."""
FAR_BELOW = 0.6
"""A plateau is far below the machine's at this fraction: NCCL reaches 70 to 100% of what its
simulation does."""
STANDSTILL = 64.0
"""Sizes from 1 MiB on that differ by this much take different times: by FALLS or more on every
machine measured."""
MISFIT = 2.0
"""A profile whose every time is off by this much, in one direction, is not this machine's."""


class FindingKind(StrEnum):
    """What a finding is about."""

    WRONG_RESULT = "wrong result"
    SLOW_START = "slow start"
    BUMP = "bump"
    PLATEAU_DROPS = "plateau drops"
    COSTLY_SWITCH = "costly switch"
    IN_PLACE_DIFFERS = "in place differs"
    BELOW_EXPECTATION = "below expectation"
    FAR_BELOW = "far below"
    FAR_BELOW_IN_A_NODE = "far below in a node"
    SLOWER_SETUP = "slower set-up"
    PROFILE_DOES_NOT_FIT = "profile does not fit"
    BEATS_THE_BOUND = "beats the bound"
    OUTSIDE = "outside the interval"
    MEMORY = "memory"
    TIME_FALLS = "time falls"
    TIME_STANDS_STILL = "time stands still"


class Finding(NamedTuple):
    """Something about some points of a curve."""

    kind: FindingKind
    places: tuple[int, ...]
    """Indices of the points."""
    factor: float
    """How many times slower, less or more it is than it should be."""
    text: str
    alarm: bool = True
    """Whether it is a sign of a sick machine; otherwise it is only worth knowing."""


def finding(
    kind: FindingKind, places: Iterable[int], factor: float, text: str, alarm: bool = True
) -> Finding:
    """The finding of places and a factor in numpy's types."""
    return Finding(kind, tuple(map(int, places)), float(factor), text, bool(alarm))
