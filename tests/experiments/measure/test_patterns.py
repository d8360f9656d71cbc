"""What a collective has to leave behind is what the simulator promises, and every way to get it
wrong shows."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from experiments.measure.patterns import (
    EXACT,
    PERIOD,
    PROMISES,
    BufferValues,
    Chunk,
    Numbers,
    largest,
    promise,
)
from grouped_cases import each_case
from law_cases import tries
from refusals import refusal
from simulator.collectives import algorithms

SIMULATED = {algorithm.collective.name: algorithm.collective for algorithm in algorithms().values()}


def buffers(values: BufferValues, ranks: int, elements: int) -> Numbers:
    return np.stack([values.of([Chunk(rank, 0, elements)]) for rank in range(ranks)])


@pytest.mark.parametrize("name", sorted(set(SIMULATED) & set(PROMISES)))
@tries(6, 20)
@given(ranks=st.integers(2, 6), chunks=st.sampled_from([1, 5, PERIOD + 3]), seed=st.integers(0, 9))
def test_the_promise_is_the_postcondition(name: str, ranks: int, chunks: int, seed: int) -> None:
    elements, values = ranks * chunks, BufferValues(ranks, "float32", seed)
    promised, after = SIMULATED[name].postcondition(
        buffers(values, ranks, elements).astype(np.uint64), None
    )
    for rank in range(ranks):
        expected = values.of([Chunk(rank, 0, 0), *promise(name, rank, ranks, elements)])
        np.testing.assert_array_equal(after[rank][promised[rank]], expected)


def test_what_has_no_schedule_is_promised_by_hand() -> None:
    values = BufferValues(3, "float32")
    whole = buffers(values, 3, 6)
    np.testing.assert_array_equal(values.of(promise("scatter", 2, 3, 6)), whole[0, 4:])
    gathered = np.concatenate([whole[0, :2], whole[1, 2:4], whole[2, 4:]])
    np.testing.assert_array_equal(values.of(promise("gather", 0, 3, 6)), gathered)
    assert (
        promise("gather", 1, 3, 6)
        == promise("reduce", 1, 3, 6)
        == promise("barrier", 0, 3, 0)
        == []
    )


@given(st.integers(4, 16), st.data())
def test_other_chunks_of_other_ranks_look_different(power: int, data: st.DataObject) -> None:
    """Shorter chunks may be alike by chance: of 8 elements, chunks of two ranks are."""
    size, ranks = 2**power, 8
    values = BufferValues(ranks, "float32")
    rank_and_chunk = st.tuples(st.sampled_from([None, *range(ranks)]), st.integers(0, 7))
    (rank, first), (peer, second) = data.draw(rank_and_chunk), data.draw(rank_and_chunk)
    assume((rank, first) != (peer, second))
    pieces = [
        values.of([Chunk(contributor, piece * size, (piece + 1) * size)])
        for contributor, piece in ((rank, first), (peer, second))
    ]
    assert np.count_nonzero(pieces[0] != pieces[1]) > size // 8


@each_case("dtype", sorted(EXACT))
def test_sums_are_exact(dtype: str) -> None:
    ranks = min(EXACT[dtype] // 2, 100)
    assert 2 <= largest(ranks, dtype) <= EXACT[dtype] // ranks
    total = BufferValues(ranks, dtype).of([Chunk(None, 0, PERIOD)])
    assert total.max() <= EXACT[dtype]
    assert total.min() >= ranks


def test_too_many_ranks_for_a_dtype_are_refused() -> None:
    assert "bfloat16 counts to 256 only" in refusal(BufferValues, 129, "bfloat16")
