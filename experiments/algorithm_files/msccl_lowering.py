"""An MSCCL program as an algorithm: lanes, and a schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from math import inf

import numpy as np

from experiments.algorithm_files import free_name, of_file
from experiments.algorithm_files.lanes import EventPost, EventWait, Lane, LaneMove, LanePlace, run
from experiments.algorithm_files.msccl_program import (
    RECEIVES,
    SENDS,
    BlockStep,
    Chunks,
    MscclProgram,
    ThreadBlock,
)
from simulator.collectives import Algorithm, Collective, algorithms, of_collective
from simulator.schedules.schedule import LIMIT, Schedule
from simulator.schedules.semantics import Chosen, Data, Promise, WrongResult, check
from topologies.errors import InputError

FIFO = 8
"""Messages that a connection holds: NCCL_STEPS."""
Connection = tuple[int, int, int]
"""Sender, receiver and channel."""


def algorithm_of(program: MscclProgram, loops: int = 1) -> Algorithm:
    """A program as an algorithm for its number of ranks, whose chunks move in so many pieces.

    Raises InputError with the place if it cannot run. It is proven when it is simulated.
    """
    ranks = len(program.gpus)
    lowering = Lowering(program, loops)
    blocks = sum(len(gpu.blocks) for gpu in program.gpus)
    summary = (
        f"MSCCL, {program.protocol}, {program.channels} channels, {blocks} thread blocks of "
        f"{ranks} GPUs"
    )
    collective = _promise(program)
    pieces = _in_pieces(collective, program.chunks, loops)
    made = of_file(free_name(program.name, "xml"), pieces, lowering.schedule, summary, ranks)
    return replace(made, sizes=(program.least, program.most or inf))


def _promise(program: MscclProgram) -> Collective:
    """What a program computes; of a custom program the first collective that it is."""
    if program.collective != "custom":
        return of_collective(program.collective, algorithms())[0].collective
    schedule = Lowering(program).schedule()
    for collective in dict.fromkeys(each.collective for each in algorithms().values()):
        try:
            check(schedule, collective)
        except (WrongResult, ValueError):
            continue
        return collective
    raise InputError(
        f"{program.name}: coll is custom, and it computes no collective that simctl knows"
    )


def _in_pieces(collective: Collective, chunks: int, loops: int) -> Collective:
    """The collective on slots that are ordered loop by loop."""
    if loops == 1:
        return collective
    # The slot of every piece, chunk by chunk.
    order = np.arange(chunks * loops).reshape(loops, chunks).T.ravel()

    def postcondition(before: Data, chosen: Chosen = None) -> Promise:
        promised, after = collective.postcondition(before[:, order], chosen)
        back = order.argsort()
        return promised[:, back], after[:, back]

    return replace(collective, postcondition=postcondition)


@dataclass
class Lowering:
    """The slots of a program, and its connections."""

    program: MscclProgram
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
        ranks, buffer = len(self.program.gpus), self.program.chunks * self.loops
        return result.schedule(ranks, buffer, self.scratch, self._results())

    def _results(self) -> Iterator[LaneMove]:
        """Where input and output are two buffers, results move to the buffer of the collective."""
        if self.program.in_place:
            return
        for rank, gpu in enumerate(self.program.gpus):
            if not gpu.outputs:
                continue
            for loop in range(self.loops):
                source = self._slot(rank, Chunks("o", 0), loop)
                target = loop * self.program.chunks + self._owned(rank, "o", "reduce_scatter")
                yield LaneMove(rank, rank, source, target, gpu.outputs)

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

    def _block(self, rank: int, number: int, block: ThreadBlock, slots: int) -> Lane:
        sent, received = 0, 0
        for loop in range(self.loops):
            for step in block.steps:
                place = LanePlace(rank, number, step.number)
                for other, waited in step.waits:
                    reason = f"thread block {other}, step {waited}"
                    event = rank, other, self._raised(rank, other, waited)
                    yield place, EventWait(event, loop + 1, reason)
                for action in self._actions(rank, block, step, loop, (sent, received), slots):
                    yield place, action
                if step.flag:
                    yield place, EventPost((rank, number, step.number))
                sent += step.kind in SENDS
                received += step.kind in RECEIVES

    def _raised(self, rank: int, block: int, step: int) -> int:
        """The step that raises the flag of a step: it, or the next that has one."""
        steps = self.program.gpus[rank].blocks[block].steps
        return next(each.number for each in steps if each.flag and each.number >= step)

    def _actions(
        self,
        rank: int,
        block: ThreadBlock,
        step: BlockStep,
        loop: int,
        messages: tuple[int, int],
        slots: int,
    ) -> Iterator[LaneMove | EventPost | EventWait]:
        """What a step does: `messages` is how many its block has sent and received before."""
        sent, received = messages
        source, target = (self._slot(rank, end, loop) for end in (step.source, step.target))
        if step.kind in ("cpy", "re"):
            yield LaneMove(rank, rank, source, target, step.count, step.kind == "re")
            return
        inbox = block.receive, rank, block.channel
        if step.kind in RECEIVES:
            reason = f"a message from gpu {block.receive} on channel {block.channel}"
            yield EventWait(("message", inbox), received + 1, reason)
            if not slots:
                yield EventPost(("taken", inbox))
            message = self._message(inbox, received)
            yield from _received(rank, step, message, source, target)
            forwarded = message if step.kind == "rrs" else target
        else:
            forwarded = source
        if step.kind in SENDS:
            yield from self._sent((rank, block.send, block.channel), step, forwarded, sent, slots)
        if step.kind in RECEIVES and slots:
            yield EventPost(("taken", inbox))

    def _sent(
        self, outbox: Connection, step: BlockStep, source: int, number: int, slots: int
    ) -> Iterator[LaneMove | EventPost | EventWait]:
        rank, peer, channel = outbox
        reason = f"gpu {peer} to receive on channel {channel}"
        if slots and number >= slots:
            yield EventWait(("taken", outbox), number + 1 - slots, reason)
        target = self._message(outbox, number)
        yield LaneMove(rank, peer, source, target, step.count, channel=channel, posted=True)
        yield EventPost(("message", outbox), arrives=1)
        if not slots:
            yield EventWait(("taken", outbox), number + 1, reason)

    def _message(self, connection: Connection, number: int) -> int:
        first, count = self.fifo[connection]
        return first + number % FIFO * count


def _received(
    rank: int, step: BlockStep, message: int, source: int, target: int
) -> Iterator[LaneMove | EventPost | EventWait]:
    """What becomes of a message of which a step knows the slot."""
    if step.kind in ("r", "rcs"):
        yield LaneMove(rank, rank, message, target, step.count)
    elif step.kind == "rrs":
        yield LaneMove(rank, rank, source, message, step.count, reduces=True)
    elif source == target:
        yield LaneMove(rank, rank, message, target, step.count, reduces=True)
    else:
        yield LaneMove(rank, rank, source, message, step.count, reduces=True)
        yield LaneMove(rank, rank, message, target, step.count)


def _check_connections(program: MscclProgram) -> None:
    """One thread block sends on a connection, one receives, and equally many chunks."""
    sends: dict[Connection, list[tuple[int, str]]] = {}
    receives: dict[Connection, list[tuple[int, str]]] = {}
    for rank, gpu in enumerate(program.gpus):
        for number, block in enumerate(gpu.blocks):
            for word, messages, kinds, key in (
                ("sends", sends, SENDS, (rank, block.send, block.channel)),
                ("receives", receives, RECEIVES, (block.receive, rank, block.channel)),
            ):
                steps = [
                    (step.count, str(LanePlace(rank, number, step.number)))
                    for step in block.steps
                    if step.kind in kinds
                ]
                if steps and key in messages:
                    raise InputError(
                        f"{steps[0][1]}: another thread block {word} between gpu {key[0]} and gpu "
                        f"{key[1]} on channel {key[2]}: only one may"
                    )
                if steps:
                    messages[key] = steps
    nobody = (0, "")
    for key in {**sends, **receives}:
        sender, receiver, channel = key
        pairs = zip_longest(sends.get(key, []), receives.get(key, []), fillvalue=nobody)
        for (count, place), (received, peer) in pairs:
            if not peer:
                raise InputError(
                    f"{place} sends to gpu {receiver} on channel {channel}: nobody receives"
                )
            if not place:
                raise InputError(
                    f"{peer} receives from gpu {sender} on channel {channel}: nobody sends"
                )
            if count != received:
                raise InputError(f"{place} sends {count} chunks, {peer} receives {received}")
