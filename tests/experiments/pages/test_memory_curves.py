"""Memory over time in equal parts."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.pages.memory_curves import SHOWN, curves_of, from_document, most_in_parts
from experiments.pictures.timelines.stored import to_document
from refusals import refusal
from simulator.analysis import memory
from simulator.collectives import find
from simulator.engines import simulate
from topologies.shapes import ring

levels = st.lists(st.tuples(st.floats(0, 10), st.floats(0, 100)), max_size=12)


@given(levels, st.integers(1, 7))
def test_a_part_has_the_largest_level_in_it(steps: list[tuple[float, float]], parts: int) -> None:
    steps.sort()
    times, values = (np.array(column) for column in list(zip(*steps, strict=True)) or [(), ()])
    found = most_in_parts(times, values, 10.0, parts)
    edges = np.arange(parts) * (10.0 / parts)
    for part in range(parts):
        before = [value for time, value in steps if time <= edges[part]][-1:]
        inside = [
            value
            for time, value in steps
            if edges[part] <= time < (np.append(edges, 10.0))[part + 1]
        ]
        assert found[part] == max([*before, *inside, 0.0])


@pytest.mark.parametrize("ranks", [4, 80])
def test_curves_keep_the_peaks(ranks: int) -> None:
    timeline = simulate(find("ring").build(ranks, 1e6), ring(ranks, bandwidth=1e9))
    held = memory.trace(timeline.schedule, timeline)
    curves = curves_of(held, [f"rank {k}" for k in range(ranks)], timeline.makespan)
    assert curves.most.max() == pytest.approx(held.peak)
    assert curves.redundant.max() == pytest.approx(held.peak_redundant)
    assert (curves.least <= curves.mean + 1e-6).all()
    assert (curves.mean <= curves.most + 1e-6).all()
    assert len(curves.rows) == min(ranks, SHOWN)
    assert len(curves.remarks) == (ranks > SHOWN)
    made = json.loads(json.dumps(to_document(curves)))
    assert to_document(from_document(made, "r.json")) == made
    assert "entries" in refusal(from_document, {**made, "held": [1.0]}, "r.json")
    assert "is empty" in refusal(from_document, {**made, "least": []}, "r.json")
