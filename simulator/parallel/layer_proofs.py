"""What parallelism inside a layer promises, proven on integers modulo 2^64 with the schedules of
its collectives: partial sums add up, queries meet keys, tokens return to their owners."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulator.collectives import find
from simulator.collectives.collective import Algorithm
from simulator.collectives.posted_exchanges import places
from simulator.schedules import semantics
from simulator.schedules.semantics import Data, WrongResult
from topologies.columns import places_in_groups, plain_rows
from topologies.topology import Longs

Blocks = Mapping[tuple[int, int], Data]
"""What a rank has for another, by both of them."""
PARTS = 2
"""Tokens of each part of a sequence in a proof of attention."""


def exchanged(algorithm: Algorithm, ranks: int, blocks: Blocks) -> Blocks:
    """What ranks have from others after an all-to-all. Blocks that stay on their rank do not
    travel."""
    schedule, pattern = algorithm.build(ranks, 1.0), algorithm.collective.pairs
    if pattern is None:
        source, target = np.indices((ranks, ranks)).reshape(2, -1)
        sent, received = np.array([target, source]) * (schedule.buffer // ranks)
    else:
        source, target, _ = needs = pattern(ranks)
        sent, received, _ = places(needs, ranks)
    pairs = list(plain_rows(source, target))
    labels = np.zeros((schedule.ranks, schedule.slots), dtype=np.uint64)
    labels[source, sent] = np.arange(1, len(pairs) + 1)
    arrived = semantics.run(schedule, labels)[target, received].tolist()
    result = {pair: block for pair, block in blocks.items() if pair[0] == pair[1]}
    for pair, label in zip(pairs, arrived, strict=True):
        if 1 <= label <= len(pairs) and pairs[label - 1] in blocks:
            result[pair] = blocks[pairs[label - 1]]
    return result


def prove_experts(
    dispatch: Algorithm, combine: Algorithm, chosen: Longs, local: int, slots: int = 0
) -> int:
    """Raise WrongResult unless each token returns to its owner with the sum of what its experts
    make of it. `chosen` has the experts of each token of each rank, shape (ranks, tokens, top); a
    rank holds `local` experts. With `slots` an expert takes so many tokens of each rank.

    It returns how many copies of tokens are dropped.
    """
    ranks, tokens, _ = chosen.shape
    value = np.random.default_rng(0).integers(0, 2**64, size=(ranks, tokens), dtype=np.uint64)
    owner, token, _ = (grid.ravel() for grid in np.indices(chosen.shape))
    # Copies for the same expert of the same owner are in the order of their tokens.
    order = np.lexsort((chosen.ravel(), owner))
    owner, token, expert = owner[order], token[order], chosen.ravel()[order]
    kept = places_in_groups(owner, expert) < (slots or len(owner))
    owner, token, expert = owner[kept], token[kept], expert[kept]
    copies = np.stack((expert.astype(np.uint64), value[owner, token]))
    number = owner * ranks + expert // local
    rows = {divmod(pair, ranks): np.flatnonzero(number == pair) for pair in set(number.tolist())}
    sent = {pair: copies[:, mine] for pair, mine in rows.items()}
    answers = {
        pair[::-1]: _expert(*block) for pair, block in exchanged(dispatch, ranks, sent).items()
    }
    total, right = np.zeros_like(value), np.zeros_like(value)
    for (there, here), block in exchanged(combine, ranks, answers).items():
        mine = rows.get((here, there), np.zeros(0, dtype=np.int64))
        if len(mine) != len(block):
            raise WrongResult(
                f"{len(block)} tokens return from rank {there} to {here}: {len(mine)}"
            )
        np.add.at(total[here], token[mine], block)
    np.add.at(right, (owner, token), _expert(*copies))
    if (total != right).any():
        raise WrongResult(f"{(total != right).sum()} tokens return with a wrong sum")
    return int(np.count_nonzero(~kept))


def _expert(expert: Data, value: Data) -> Data:
    """What an expert makes of a token."""
    return np.asarray(value * (2 * expert + 1) + expert, dtype=np.uint64)


def prove_attention(context: str, ranks: int) -> None:
    """Raise WrongResult unless every query meets every key that it may see exactly once, when a
    sequence is cut over so many ranks by a ring, a gather or Ulysses."""
    size = 2 * ranks * PARTS
    right = np.tril(np.ones((size, size), dtype=np.int64))
    if context == "ulysses":
        met = _scattered_heads(ranks, size)
    else:
        cut = balanced(ranks)
        owners = _ring(ranks) if context == "ring" else _gathered(ranks)
        met, work = np.zeros((size, size), dtype=np.int64), np.zeros(ranks, dtype=np.int64)
        for (rank, _), owner in np.ndenumerate(owners):
            seen = cut[rank][:, None] >= cut[owner]
            met[np.ix_(cut[rank], cut[owner])] += seen
            work[rank] += seen.sum()
        if np.ptp(work):
            raise WrongResult(f"{context}: ranks compute {work.min()} to {work.max()} scores")
    if (met != right).any():
        raise WrongResult(f"{context}: {(met != right).sum()} pairs of query and key do not meet")


def balanced(ranks: int) -> list[Longs]:
    """The tokens of each rank: of 2c parts it has part r and, from the end, part r."""
    parts = np.arange(2 * ranks * PARTS).reshape(2 * ranks, PARTS)
    return [np.concatenate((parts[rank], parts[-1 - rank])) for rank in range(ranks)]


def _ring(ranks: int) -> Longs:
    """Whose keys each rank holds in each step of a ring, which passes them on."""
    schedule = find("shift").build(ranks, 1.0)
    data = np.zeros((schedule.ranks, schedule.slots), dtype=np.uint64)
    data[:ranks, 0] = np.arange(ranks)
    states = [data]
    for _ in range(ranks - 1):
        states.append(semantics.run(schedule, states[-1]))
    return np.stack([data[:ranks, 0] for data in states], axis=1).astype(np.int64)


def _gathered(ranks: int) -> Longs:
    schedule = find("ring_all_gather").build(ranks, 1.0)
    data = np.full((schedule.ranks, schedule.slots), ranks, dtype=np.uint64)
    chunks = schedule.buffer // ranks
    for rank in range(ranks):
        data[rank, rank * chunks] = rank
    after = semantics.run(schedule, data)[:ranks, : schedule.buffer : chunks]
    return np.asarray(after, dtype=np.int64)


def _scattered_heads(ranks: int, size: int) -> Longs:
    """How often queries meet keys in each head, a head a rank, after its results have returned to
    the owners of their tokens, shape (heads, tokens, tokens)."""
    exchange, cut = find("pairwise"), np.arange(size, dtype=np.uint64).reshape(ranks, -1)
    pairs = np.ndindex(ranks, ranks)
    whole = exchanged(exchange, ranks, {(rank, head): cut[rank] for rank, head in pairs})
    results = {(head, rank): query for (rank, head), query in whole.items()}
    total = np.zeros((ranks, size, size), dtype=np.int64)
    for (head, rank), query in exchanged(exchange, ranks, results).items():
        keys = np.concatenate([whole[each, head] for each in range(ranks)])
        np.add.at(total[head], np.ix_(cut[rank], keys), query[:, None] >= keys)
    return total


def prove_sums(ranks: int, *, sequence: bool) -> None:
    """Raise WrongResult unless the product of a token with two matrices, which ranks share by
    columns and by rows, adds up: by an all-reduce, or, where they share the `sequence`, by a
    reduce-scatter and an all-gather."""
    rng, width = np.random.default_rng(0), 2 * ranks
    first, second = rng.integers(0, 2**64, size=(2, width, width), dtype=np.uint64)
    token = rng.integers(0, 2**64, size=width, dtype=np.uint64)
    columns, rows = np.split(first, ranks, axis=1), np.split(second, ranks)
    partial = np.stack([token @ up @ down for up, down in zip(columns, rows, strict=True)])
    names = ("ring_reduce_scatter", "ring_all_gather") if sequence else ("ring",)
    result = []
    for half in np.split(partial, width // ranks, axis=1):
        data = half
        for name in names:
            data = semantics.run(find(name).build(ranks, 1.0), data)
        result.append(data)
    if (np.concatenate(result, axis=1) != token @ first @ second).any():
        raise WrongResult(f"the partial sums of {ranks} ranks do not add up")
