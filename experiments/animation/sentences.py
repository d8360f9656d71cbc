"""What happens in an animation, in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from experiments.animation.slot_contents import Run, Write
from experiments.names import rank_name
from experiments.output import counted
from simulator.schedules.schedule import TRANSFER


class Speaker:
    """Says what each operation of a run does."""

    def __init__(self, run: Run) -> None:
        self.run = run
        # Of each operation the last.
        self._writes = {write.operation: write for write in run.writes}
        self._sums = run.most > 1

    def rank(self, rank: int) -> str:
        """What a rank is called."""
        schedule = self.run.schedule
        if schedule.switches == 1 and rank == schedule.ranks - 1:
            return "the switch"
        name = rank_name(schedule, rank)
        return "the server" if name == "server" else name

    def slots(self, first: int, count: int = 1) -> str:
        """What some slots are called."""
        buffer = self.run.schedule.buffer
        name, place = ("slot", first) if first < buffer else ("scratch slot", first - buffer)
        return f"{name} {place}" if count == 1 else f"{name}s {place} to {place + count - 1}"

    def operation(self, number: int) -> str:
        """A sentence about an operation."""
        schedule = self.run.schedule
        rank, peer = (self.rank(int(side[number])) for side in (schedule.rank, schedule.peer))
        source, target, count = (
            int(column[number]) for column in (schedule.source, schedule.target, schedule.count)
        )
        if schedule.kind[number] != TRANSFER:
            return _capital(f"{rank} computes")
        write = self._writes.get(number)
        if source < 0 or target < 0:
            heard = f": {self._share(write, 'ranks')}" if write else ""
            return _capital(f"{rank} signals {peer}{heard}")
        moved, into = self.slots(source, count), self.slots(target, count)
        result = self._share(write, "contributions") if write else ""
        result = f": {result}" if result else ""
        if rank == peer:
            verb = "adds" if schedule.reduces[number] else "copies"
            return _capital(f"{rank} {verb} {moved} to {into}{result}")
        pronoun = "it" if count == 1 else "them"
        where = "" if target == source else f" {'to' if schedule.reduces[number] else 'in'} {into}"
        verb = "adds" if schedule.reduces[number] else "stores"
        return _capital(f"{rank} sends {moved} to {peer}, which {verb} {pronoun}{where}{result}")

    def step(self, operations: Sequence[int]) -> str:
        """A sentence about the transfers of a step: the first, and how many do the same."""
        if not operations:
            return ""
        first, others = self.operation(operations[0]), len(operations) - 1
        if not others:
            return f"{first}."
        if len({self._pattern(k) for k in operations}) == 1:
            does = "does" if others == 1 else "do"
            return f"{first}. {counted(others, 'more transfer')} {does} the same."
        return f"{first}. {counted(others, 'other transfer')} run{'s' * (others == 1)} meanwhile."

    def _pattern(self, number: int) -> tuple[object, ...]:
        schedule, write = self.run.schedule, self._writes.get(number)
        share = write and self._share(write, "")
        return int(schedule.reduces[number]), int(schedule.count[number]), share

    def _share(self, write: Write, noun: str) -> str:
        """How much of the promised value a slot holds after a write."""
        run, promised = self.run, self.run.promise.get(write.cell)
        whole = run.most if promised is None else promised.bit_count()
        count = (write.value & run.useful).bit_count()
        complete = write.value == promised
        if not self._sums or not count:
            return "complete" if complete else ""
        return f"{count} of {whole} {noun}{', complete' if complete else ''}"


def numbered(titles: Sequence[str]) -> list[str]:
    """Titles of steps with their place among neighbours of the same title.

    >>> numbered(["reduce", "reduce", "broadcast"])
    ['reduce, step 1 of 2', 'reduce, step 2 of 2', 'broadcast']
    """
    result = list[str]()
    for name, alike in groupby(titles):
        steps = len(list(alike))
        result += (
            [f"{name}, step {k + 1} of {steps}" for k in range(steps)] if steps > 1 else [name]
        )
    return result


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
