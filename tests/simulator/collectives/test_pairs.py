"""Who sends to whom in a pattern, and in which slots."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from simulator.collectives import pairs as patterns
from simulator.collectives.collective import Pairs
from simulator.collectives.pairs import exchange, places

PATTERNS = (
    patterns.next_rank,
    patterns.permutation,
    patterns.incast,
    patterns.bisection,
    patterns.ping_pong,
    patterns.halo,
    patterns.torus_neighbors,
    patterns.stages,
)
every_pattern = pytest.mark.parametrize("pattern", PATTERNS)


def listed(pairs: Pairs) -> list[tuple[int, int]]:
    return list(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True))


@every_pattern
@each_case("ranks", [1, 2, 3, 4, 6, 7, 9, 12, 64])
def test_pairs_are_two_ranks_once_each(pattern: Callable[[int], Pairs], ranks: int) -> None:
    pairs = pattern(ranks)
    assert len({*listed(pairs)}) == len(pairs.source)
    assert all(a != b and min(a, b) >= 0 and max(a, b) < ranks for a, b in listed(pairs))
    sent = np.bincount(pairs.source, pairs.share, ranks)
    assert sent.max(initial=0.0) <= 1 + 1e-12


@every_pattern
@given(ranks=st.integers(2, 40))
def test_every_slot_has_one_pair(pattern: Callable[[int], Pairs], ranks: int) -> None:
    pairs = pattern(ranks)
    place = places(pairs, ranks)
    sent = {*zip(pairs.source.tolist(), place.sent.tolist(), strict=True)}
    received = {*zip(pairs.target.tolist(), place.received.tolist(), strict=True)}
    assert len(sent) == len(received) == len(pairs.source)
    assert not sent & received
    assert place.shares.sum() == pytest.approx(2 * pairs.share.sum())


def test_patterns_of_six_ranks() -> None:
    assert listed(patterns.next_rank(6)) == [(0, 1)]
    assert listed(patterns.incast(4)) == [(1, 0), (2, 0), (3, 0)]
    assert listed(patterns.bisection(5)) == [(0, 2), (1, 3), (2, 0), (3, 1)]
    assert listed(patterns.ping_pong(6)) == [(0, 3), (4, 1), (2, 5)]
    assert listed(patterns.ping_pong(7)) == listed(patterns.ping_pong(6))
    assert listed(patterns.stages(3)) == [(0, 1), (1, 2), (1, 0), (2, 1)]
    # 0 1 2
    # 3 4 5
    neighbors = {(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)}
    both_ways = neighbors | {(b, a) for a, b in neighbors}
    assert {*listed(patterns.halo(6))} == both_ways
    round_the_ends = {(0, 2), (2, 0), (3, 5), (5, 3)}
    assert {*listed(patterns.torus_neighbors(6))} == both_ways | round_the_ends


def test_a_permutation_is_one_cycle_and_has_a_seed() -> None:
    follows = dict(listed(patterns.permutation(9)))
    rank, seen = 0, set[int]()
    while rank not in seen:
        seen.add(rank)
        rank = follows[rank]
    assert len(seen) == 9
    assert listed(patterns.permutation(9, seed=1)) != listed(patterns.permutation(9))


def test_other_slots_than_those_of_the_pattern_are_refused() -> None:
    collective = exchange("stages", patterns.stages)
    with pytest.raises(ValueError, match="3 slots: the pattern has 4"):
        collective.postcondition(np.zeros((4, 3), dtype=np.uint64), None)
