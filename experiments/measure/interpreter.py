"""Runs a rank's program on an array, over torch.distributed or the queues of a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from experiments.measure.program import ElementMove, Instruction, Message, RankProgram

Step = Callable[[], object]
Arrival = Callable[[], object]
"""Returns when a message is sent, or received."""


@dataclass(frozen=True)
class Transport:
    """Carries messages between ranks."""

    prepare: Callable[[Sequence[tuple[Message, Any]]], Callable[[], Sequence[Arrival]]]
    """From messages, each with its elements of the array, to a call that begins all of them."""
    copy: Callable[[Any, Any], object]
    """Overwrites the elements of the first array by those of the second."""
    add: Callable[[Any, Any], object]
    """Adds the elements of the second array to those of the first."""
    tagged: bool = True
    """Whether the number of a message is its tag. Without tags, messages between two ranks keep
    their order."""


def bind(program: RankProgram, memory: Any, transport: Transport) -> list[Step]:
    """The steps of a program on `memory`, an array of `program.size` elements.

    Call them in order, as often as you like; all preparation is done here.
    """
    arrivals: dict[int, Arrival] = {}

    def post(begin: Callable[[], Sequence[Arrival]], numbers: Sequence[int]) -> None:
        arrivals.update(zip(numbers, begin(), strict=True))

    def wait(number: int) -> None:
        arrivals[number]()

    def step(instruction: Instruction) -> Step:
        if isinstance(instruction, int):
            return partial(wait, instruction)
        if isinstance(instruction, ElementMove):
            move = transport.add if instruction.adds else transport.copy
            source, target = (memory[span] for span in instruction[:2])
            return partial(move, target, source)
        parts = [(message, memory[message.span]) for message in instruction]
        numbers = [message.number for message in instruction]
        return partial(post, transport.prepare(parts), numbers)

    return [step(instruction) for instruction in program.instructions]


def run(steps: Sequence[Step]) -> None:
    """Run bound steps once."""
    for step in steps:
        step()
