"""Schedules small enough to follow with a finger, and who waits for whom in any."""

from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder


def messages(*sizes: float) -> Schedule:
    """Messages of rank 0 to rank 1, all ready at 0."""
    return between(*((0, 1, nbytes) for nbytes in sizes))


def equal_messages(count: int, nbytes: float) -> Schedule:
    """`count` messages of rank 0 to rank 1, all ready at 0."""
    return between(*[(0, 1, nbytes)] * count)


def between(*transfers: tuple[int, int, float]) -> Schedule:
    """(sender, receiver, bytes), all ready at 0."""
    builder = ScheduleBuilder(1 + max(max(source, target) for source, target, _ in transfers), 1.0)
    for source, target, nbytes in transfers:
        builder.signal(source, target, nbytes=nbytes)
    return builder.build()


def three_rank_child() -> Schedule:
    """Two copies to rank 2, a signal that waits for them, a computation on lane 2: to be
    inlined."""
    child = ScheduleBuilder(3, 30.0, slots=2, phase="inner")
    first = child.copy([0, 1], 2, slot=[0, 1])
    child.phase("told")
    child.signal(2, 0, after=first)
    child.compute(1, 4.0, lane=2, reads=0)
    return child.build()


def waits(schedule: Schedule, operation: int) -> list[int]:
    """What an operation waits for, in order."""
    return [int(before) for before in schedule.predecessors(operation)]


def predecessors(schedule: Schedule) -> list[set[int]]:
    """What every operation waits for."""
    return [set(schedule.predecessors(i).tolist()) for i in range(len(schedule))]


def ancestors(edges: list[set[int]]) -> list[set[int]]:
    """The transitive closure of edges that lead backwards."""
    known: list[set[int]] = []
    for before in edges:
        known.append(before.union(*(known[i] for i in before)))
    return known
