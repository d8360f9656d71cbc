"""What parallelism inside a layer promises, proven on integers modulo 2^64 with the schedules of
its collectives: partial sums add up, queries meet keys, tokens return to their owners."""

from __future__ import annotations

import numpy as np

from simulator.collectives import find
from simulator.collectives.collective import Algorithm
from simulator.collectives.posted_exchanges import places
from simulator.schedules import semantics
from simulator.schedules.semantics import WrongResult
from topologies.columns import places_in_groups
from topologies.topology import Longs

PARTS = 2
"""Tokens of each part of a sequence in a proof of attention."""


def delivered(algorithm: Algorithm, ranks: int) -> Longs:
    """The pairs whose block arrives in an all-to-all, each as sender x `ranks` + receiver. Blocks
    that stay on their rank do not travel."""
    schedule, pattern = algorithm.build(ranks, 1.0), algorithm.collective.pairs
    if pattern is None:
        source, target = np.indices((ranks, ranks)).reshape(2, -1)
        sent, received = np.array([target, source]) * (schedule.buffer // ranks)
    else:
        source, target, _ = needs = pattern(ranks)
        sent, received, _ = places(needs, ranks)
    pair = source * ranks + target
    labels = np.zeros((schedule.ranks, schedule.slots), dtype=np.uint64)
    labels[source, sent] = pair + 1
    arrived = semantics.run(schedule, labels)[target, received] == labels[source, sent]
    return np.union1d(pair[arrived], np.arange(ranks) * (ranks + 1)).astype(np.int64)


def prove_experts(
    dispatch: Algorithm, combine: Algorithm, chosen: Longs, local: int, slots: int = 0
) -> int:
    """Raise WrongResult unless each token reaches all of its experts, and what these make of it
    returns to its owner. `chosen` has the experts of each token of each rank, shape (ranks, tokens,
    top); a rank holds `local` experts. With `slots` an expert takes so many tokens of each rank.

    It returns how many copies of tokens are dropped.
    """
    ranks, owner, expert = len(chosen), np.indices(chosen.shape)[0].ravel(), chosen.ravel()
    kept = places_in_groups(owner, expert) < (slots or len(owner))
    owner, home = owner[kept], expert[kept] // local
    for name, algorithm, source, target in (
        ("reach no expert", dispatch, owner, home),
        ("do not return", combine, home, owner),
    ):
        lost = ~np.isin(source * ranks + target, delivered(algorithm, ranks))
        if lost.any():
            raise WrongResult(
                f"{lost.sum()} copies of tokens {name}, like one from rank {source[lost][0]} to "
                f"{target[lost][0]}"
            )
    return int(np.count_nonzero(~kept))


def prove_attention(context: str, ranks: int) -> None:
    """Raise WrongResult unless every query meets every key that it may see exactly once, when a
    sequence is cut over so many ranks by a ring, a gather or Ulysses."""
    if context == "ulysses":
        # A rank gets all tokens of its heads, and returns the results in the same way.
        lost = ranks**2 - len(delivered(find("pairwise"), ranks))
        if lost:
            raise WrongResult(f"{context}: {lost} ranks lack tokens of another one")
        return
    size, cut = 2 * ranks * PARTS, balanced(ranks)
    met, work = np.zeros((size, size), dtype=np.int64), np.zeros(ranks, dtype=np.int64)
    owners = _ring(ranks) if context == "ring" else _gathered(ranks)
    for (rank, _), owner in np.ndenumerate(owners):
        seen = cut[rank][:, None] >= cut[owner]
        met[np.ix_(cut[rank], cut[owner])] += seen
        work[rank] += seen.sum()
    if np.ptp(work):
        raise WrongResult(f"{context}: ranks compute {work.min()} to {work.max()} scores")
    wrong = met != np.tril(np.ones_like(met))
    if wrong.any():
        raise WrongResult(f"{context}: {wrong.sum()} pairs of query and key do not meet")


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
