"""Bruck's algorithms and PAT: few rounds, in which many chunks travel in one message.

After Bruck et al., Efficient algorithms for all-to-all communications in multiport message-passing
systems, IEEE TPDS 8(11), 1997: ⌈log_r p⌉ rounds for any p and any radix r. Rounds do not overlap,
as with MPI's blocking sendrecv: a rank begins a round when all that it sent and received in the
round before has arrived.

After Jeaugey, PAT: a new algorithm for all-gather and reduce-scatter operations at scale,
arXiv 2506.20252: ⌈log2 p⌉ rounds. NCCL has it since 2.23. Every chunk goes down a binomial tree of
its own, to far peers first, so that large messages stay near. The chunks that a rank passes on in a
round are packed into messages of at most `chunks` chunks.
"""

import numpy as np

from simulator.collectives.collective import ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER, declare
from simulator.collectives.layouts import chunked
from simulator.cost_models import aggregation_formulas, log2_ceil
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, rotations
from topologies.errors import InputError
from topologies.topology import Ints, Numbers


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


@declare(
    "bruck_all_gather",
    ALL_GATHER,
    aggregation_formulas.bruck_all_gather,
    shifts=rotations,
    operations=_gather_operations,
)
def bruck_all_gather(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, radix: int = 2
) -> Schedule:
    """Every round multiplies the chunks of all ranks by the radix. With s chunks at every rank, a
    rank sends them to the ranks s, 2s, ... below it.

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


def _exchange_operations(ranks: int, radix: int = 2) -> float:
    """With two copies of a block for each digit of its distance that is not 0."""
    distance, digits = np.arange(ranks), 0
    while distance.any():
        digits += int(np.count_nonzero(distance % radix))
        distance //= radix
    return ranks * (2 * (ranks - 1) + _messages(ranks, radix) + 2 * digits)


@declare(
    "bruck_all_to_all",
    ALL_TO_ALL,
    aggregation_formulas.bruck_all_to_all,
    shifts=rotations,
    operations=_exchange_operations,
)
def bruck_all_to_all(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, radix: int = 2
) -> Schedule:
    """Blocks move by the digits of their distance, many in a message. Round k moves each block by
    digit k of the distance to its owner, in base `radix`.

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


ALL = 2**20
"""As many chunks as there are."""


def _pat(
    ranks: int, nbytes: float, shifts: Shifts | None, chunks: int, *, reduces: bool
) -> Schedule:
    pat = chunked(ranks, nbytes, shifts, scratch=2 * ranks)
    levels, after = range(log2_ceil(ranks)), np.zeros((len(pat.each()), 0), dtype=np.int32)
    first = ranks
    for level in levels if reduces else reversed(levels):
        distance = np.arange(0, ranks - (1 << level), 2 << level)[:, None]
        after = _round(pat, level, distance, first, chunks, after, reduces=reduces)
        first += len(distance)
    return pat.build()


def _round(
    pat: ScheduleBuilder,
    level: int,
    distance: Numbers,
    first: int,
    chunks: int,
    after: Ints,
    *,
    reduces: bool,
) -> Ints:
    """Every rank sends chunks over 2^level ranks, by their distances from their owners. They are
    packed in scratch from slot `first` on.

    Returns for every rank what it sent, received and unpacked, shape (ranks, operations).
    """
    ranks, rank, count, step = pat.ranks, pat.each(), len(distance), 1 << level
    way, far = (-1, step) if reduces else (1, 0)
    peer, sender = (rank + way * step) % ranks, (rank - way * step) % ranks
    packed = first + np.arange(count)[:, None]
    inbox = packed + ranks
    pat.phase("pack")
    pat.copy(rank, rank, slot=(rank - distance - far) % ranks, target=packed, steps=True)
    pat.phase("reduce-scatter" if reduces else "all-gather")
    done = []
    for begin in range(first, first + count, chunks):
        size = min(chunks, first + count - begin)
        sent = pat.copy(rank, peer, slot=begin, target=begin + ranks, count=size, after=after)
        done += [sent, sent[pat.place(sender)]]
    pat.phase("unpack")
    unpack = pat.reduce if reduces else pat.copy
    target = (rank - distance - (step - far)) % ranks
    unpacked = unpack(rank, rank, slot=inbox, target=target, steps=True)
    return np.stack((*done, *unpacked.reshape(count, -1)), axis=1)


def _pat_operations(ranks: int, chunks: int = ALL) -> float:
    """A chunk is packed and unpacked for each peer; a message has up to `chunks` of them."""
    sizes = (len(range(0, ranks - (1 << level), 2 << level)) for level in range(log2_ceil(ranks)))
    return ranks * (2 * (ranks - 1) + sum(-(-size // chunks) for size in sizes))


@declare(
    "pat_all_gather",
    ALL_GATHER,
    aggregation_formulas.pat_all_gather,
    shifts=rotations,
    operations=_pat_operations,
)
def pat_all_gather(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, chunks: int = ALL
) -> Schedule:
    """A binomial tree for each chunk, chunks aggregated, far peers first. In the round of bit k,
    rank r sends to r + 2^k the chunks of ranks r - j, for all multiples j of 2^(k+1).

    >>> pat_all_gather(6, 600.0).sent().tolist()
    [500.0, 500.0, 500.0, 500.0, 500.0, 500.0]
    """
    return _pat(ranks, nbytes, shifts, chunks, reduces=False)


@declare(
    "pat_reduce_scatter",
    REDUCE_SCATTER,
    aggregation_formulas.pat_reduce_scatter,
    shifts=rotations,
    operations=_pat_operations,
)
def pat_reduce_scatter(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, chunks: int = ALL
) -> Schedule:
    """The all-gather of PAT backwards, with additions."""
    return _pat(ranks, nbytes, shifts, chunks, reduces=True)
