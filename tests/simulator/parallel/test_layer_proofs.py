"""What parallelism inside a layer promises, on integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from law_cases import tries
from simulator.collectives import find
from simulator.collectives.routers import Returned, Tokens
from simulator.collectives.uneven import all_to_allv
from simulator.parallel.layer_proofs import balanced, prove_attention, prove_experts, prove_sums
from simulator.schedules import semantics
from simulator.schedules.semantics import WrongResult
from topologies.topology import Longs

EVEN = find("pairwise")


def choices(ranks: int, local: int, tokens: int, top: int, seed: int) -> Longs:
    """Random experts of each token, none twice."""
    score = np.random.default_rng(seed).random((ranks, tokens, ranks * local))
    return np.argsort(score, axis=2)[:, :, :top]


@tries(6, 20)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 5), st.integers(0, 3), st.data())
def test_every_token_returns_with_the_sum_of_its_experts(
    ranks: int, local: int, tokens: int, slots: int, data: st.DataObject
) -> None:
    top = data.draw(st.integers(1, ranks * local))
    chosen = choices(ranks, local, tokens, top, data.draw(st.integers(0, 9)))
    count = np.stack([np.bincount(row.ravel(), minlength=ranks * local) for row in chosen])
    dropped = np.maximum(count - slots, 0).sum() if slots else 0
    assert prove_experts(EVEN, EVEN, chosen, local, slots) == dropped


def test_blocks_of_any_size_return_by_the_swapped_matrix() -> None:
    router = Tokens(1.0, 3, top=1, tokens=4, experts=2)
    experts = np.arange(8)
    chosen = np.stack([np.repeat(experts, row)[:, None] for row in router.expert_counts(4)])
    dispatch, combine = all_to_allv(router), all_to_allv(Returned(router))
    assert prove_experts(dispatch, combine, chosen, 2) == 0
    with pytest.raises(WrongResult, match="copies of tokens do not return"):
        prove_experts(dispatch, dispatch, chosen, 2)


def test_experts_whose_tokens_get_lost_are_refused() -> None:
    """One rank has no token for another, so that the exchange carries none."""
    chosen = choices(3, 1, 4, 2, 0)
    router = Tokens(0.0, 0, top=1, tokens=1, experts=1)
    with pytest.raises(WrongResult, match="copies of tokens reach no expert, like one from rank"):
        prove_experts(all_to_allv(router), EVEN, chosen, 1)


@settings(max_examples=10)
@given(st.sampled_from(["ring", "gather", "ulysses"]), st.integers(1, 9))
def test_every_query_meets_every_key_once(context: str, ranks: int) -> None:
    prove_attention(context, ranks)


def test_ranks_of_a_ring_share_the_work_of_a_causal_mask() -> None:
    assert [each.tolist() for each in balanced(2)] == [[0, 1, 6, 7], [2, 3, 4, 5]]


@pytest.mark.parametrize("context", ["ring", "ulysses"])
def test_keys_that_do_not_meet_are_refused(context: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring that stands still, and heads that are not exchanged."""
    monkeypatch.setattr(semantics, "run", lambda schedule, data: data)
    with pytest.raises(WrongResult):
        prove_attention(context, 3)


@settings(max_examples=8)
@given(st.integers(1, 8), st.booleans())
def test_partial_sums_add_up(ranks: int, sequence: bool) -> None:
    prove_sums(ranks, sequence=sequence)


def test_sums_that_lack_a_rank_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semantics, "run", lambda schedule, data: data)
    with pytest.raises(WrongResult, match="the partial sums of 2 ranks do not add up"):
        prove_sums(2, sequence=False)
