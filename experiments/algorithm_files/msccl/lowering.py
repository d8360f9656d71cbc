"""An MSCCL program as lanes, and as a schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from experiments.algorithm_files.lanes import (
    Instruction,
    Lane,
    Layout,
    Move,
    Place,
    Post,
    Wait,
    run,
)
from experiments.algorithm_files.msccl.msccl_program import (
    RECEIVES,
    SENDS,
    Block,
    Chunks,
    Program,
    Step,
)
from simulator.schedules.schedule import LIMIT, Schedule
from topologies.errors import InputError

FIFO = 8
"""Messages that a connection holds: NCCL_STEPS."""
Connection = tuple[int, int, int]
"""Sender, receiver and channel."""


@dataclass
class Lowering:
    """The slots of a program, and its connections."""

    program: Program
    loops: int = 1
    """Pieces of every chunk: the program runs once for each."""
    fifo: dict[Connection, tuple[int, int]] = field(default_factory=dict)
    """The first slot of a connection's messages at the receiver, and the slots of a message."""
    scratch: int = 0
    """The slots of a rank behind the buffer."""

    def __post_init__(self) -> None:
        program = self.program
        self.outputs = 0 if program.in_place else max(gpu.outputs for gpu in program.gpus)
        self.per_loop = self.outputs + max(gpu.scratch for gpu in program.gpus)
        self.base = self.loops * (program.chunks + self.per_loop)
        _check_connections(program)
        self._place_messages()
        self.scratch += self.loops * self.per_loop
        if len(program.gpus) * (program.chunks * self.loops + self.scratch) > LIMIT:
            raise InputError("the program has too many chunks: simctl takes 2^30 in all")

    def _place_messages(self) -> None:
        sizes: dict[Connection, tuple[int, int]] = {}
        for rank, gpu in enumerate(self.program.gpus):
            for block in gpu.blocks:
                for step in block.steps:
                    if step.kind in SENDS:
                        key = rank, block.send, block.channel
                        number, most = sizes.get(key, (0, 0))
                        sizes[key] = number + 1, max(most, step.count)
        used = Counter[int]()
        for key, (number, count) in sizes.items():
            self.fifo[key] = self.base + used[key[1]], count
            used[key[1]] += min(FIFO, number * self.loops) * count
        self.scratch = max(used.values(), default=0)

    def lanes(self, slots: int) -> Iterator[Lane]:
        """A lane for each thread block, with connections of so many slots."""
        for rank, gpu in enumerate(self.program.gpus):
            for number, block in enumerate(gpu.blocks):
                yield self._block(rank, number, block, slots)

    def deadlock(self, slots: int) -> str:
        """Where the program is stuck with connections of so many slots; nowhere if it ends."""
        return run(self.lanes(slots), check=False).stuck

    def schedule(self) -> Schedule:
        """The schedule for V = 1 byte. Raises InputError if the program is stuck, or if nothing
        orders two steps on the same chunk.

        Loops share no chunks, and what orders two steps of the first orders them in every loop. So
        the first alone is checked.
        """
        if self.loops > 1:
            run(Lowering(self.program).lanes(FIFO))
        result = run(self.lanes(FIFO), check=self.loops == 1)
        if result.stuck:
            raise InputError(f"deadlock with {FIFO} slots a connection: {result.stuck}")
        layout = Layout(len(self.program.gpus), self.program.chunks * self.loops, self.scratch)
        return result.schedule(layout, list(self._results()))

    def _results(self) -> Iterator[Move]:
        """Where input and output are two buffers, results move to the buffer of the collective."""
        if self.program.in_place:
            return
        for rank, gpu in enumerate(self.program.gpus):
            if not gpu.outputs:
                continue
            for loop in range(self.loops):
                source = self._slot(rank, Chunks("o", 0), loop)
                target = loop * self.program.chunks + self._owned(rank, "o", "reduce_scatter")
                yield Move(rank, rank, source, target, gpu.outputs)

    def _owned(self, rank: int, buffer: str, collective: str) -> int:
        """The first chunk of a buffer that is one rank's share of V."""
        gpu = self.program.gpus[rank]
        share = gpu.inputs if buffer == "i" else gpu.outputs
        return rank * share if self.program.collective == collective else 0

    def _slot(self, rank: int, chunks: Chunks, loop: int) -> int:
        program = self.program
        behind = self.loops * program.chunks + loop * self.per_loop
        if chunks.buffer == "s":
            return behind + self.outputs + chunks.offset
        if chunks.buffer == "o" and not program.in_place:
            return behind + chunks.offset
        collective = "allgather" if chunks.buffer == "i" else "reduce_scatter"
        owned = self._owned(rank, chunks.buffer, collective)
        return loop * program.chunks + owned + chunks.offset

    def _block(self, rank: int, number: int, block: Block, slots: int) -> Iterator[Instruction]:
        sent, received = 0, 0
        for loop in range(self.loops):
            for step in block.steps:
                place = Place(rank, number, step.number)
                for flag in step.waits:
                    reason = f"thread block {flag.block}, step {flag.step}"
                    event = rank, flag.block, self._raised(rank, flag.block, flag.step)
                    yield Instruction(place, Wait(event, loop + 1, reason))
                for action in self._actions(rank, block, step, loop, (sent, received), slots):
                    yield Instruction(place, action)
                if step.flag:
                    yield Instruction(place, Post((rank, number, step.number)))
                sent += step.kind in SENDS
                received += step.kind in RECEIVES

    def _raised(self, rank: int, block: int, step: int) -> int:
        """The step that raises the flag of a step: it, or the next that has one."""
        steps = self.program.gpus[rank].blocks[block].steps
        return next(each.number for each in steps if each.flag and each.number >= step)

    def _actions(
        self,
        rank: int,
        block: Block,
        step: Step,
        loop: int,
        messages: tuple[int, int],
        slots: int,
    ) -> Iterator[Move | Post | Wait]:
        """What a step does: `messages` is how many its block has sent and received before."""
        sent, received = messages
        source, target = (self._slot(rank, end, loop) for end in (step.source, step.target))
        if step.kind in ("cpy", "re"):
            yield Move(rank, rank, source, target, step.count, step.kind == "re")
            return
        inbox = block.receive, rank, block.channel
        if step.kind in RECEIVES:
            reason = f"a message from gpu {block.receive} on channel {block.channel}"
            yield Wait(("message", inbox), received + 1, reason)
            if not slots:
                yield Post(("taken", inbox))
            message = self._message(inbox, received)
            yield from _received(rank, step, message, source, target)
            forwarded = message if step.kind == "rrs" else target
        else:
            forwarded = source
        if step.kind in SENDS:
            yield from self._sent((rank, block.send, block.channel), step, forwarded, sent, slots)
        if step.kind in RECEIVES and slots:
            yield Post(("taken", inbox))

    def _sent(
        self, outbox: Connection, step: Step, source: int, number: int, slots: int
    ) -> Iterator[Move | Post | Wait]:
        rank, peer, channel = outbox
        reason = f"gpu {peer} to receive on channel {channel}"
        if slots and number >= slots:
            yield Wait(("taken", outbox), number + 1 - slots, reason)
        target = self._message(outbox, number)
        yield Move(rank, peer, source, target, step.count, channel=channel, posted=True)
        yield Post(("message", outbox), arrives=1)
        if not slots:
            yield Wait(("taken", outbox), number + 1, reason)

    def _message(self, connection: Connection, number: int) -> int:
        first, count = self.fifo[connection]
        return first + number % FIFO * count


