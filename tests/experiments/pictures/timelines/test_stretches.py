"""Bubbles and communication as they are drawn cover what they stand for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.pictures.timelines.bars import Bars, with_hidden
from experiments.pictures.timelines.stretches import drawn
from experiments.pictures.timelines.tracks import Boxes
from simulator.analysis.bubble_spans import BUBBLE_CAUSES, BubbleSpans
from simulator.collectives import find
from simulator.engines import simulate
from topologies.shapes import star

TIMELINE = simulate(find("ring").build(2, 1.0), star(2, bandwidth=1.0))
PIECES = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(0, 2)), max_size=30)


@given(PIECES)
def test_stretches_cover_the_same_time_and_are_wide_enough(
    pieces: list[tuple[int, int, int]],
) -> None:
    """A piece has a length, a cause, and a gap of nothing behind it, which is mostly none."""
    ends = np.cumsum([0, *(length + 20 * (gap == 2) for length, _, gap in pieces)]).astype(float)
    start, length = ends[:-1], np.array([float(piece[0]) for piece in pieces])
    cause = np.array([piece[1] for piece in pieces], dtype=np.int32)
    none = np.full(len(pieces), -1, dtype=np.int32)
    spans = BubbleSpans(np.zeros_like(cause), none, start, start + length, cause, none, none, none)
    shown = drawn(TIMELINE, spans, 5.0).spans
    assert (shown.end - shown.start).sum() == pytest.approx(length.sum())
    assert (shown.start[1:] >= shown.end[:-1]).all()
    assert {*shown.cause.tolist()} <= {*cause.tolist()}
    for before, after in pairwise(range(len(shown.rank))):
        touches = shown.start[after] == shown.end[before]
        assert not touches or shown.cause[before] != shown.cause[after]
    assert max(cause, default=0) < len(BUBBLE_CAUSES)


@given(st.lists(st.integers(0, 100), min_size=2, max_size=12, unique=True), st.integers(0, 90))
def test_pieces_of_a_communication_make_it_up(times: list[int], begin: int) -> None:
    edges = np.array(sorted(times)[: len(times) // 2 * 2], dtype=np.float64)
    busy, box = edges.reshape(-1, 2).T, (float(begin), begin + 10.0)
    one = np.zeros(1, dtype=np.int32)
    boxes = Boxes(one, one + 1, np.array(box[:1]), np.array(box[1:]), one, one, one)
    plain, whole = np.zeros(1, dtype=np.bool_), np.ones((1, 2), dtype=np.bool_)
    bars = Bars(boxes, one.astype(np.int64), plain, plain, whole, ["all-reduce"])
    cut = with_hidden(bars, ~plain, {0: busy}, 1e-9)
    start, end = cut.boxes.start, cut.boxes.end
    assert (start[0], end[-1]) == box
    assert (start[1:] == end[:-1]).all()
    assert (cut.hidden[1:] != cut.hidden[:-1]).all()
    covered = np.clip(busy[1], *box) - np.clip(busy[0], *box)
    assert (end - start)[cut.hidden].sum() == pytest.approx(covered.sum())
    assert cut.whole[:, 0].tolist() == [True] + [False] * (len(start) - 1)
    assert cut.whole[:, 1].tolist() == [False] * (len(start) - 1) + [True]
