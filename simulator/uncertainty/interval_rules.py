"""The rules of intervals: how alike the residuals of two points are, and how they grow with the
distance from what was measured."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from annotated_types import Ge, Le

Deviation = Annotated[float, Ge(0), Le(10)]
"""A standard deviation of log(measured / predicted)."""
Length = Annotated[float, Ge(1), Le(1e12)]
"""A factor in size or ranks over which a likeness falls to 1/e."""
Share = Annotated[float, Ge(0), Le(1)]
"""A part of a whole."""
Points = Annotated[float, Ge(1), Le(1e6)]
"""A number of points."""
FREEDOM = 4.0
"""Degrees of freedom of Student's t: outliers are more frequent than in a normal distribution."""


class IntervalRules(NamedTuple):
    """What calibration learnt from families of curves that it had left out."""

    machine: Deviation
    """What all points of a machine share."""
    collective: Deviation
    """What the points of a collective share besides."""
    algorithm: Deviation
    """What the points of an algorithm share besides."""
    allocation: Deviation
    """What points on the same ranks and nodes share besides."""
    curve: Deviation
    """What points of an algorithm on the same ranks and nodes share besides."""
    noise: Deviation
    """What no two points share."""
    size: Length
    """Over which factor in size a likeness falls to 1/e."""
    ranks: Length
    """Over which factor in ranks it does."""
    parameters: Deviation
    """The factor on what uncertain parameters contribute where no point was measured."""
    more_ranks: Deviation
    """Added for twice the ranks or nodes that were measured; grows with the doublings to 0.75."""
    more_bytes: Deviation
    """Added for twice the size that was measured; grows with the root of the doublings."""
    network: Deviation
    """Added over several nodes if only one node was measured, or the reverse."""
    other_algorithm: Deviation
    """Added for an algorithm that was not measured."""
    other_collective: Deviation
    """Added for a collective that was not measured."""
    own_scale: Share = 0.0
    """How far a profile's own residuals set the scale of all spreads: 0 not at all, 1 wholly."""
    usual_scale: Points = 1.0
    """So many points of a profile count as much as the usual scale does."""
    message: Deviation = 0.0
    """What messages of one size share besides, in all algorithms and on all ranks of a collective.
    A point has it as far as messages make up its time."""
    job: Deviation = 0.0
    """Added for another job than the measured ones: another day, and other nodes of the machine.
    It was learnt on ranks and nodes on which no job was measured."""