def _received(
    rank: int, step: Step, message: int, source: int, target: int
) -> Iterator[Move | Post | Wait]:
    """What becomes of a message of which a step knows the slot."""
    if step.kind in ("r", "rcs"):
        yield Move(rank, rank, message, target, step.count)
    elif step.kind == "rrs":
        yield Move(rank, rank, source, message, step.count, reduces=True)
    elif source == target:
        yield Move(rank, rank, message, target, step.count, reduces=True)
    else:
        yield Move(rank, rank, source, message, step.count, reduces=True)
        yield Move(rank, rank, message, target, step.count)


def _check_connections(program: Program) -> None:
    """One thread block sends on a connection, one receives, and equally many chunks."""
    messages: dict[str, dict[Connection, list[tuple[int, str]]]] = {"sends": {}, "receives": {}}
    for rank, gpu in enumerate(program.gpus):
        for number, block in enumerate(gpu.blocks):
            for word, kinds, key in (
                ("sends", SENDS, (rank, block.send, block.channel)),
                ("receives", RECEIVES, (block.receive, rank, block.channel)),
            ):
                steps = [
                    (step.count, str(Place(rank, number, step.number)))
                    for step in block.steps
                    if step.kind in kinds
                ]
                if steps and key in messages[word]:
                    raise InputError(
                        f"{steps[0][1]}: another thread block {word} between gpu {key[0]} and gpu "
                        f"{key[1]} on channel {key[2]}: only one may"
                    )
                if steps:
                    messages[word][key] = steps
    for key in {**messages["sends"], **messages["receives"]}:
        _check_matched(key, messages["sends"].get(key, []), messages["receives"].get(key, []))


def _check_matched(
    key: Connection, sends: list[tuple[int, str]], receives: list[tuple[int, str]]
) -> None:
    for (count, place), (received, peer) in zip(sends, receives, strict=False):
        if count != received:
            raise InputError(f"{place} sends {count} chunks, {peer} receives {received}")
    if len(sends) > len(receives):
        raise InputError(
            f"{sends[len(receives)][1]} sends to gpu {key[1]} on channel {key[2]}: nobody receives"
        )
    if len(receives) > len(sends):
        raise InputError(
            f"{receives[len(sends)][1]} receives from gpu {key[0]} on channel {key[2]}: nobody "
            f"sends"
        )


def in_order_of_chunks(chunks: int, loops: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The slot of every piece, chunk by chunk: slots are ordered loop by loop.

    >>> in_order_of_chunks(3, 2).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return np.arange(chunks * loops).reshape(loops, chunks).T.ravel()
