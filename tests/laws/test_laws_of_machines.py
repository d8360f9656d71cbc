"""Laws on machines that exist: nothing beats a bound, engines agree, every part of a time is
named."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import cycle, islice, product
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_cases import tries
from simulator.analysis.bounds import best_bound
from simulator.analysis.critical_path import critical_path, parts
from simulator.collectives import algorithms, find
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
from topologies.catalogue import find as machine
from topologies.errors import InputError
from topologies.topology import Topology
from topologies.variants import ORDERS, Order

SPECS = (
    *("pcie_box", "dgx1", "dgx1:nodes=2", "dgx_a100:nodes=2,nics=3", "hgx_h100"),
    *("hgx_h100:nodes=3,spines=0", "hgx_h100:nodes=2,sharp=yes"),
    *("b200:nodes=2,network=leaf_spine,oversubscription=4", "mi300x", "leonardo:nodes=4"),
    *("mn5_acc:nodes=5,network=fat_tree", "alps:nodes=3,paths=hash"),
    *("torus:dims=3x3", "leaf_spine:ports_per_leaf=3"),
)
Sharing = Literal["fifo", "fair"]
RULES: tuple[dict[str, Any], ...] = ({}, {"store_and_forward": True}, {"sharing": "fair"})


@cache
def laid(
    name: str, spec: str, ranks: int, placement: Order = "node"
) -> tuple[Schedule, Topology] | None:
    """A schedule and its machine; None where the machine is none for it."""
    algorithm = find(name)
    try:
        topology = replace(machine(spec), placement=placement).build(ranks, algorithm.servers)
        if algorithm.fit is None:
            return algorithm.build(ranks, 1.0), topology
        fitted = algorithm.fit(topology, ranks, 1.0)
    except InputError:
        return None
    return fitted.schedule, fitted.topology


@given(
    name=st.sampled_from(sorted(algorithms())),
    spec=st.sampled_from(SPECS),
    ranks=st.integers(2, 12),
    size=st.sampled_from([1.0, 2.0**16, 2.0**30]),
    placement=st.sampled_from(ORDERS),
    sharing=st.sampled_from(["fifo", "fair"]),
)
def test_no_setting_beats_a_bound(
    name: str, spec: str, ranks: int, size: float, placement: Order, sharing: Sharing
) -> None:
    setting = laid(name, spec, ranks, placement)
    if setting is None:
        return
    schedule, topology = setting
    timeline = simulate(schedule.scaled(size), topology, sharing=sharing)
    bound = best_bound(find(name).collective, topology, ranks, size)
    assert timeline.makespan >= bound.seconds * (1 - 1e-9), bound


SLOWLY_PLANNED = [name for name in algorithms() if name.startswith("optimal")]
"""Algorithms that pack trees for each machine and number of ranks."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", sorted(algorithms()))
def test_no_setting_at_all_beats_a_bound(name: str, spec: str) -> None:
    """Each number of ranks with a placement, and with all rules and a size of three, by turns."""
    cases = cycle(product((1.0, 2.0**20, 2.0**30), RULES))
    placements: Iterable[Order] = cycle(("node", "round-robin"))
    several = (2, 5, 8, 13) if name in SLOWLY_PLANNED else range(2, 17)
    for ranks, placement in zip(several, placements, strict=False):
        setting = laid(name, spec, ranks, placement)
        for size, rules in islice(cases, 3) if setting else ():
            assert setting is not None
            time = simulate(setting[0].scaled(size), setting[1], **rules).makespan
            bound = best_bound(find(name).collective, setting[1], ranks, size)
            assert time >= bound.seconds * (1 - 1e-9), (ranks, placement, size, rules, bound)


@given(
    st.sampled_from(sorted(algorithms())), st.sampled_from(SPECS), st.integers(2, 10), st.booleans()
)
@tries(6, many=100)
def test_engines_agree_and_the_path_adds_up(name: str, spec: str, ranks: int, store: bool) -> None:
    setting = laid(name, spec, ranks)
    if setting is None:
        return
    schedule, topology = setting[0].scaled(2.0**20), setting[1]
    reference = simulate(schedule, topology, "reference", store_and_forward=store)
    compiled = simulate(schedule, topology, "compiled", store_and_forward=store)
    assert np.array_equal(reference.finish, compiled.finish)
    assert np.array_equal(reference.node_cause, compiled.node_cause)
    assert sum(parts(critical_path(compiled)).values()) == pytest.approx(
        compiled.makespan, rel=1e-9
    )


@given(st.sampled_from(sorted(algorithms())), st.sampled_from(SPECS), st.integers(2, 10))
def test_engines_agree_under_fair_sharing(name: str, spec: str, ranks: int) -> None:
    setting = laid(name, spec, ranks)
    if setting is None:
        return
    schedule, topology = setting[0].scaled(2.0**20), setting[1]
    reference = simulate(schedule, topology, "reference", sharing="fair")
    compiled = simulate(schedule, topology, "compiled", sharing="fair")
    assert np.allclose(reference.finish, compiled.finish, rtol=1e-9, atol=0)
    assert sum(parts(critical_path(compiled)).values()) == pytest.approx(
        compiled.makespan, rel=1e-9
    )
