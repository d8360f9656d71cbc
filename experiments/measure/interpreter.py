"""Runs a rank's program on an array, over torch.distributed or the queues of a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from experiments.measure.program import Message, Move, Post, Program, Wait
from experiments.measure.slot_layout import Span

Step = Callable[[], object]


class Parcel(NamedTuple):
    """A message and its elements of the array."""

    message: Message
    elements: Any


class Handle(Protocol):
    """A message under way."""

    def wait(self) -> object:
        """Return when it is sent, or received."""


class Transport(Protocol):
    """Carries messages between ranks."""

    def prepare(self, parcels: Sequence[Parcel]) -> Callable[[], Sequence[Handle]]:
        """A call that begins all parcels and returns a handle for each."""

    def copy(self, target: Any, source: Any) -> object:
        """Overwrite the elements of `target`."""

    def add(self, target: Any, source: Any) -> object:
        """Add to the elements of `target`."""


def bind(program: Program, memory: Any, transport: Transport) -> list[Step]:
    """The steps of a program on `memory`, an array of `program.size` elements.

    Call them in order, as often as you like; all preparation is done here.
    """
    handles: dict[int, Handle] = {}

    def cut(span: Span) -> Any:
        return memory[span.begin : span.end]

    def step(instruction: Post | Wait | Move) -> Step:
        match instruction:
            case Post(messages):
                parcels = [Parcel(message, cut(message.span)) for message in messages]
                return partial(
                    _post,
                    transport.prepare(parcels),
                    [message.number for message in messages],
                    handles,
                )
            case Wait(number):
                return partial(_wait, handles, number)
            case Move(source, target, adds):
                return partial(transport.add if adds else transport.copy, cut(target), cut(source))

    return [step(instruction) for instruction in program.instructions]


def run(steps: Sequence[Step]) -> None:
    """Run bound steps once."""
    for step in steps:
        step()


def _post(
    begin: Callable[[], Sequence[Handle]], numbers: Sequence[int], handles: dict[int, Handle]
) -> None:
    handles.update(zip(numbers, begin(), strict=True))


def _wait(handles: dict[int, Handle], number: int) -> None:
    handles[number].wait()
