"""Bruck's all-gather and all-to-all: ⌈log_r p⌉ rounds for any p and any radix r.

After Bruck et al., Efficient algorithms for all-to-all communications in multiport message-passing
systems, IEEE TPDS 8(11), 1997. Rounds do not overlap, as with MPI's blocking sendrecv: a rank
begins a round when all that it sent and received in the round before has arrived.
"""

import numpy as np
import numpy.typing as npt

from simulator.collectives.chunks import chunked
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
    rank, last = gather.each(), _Round(gather)
    gather.copy(rank, rank, slot=rank, target=ranks)
    while step < ranks:
        for digit in range(1, min(radix, -(-ranks // step))):
            count = min(step, ranks - digit * step)
            peer = (rank - digit * step) % ranks
            last.send(rank, peer, slot=ranks, target=ranks + digit * step, count=count)
        last = _Round(gather, last)
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
    rank, distance, last = exchange.each(), np.arange(1, ranks)[:, None], _Round(exchange)
    exchange.copy(rank, rank, slot=(rank + distance) % ranks, target=blocks + distance, steps=True)
    while step < ranks:
        first, unpacked = 0, []
        for digit in range(1, min(radix, -(-ranks // step))):
            block = np.flatnonzero(np.arange(ranks) // step % radix == digit)[:, None]
            place = first + np.arange(len(block))[:, None]
            exchange.phase("pack")
            exchange.copy(rank, rank, slot=blocks + block, target=packed + place, steps=True)
            exchange.phase("exchange")
            peer = (rank + digit * step) % ranks
            last.send(rank, peer, slot=packed + first, target=inbox + first, count=len(block))
            unpacked.append((inbox + place, blocks + block))
            first += len(block)
        exchange.phase("unpack")
        for slot, target in unpacked:
            exchange.copy(rank, rank, slot=slot, target=target, steps=True)
        last = _Round(exchange, last)
        step *= radix
    origin = (rank - distance) % ranks
    exchange.copy(rank, rank, slot=blocks + distance, target=origin, steps=True)
    return exchange.build()


class _Round:
    """The messages of a round, which wait for all that their senders had in the round before."""

    def __init__(self, builder: ScheduleBuilder, before: "_Round | None" = None) -> None:
        self.builder = builder
        self.after = (
            before.arrived if before else np.zeros((len(builder.each()), 0), dtype=np.int32)
        )
        self.sent: list[tuple[Ints, Numbers]] = []

    def send(self, rank: Numbers, peer: Numbers, *, slot: int, target: int, count: int) -> None:
        """Every rank sends `count` slots to its peer."""
        operation = self.builder.copy(
            rank, peer, slot=slot, target=target, count=count, after=self.after
        )
        sender = (2 * rank - peer) % self.builder.ranks
        self.sent.append((operation, sender))

    @property
    def arrived(self) -> Ints:
        """What every rank has sent and received, shape (ranks, 2 * messages)."""
        columns = [
            column
            for operation, sender in self.sent
            for column in (operation, operation[self.builder.place(sender)])
        ]
        return np.stack(columns, axis=1)


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
