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


def first_wrong(run: Run) -> FirstWrong | None:
    """The first write after which a promised result cannot become right; None if all are right.

    Only writes count that flow into a wrong result. Such a write is wrong if it

    - adds a contribution that is there already;
    - brings a contribution that does not belong into the result;
    - overwrites a contribution that the result misses in the end;
    - makes the value that the result has in the end, which misses a contribution.
    """
    doubled, reduces = _doubled(run), run.schedule.reduces.tolist()
    ends = {
        cell: (expected, run.last[cell])
        for cell, expected in run.promise.items()
        if run.last[cell] != expected or cell in doubled
    }
    if not ends:
        return None
    misses = list(dict.fromkeys(ends.values()))
    number = {miss: place for place, miss in enumerate(misses)}
    reach = {cell: 1 << number[miss] for cell, miss in ends.items()}
    flows = list[int]()
    for write in reversed(run.writes):
        into = reach.get(write.cell, 0)
        flows.append(into)
        if into:
            if not reduces[write.operation]:
                del reach[write.cell]
            reach[write.origin] = reach.get(write.origin, 0) | into
    for place, (write, into) in enumerate(zip(run.writes, reversed(flows), strict=True)):
        flawed = [miss for bit, miss in enumerate(misses) if into >> bit & 1]
        if flawed and (reason := _reason(run, write, flawed)):
            return FirstWrong(place, write.cell, reason)
    cell, (expected, actual) = next(iter(ends.items()))
    lacking = _named(run, expected & ~actual)
    return FirstWrong(None, cell, f"nothing brings {lacking}")


def _doubled(run: Run) -> set[int]:
    """Cells that end with a contribution more than once."""
    reduces, doubled = run.schedule.reduces.tolist(), set[int]()
    for write in run.writes:
        adds = reduces[write.operation]
        twice = adds and write.carried & write.before
        if twice or write.origin in doubled or (adds and write.cell in doubled):
            doubled.add(write.cell)
        else:
            doubled.discard(write.cell)
    return doubled


def _reason(run: Run, write: Write, misses: list[tuple[int, int]]) -> str:
    """What is wrong with a write that flows into results with an expected and an actual value; ""
    if nothing is."""
    reduces, before, value = run.schedule.reduces[write.operation], write.before, write.value
    if reduces and (twice := before & write.carried):
        return f"{_named(run, twice)} is added twice"
    for expected, actual in misses:
        missing = expected & ~actual
        if strange := value & ~expected:
            return f"{_named(run, strange)} does not belong there"
        if not reduces and (lost := before & missing & ~value):
            return f"{_named(run, lost)} is overwritten"
        if missing and value == actual:
            return f"{_named(run, missing)} is missing, and nothing adds it later"
    return ""


def _named(run: Run, contributions: int) -> str:
    """The lowest of some contributions, and how many more there are."""
    schedule, bit = run.schedule, (contributions & -contributions).bit_length() - 1
    inputs = schedule.workers * schedule.buffer
    if bit < inputs:
        rank, slot = divmod(bit, schedule.buffer)
        name = f"rank {rank}, slot {slot}"
    else:
        rank = (bit - inputs) // schedule.slots
        name = f"scratch of rank {rank} that nothing has been written to"
    more = contributions.bit_count() - 1
    return f"the contribution of {name}" + f" (and {more} more)" * (more > 0)
