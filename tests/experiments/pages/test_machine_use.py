"""The use of links over time, of small, large and symmetric machines; and memory over time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.pages.machine_use import (
    FULL,
    MOST_BOXES,
    SHOWN,
    courses_of,
    curves_of,
    most_in_parts,
    spread,
    use_of,
)
from simulator.analysis import memory
from simulator.collectives import find
from simulator.collectives.symmetry import fold
from simulator.engines import run, simulate
from simulator.schedules.timeline import Sharing
from topologies.catalogue import find as find_machine
from topologies.shapes import ring, star

numbers = st.floats(0.0, 4.0)


def use(algorithm: str, machine: str, ranks: int, sharing: Sharing = "fifo") -> Mapping[str, Any]:
    topology = find_machine(machine).build(ranks, 0)
    schedule = find(algorithm).on(topology, ranks, 1e8).schedule
    return use_of(simulate(schedule, topology, sharing=sharing))


@given(st.lists(st.tuples(st.integers(0, 2), numbers, numbers, st.floats(0, 10)), max_size=9))
def test_amounts_are_spread_over_time(rows: list[tuple[int, float, float, float]]) -> None:
    row, first, second, amount = (
        np.array(column) for column in list(zip(*rows, strict=True)) or [()] * 4
    )
    row, amount = row.astype(np.int32), amount.astype(np.float64)
    start, end = np.minimum(first, second), np.maximum(first, second)
    edges = np.linspace(0.0, 4.0, 9)
    result = spread(row, start, end, amount, 3, edges)
    expected = np.zeros((3, 8))
    for place, since, until, size in zip(row, start, end, amount, strict=True):
        for part in range(8):
            low, high = max(since, edges[part]), min(until, edges[part + 1])
            if high > low and until > since:
                expected[place, part] += size * ((high - low) / (until - since))
            elif until == since and part == min(int(since / 0.5), 7):
                expected[place, part] += size
    assert result == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("sharing", ["fifo", "fair"])
def test_links_carry_the_bytes_of_all_messages(sharing: Sharing) -> None:
    topology = star(4, bandwidth=1e9)
    timeline = simulate(find("ring").build(4, 4e6), topology, sharing=sharing)
    drawn = use_of(timeline)
    assert drawn["nbytes"].sum() == pytest.approx(2 * timeline.schedule.volume)
    assert (drawn["busy"] == FULL).all()
    assert set(drawn["device_kinds"]) == {"gpu", "switch"}
    assert drawn["bandwidth"].tolist() == [1e9] * 8


def test_a_folded_run_uses_the_links_of_all_ranks() -> None:
    algorithm, machine = find("ring"), ring(16, bandwidth=1e9)
    folded = fold(algorithm, machine, 16, lambda shifts: True)
    assert folded is not None
    _, nbytes, link = courses_of(run(folded[1].scaled(4e6)))
    _, every, links = courses_of(simulate(algorithm.build(16, 4e6), machine))
    used = every.sum(axis=1) > 0
    assert (link >= 0).tolist() == used.tolist()
    assert nbytes[link[used]] == pytest.approx(every[links[used]])


def test_a_large_machine_is_drawn_by_node_and_switch() -> None:
    drawn = use("ring", "hgx_h100", 64)
    assert [name for name in drawn["devices"] if name.startswith("node")] == [
        f"node {k}" for k in range(8)
    ]
    inside = drawn["source"] == drawn["target"]
    assert inside.sum() == 8
    assert len(drawn["remarks"]) == 1
    assert drawn["busy"].max() <= FULL


def test_very_many_ranks_share_boxes() -> None:
    drawn = use("ring", "ring", 300)
    assert len(drawn["devices"]) == MOST_BOXES


levels = st.lists(st.tuples(st.floats(0, 10), st.floats(0, 100)), max_size=12)


@given(levels, st.integers(1, 7))
def test_a_part_has_the_largest_level_in_it(steps: list[tuple[float, float]], parts: int) -> None:
    steps.sort()
    times, values = (np.array(column) for column in list(zip(*steps, strict=True)) or [(), ()])
    means = most_in_parts(times, values, 10.0, parts)
    edges = np.arange(parts) * (10.0 / parts)
    for part in range(parts):
        before = [value for time, value in steps if time <= edges[part]][-1:]
        inside = [
            value
            for time, value in steps
            if edges[part] <= time < (np.append(edges, 10.0))[part + 1]
        ]
        assert means[part] == max([*before, *inside, 0.0])


@pytest.mark.parametrize("ranks", [4, 80])
def test_curves_keep_the_peaks(ranks: int) -> None:
    timeline = simulate(find("ring").build(ranks, 1e6), ring(ranks, bandwidth=1e9))
    traced = memory.trace(timeline.schedule, timeline)
    curves = curves_of(traced, [f"rank {k}" for k in range(ranks)], timeline.makespan)
    assert curves["most"].max() == pytest.approx(traced.peak)
    assert curves["redundant"].max() == pytest.approx(traced.peak_redundant)
    assert (curves["least"] <= curves["mean"] + 1e-6).all()
    assert (curves["mean"] <= curves["most"] + 1e-6).all()
    assert len(curves["rows"]) == min(ranks, SHOWN)
    assert len(curves["remarks"]) == (ranks > SHOWN)
