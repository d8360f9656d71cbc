"""Hidden communication as it is drawn covers what computations hide."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.pictures.timelines.chart import Chart, boxes_of
from experiments.pictures.timelines.spans import Columns, Spans


@given(st.lists(st.integers(0, 100), min_size=2, max_size=12, unique=True), st.integers(0, 90))
def test_parts_of_a_communication_are_hidden_while_its_rank_computes(
    times: list[int], begin: int
) -> None:
    edges = np.array(sorted(times)[: len(times) // 2 * 2], dtype=np.float64)
    busy, box = edges.reshape(-1, 2).T, (float(begin), begin + 10.0)
    main = Columns.of(np.zeros(len(busy[0]), dtype=np.int32), *busy)
    ends = np.array(box[:1]), np.array(box[1:])
    talk = Columns.of(np.zeros(1, dtype=np.int32), *ends, lane=1, nbytes=1)
    words: Any = dict.fromkeys(("kinds", "names", "peers", "links", "causes", "parts"), ("word",))
    spans = Spans(
        rows=("rank 0",),
        nodes=np.zeros(1, dtype=np.int32),
        lanes=("compute", "talk"),
        main=0,
        steps=np.zeros((0, 1)),
        makespan=100.0,
        remarks=(),
        columns=Columns.joined(main, talk),
        **words,
    )
    owner, parts = Chart(spans, *boxes_of(spans), 100.0).hidden
    covered = np.clip(busy[1], *box) - np.clip(busy[0], *box)
    assert (parts.end - parts.start).tolist() == pytest.approx(covered[covered > 0].tolist())
    assert (parts.start[1:] > parts.end[:-1]).all()
    assert len(set(owner.tolist())) <= 1
