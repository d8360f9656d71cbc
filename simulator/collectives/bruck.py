"""Bruck's all-gather and all-to-all: ⌈log_r p⌉ rounds for any p and any radix r.

After Bruck et al., Efficient algorithms for all-to-all communications in multiport message-passing
systems, IEEE TPDS 8(11), 1997. Rounds do not overlap, as with MPI's blocking sendrecv: a rank
begins a round when all that it sent and received in the round before has arrived.
"""

import numpy as np
import numpy.typing as npt

from simulator.collectives.chunk_parts import chunked
from simulator.collectives.collective import ALL_GATHER, ALL_TO_ALL, Algorithm
from simulator.cost_models import bruck_formulas
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, rotations
from topologies.errors import InputError
from topologies.topology import Ints

Numbers = npt.NDArray[np.integer]


def bruck_all_gather(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, radix: int = 2
) -> Schedule:
    """In a round with s chunks at every rank, a rank sends them to the ranks s, 2s, ... below it.

    Rank r gathers chunks r, r + 1, ... in scratch, and copies them to their places at the end.

    >>> bruck_all_gather(5, 500.0).steps
    3
    """
    step = _first_step(radix)
    gather = chunked(ranks, nbytes, shifts, scratch=ranks, phase="all-gather")
    rank = gather.each()
    done: Ints = np.zeros((len(rank), 0), dtype=np.int32)
    gather.copy(rank, rank, slot=rank, target=ranks)
    while step < ranks:
        messages: list[Ints] = []
        for digit in range(1, min(radix, -(-ranks // step))):
            count = min(step, ranks - digit * step)
            distance = digit * step
            messages += _send(gather, -distance, ranks, ranks + distance, count, done)
        done = np.stack(messages, axis=1)
        step *= radix
    gather.phase("unpack")
    block = np.arange(1, ranks)[:, None]
    gather.copy(rank, rank, slot=ranks + block, target=(rank + block) % ranks, steps=True)
    return gather.build()


def bruck_all_to_all(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, radix: int = 2
) -> Schedule:
    """Round k moves each block by digit k of the distance to its owner, in base `radix`.

    Blocks of one digit are packed into one message. Open MPI calls it modified_bruck.

    >>> bruck_all_to_all(8, 800.0).sent().tolist()[0]
    1200.0
    """
    step = _first_step(radix)
    # Scratch: the blocks by distance, then packed to be sent, then as received.
    blocks, packed, inbox = ranks, 2 * ranks, 3 * ranks
    exchange = chunked(ranks, nbytes, shifts, scratch=3 * ranks, phase="pack")
    rank, distance = exchange.each(), np.arange(1, ranks)[:, None]
    done: Ints = np.zeros((len(rank), 0), dtype=np.int32)
    exchange.copy(rank, rank, slot=(rank + distance) % ranks, target=blocks + distance, steps=True)
    while step < ranks:
        first, unpacked, messages = 0, [], list[Ints]()
        for digit in range(1, min(radix, -(-ranks // step))):
            block = np.flatnonzero(np.arange(ranks) // step % radix == digit)[:, None]
            place = first + np.arange(len(block))[:, None]
            exchange.phase("pack")
            exchange.copy(rank, rank, slot=blocks + block, target=packed + place, steps=True)
            exchange.phase("exchange")
            slots = packed + first, inbox + first, len(block)
            messages += _send(exchange, digit * step, *slots, done)
            unpacked.append((inbox + place, blocks + block))
            first += len(block)
        exchange.phase("unpack")
        for slot, target in unpacked:
            exchange.copy(rank, rank, slot=slot, target=target, steps=True)
        done = np.stack(messages, axis=1)
        step *= radix
    origin = (rank - distance) % ranks
    exchange.copy(rank, rank, slot=blocks + distance, target=origin, steps=True)
    return exchange.build()


def _send(
    builder: ScheduleBuilder, distance: int, slot: int, target: int, count: int, after: Ints
) -> list[Ints]:
    """Every rank sends so many slots to the rank at a distance ahead. Returns the operation that
    every rank sends, and the one that it receives."""
    rank = builder.each()
    peer, sender = (rank + distance) % builder.ranks, (rank - distance) % builder.ranks
    sent = builder.copy(rank, peer, slot=slot, target=target, count=count, after=after)
    return [sent, sent[builder.place(sender)]]


def _first_step(radix: int) -> int:
    if radix < 2:
        raise InputError(f"radix is {radix}: 2 or more")
    return 1


def _messages(ranks: int, radix: int) -> int:
    """The messages of a rank: one for each digit of each place that a distance has."""
    count, step = 0, _first_step(radix)
    while step < ranks:
        count += min(radix - 1, (ranks - 1) // step)
        step *= radix
    return count


def _gather_operations(ranks: int, radix: int = 2) -> float:
    return ranks * (ranks + _messages(ranks, radix))


def _exchange_operations(ranks: int, radix: int = 2) -> float:
    """With two copies of a block for each digit of its distance that is not 0."""
    distance, digits = np.arange(ranks), 0
    while distance.any():
        digits += int(np.count_nonzero(distance % radix))
        distance //= radix
    return ranks * (2 * (ranks - 1) + _messages(ranks, radix) + 2 * digits)


ALGORITHMS = (
    Algorithm(
        "bruck_all_gather",
        ALL_GATHER,
        bruck_all_gather,
        bruck_formulas.all_gather,
        "every round multiplies the chunks of all ranks by the radix",
        shifts=rotations,
        operations=_gather_operations,
    ),
    Algorithm(
        "bruck_all_to_all",
        ALL_TO_ALL,
        bruck_all_to_all,
        bruck_formulas.all_to_all,
        "blocks move by the digits of their distance, many in a message",
        shifts=rotations,
        operations=_exchange_operations,
    ),
)
