"""Communication as it is drawn covers what it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.pictures.timelines.bars import Bars, with_hidden
from experiments.pictures.timelines.spans import Columns


@given(st.lists(st.integers(0, 100), min_size=2, max_size=12, unique=True), st.integers(0, 90))
def test_pieces_of_a_communication_make_it_up(times: list[int], begin: int) -> None:
    edges = np.array(sorted(times)[: len(times) // 2 * 2], dtype=np.float64)
    busy, box = edges.reshape(-1, 2).T, (float(begin), begin + 10.0)
    row = np.zeros(1, dtype=np.int64)
    columns = Columns.of(row, np.array(box[:1]), np.array(box[1:]), lane=1)
    plain, whole = np.zeros(1, dtype=np.bool_), np.ones((1, 2), dtype=np.bool_)
    bars = Bars(columns, row, plain, whole)
    cut = with_hidden(bars, ~plain, {0: busy}, 1e-9)
    start, end = cut.columns.start, cut.columns.end
    assert (start[0], end[-1]) == box
    assert (start[1:] == end[:-1]).all()
    assert (cut.hidden[1:] != cut.hidden[:-1]).all()
    covered = np.clip(busy[1], *box) - np.clip(busy[0], *box)
    assert (end - start)[cut.hidden].sum() == pytest.approx(covered.sum())
    assert cut.whole[:, 0].tolist() == [True] + [False] * (len(start) - 1)
    assert cut.whole[:, 1].tolist() == [False] * (len(start) - 1) + [True]
