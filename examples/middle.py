"""An algorithm of your own: see docs/how-to/your-own-algorithm.md."""

from simulator.collectives.declaration import algorithm
from simulator.schedules.schedule_builder import ScheduleBuilder


@algorithm("all_reduce")
def middle(ranks, nbytes):
    """From both ends of a line to its middle, and back."""
    line, half = ScheduleBuilder(ranks, nbytes), ranks // 2
    inwards = [(rank, rank + 1) for rank in range(half)]
    inwards += [(rank, rank - 1) for rank in range(ranks - 1, half, -1)]
    for rank, peer in inwards:
        line.reduce(rank, peer, slot=0)
    for peer, rank in reversed(inwards):
        line.copy(rank, peer, slot=0)
    return line.build()
