"""The first operation of a wrong algorithm that makes a value which cannot become right."""

from __future__ import annotations

from typing import NamedTuple

from experiments.animation.slot_contents import Run, Write


class FirstWrong(NamedTuple):
    """Where an algorithm goes wrong."""

    write: int | None
    """The place in the writes of the run; None if the wrong result is never written."""
    cell: int
    """The cell that holds the wrong value."""
    reason: str
    """What is wrong with the value, in words."""


class Miss(NamedTuple):
    """A wrong result."""

    expected: int
    """The contributions that are promised."""
    actual: int
    """Those that the result holds."""


def first_wrong(run: Run) -> FirstWrong | None:
    """The first write after which a promised result cannot become right; None if all are right.

    Only writes count that flow into a wrong result. Such a write is wrong if it

    - adds a contribution that is there already;
    - brings a contribution that does not belong into the result;
    - overwrites a contribution that the result misses in the end;
    - makes the value that the result has in the end, which misses a contribution.
    """
    sets = run.values.sets
    doubled = _doubled(run)
    ends = {
        cell: Miss(expected, sets[run.last[cell]])
        for cell, expected in run.promise.cells.items()
        if sets[run.last[cell]] != expected or cell in doubled
    }
    if not ends:
        return None
    misses = list(dict.fromkeys(ends.values()))
    number = {miss: place for place, miss in enumerate(misses)}
    reach = {cell: 1 << number[miss] for cell, miss in ends.items()}
    flows = [0] * len(run.writes)
    reduces = run.schedule.reduces.tolist()
    for place in range(len(run.writes) - 1, -1, -1):
        write = run.writes[place]
        into = flows[place] = reach.get(write.cell, 0)
        if into:
            if not reduces[write.operation]:
                del reach[write.cell]
            reach[write.origin] = reach.get(write.origin, 0) | into
    for place, write in enumerate(run.writes):
        if flows[place] and (reason := _reason(run, write, flows[place], misses)):
            return FirstWrong(place, write.cell, reason)
    cell, miss = next(iter(ends.items()))
    lacking = _named(run, miss.expected & ~miss.actual)
    return FirstWrong(None, cell, f"nothing brings the contribution of {lacking}")


def _doubled(run: Run) -> set[int]:
    """Cells that end with a contribution more than once."""
    sets, reduces = run.values.sets, run.schedule.reduces.tolist()
    doubled = set[int]()
    for write in run.writes:
        adds = reduces[write.operation]
        twice = adds and sets[write.carried] & sets[write.before]
        if twice or write.origin in doubled or (adds and write.cell in doubled):
            doubled.add(write.cell)
        else:
            doubled.discard(write.cell)
    return doubled


def _reason(run: Run, write: Write, into: int, misses: list[Miss]) -> str:
    """What is wrong with a write that flows into these results; "" if nothing is."""
    sets, reduces = run.values.sets, run.schedule.reduces[write.operation]
    before, carried, value = sets[write.before], sets[write.carried], sets[write.value]
    if reduces and (twice := before & carried):
        return f"the contribution of {_named(run, twice)} is added twice"
    while into:
        miss = misses[(into & -into).bit_length() - 1]
        into &= into - 1
        if strange := value & ~miss.expected:
            return f"the contribution of {_named(run, strange)} does not belong there"
        missing = miss.expected & ~miss.actual
        if not reduces and (lost := before & missing & ~value):
            return f"the contribution of {_named(run, lost)} is overwritten"
        if missing and value == miss.actual:
            return (
                f"the contribution of {_named(run, missing)} is missing, and nothing adds it later"
            )
    return ""


def _named(run: Run, contributions: int) -> str:
    """The lowest of some contributions, and how many more there are."""
    schedule, bit = run.schedule, (contributions & -contributions).bit_length() - 1
    own = schedule.workers * schedule.buffer
    if bit < own:
        rank, slot = divmod(bit, schedule.buffer)
        name = f"rank {rank}, slot {slot}"
    else:
        rank, slot = divmod(bit - own, schedule.slots)
        name = f"scratch of rank {rank} that nothing has been written to"
    more = contributions.bit_count() - 1
    return f"{name} (and {more} more)" if more else name
