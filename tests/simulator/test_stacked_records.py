"""Several profiles as one: its formulas give what each gives alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.collectives import find
from simulator.effects.link_slowdowns import PeerChannels
from simulator.effects.software_costs import HostMemory, KernelCosts
from simulator.profile import Profile, Protocol
from simulator.stacked_records import stacked
from topologies.link import Link
from topologies.shapes import nodes

PROFILE = Profile(
    "made up",
    "nodes",
    3e-6,
    (Protocol("Simple", {"node": Link(1e11, 1e-6), "network": Link(2e10, 4e-6)}),),
    memory=HostMemory(reduction=1e-10, copy=2e-11, copy_beyond=5e-11),
    scratch={"pairwise": 1.0},
    launches={"ring": 9e-6},
    channels={"shift": PeerChannels("node", 1 / 20e9)},
    kernels=KernelCosts(own_copies=1e-12, piece=2e-6, message=1e-6, message_between=2e-6),
)
NAMES = ("ring", "pairwise", "ring_all_gather", "shift")


def moved(profile: Profile, factor: float) -> Profile:
    """All numbers of software times a factor."""
    times = {"node": 1e-6 * factor, "network": 4e-6 * factor}
    links = {kind: Link(1e11, alpha) for kind, alpha in times.items()}
    return replace(
        profile,
        launch=profile.launch * factor,
        protocols=(Protocol("Simple", links),),
        memory=profile.memory._replace(copy=2e-11 * factor),
        launches={"ring": 9e-6 * factor},
        kernels=KernelCosts(*(cost * factor for cost in profile.kernels)),
    )


@given(
    st.sampled_from(NAMES),
    st.lists(st.floats(0.1, 10.0), min_size=1, max_size=5),
    st.floats(8.0, 2.0**34),
    st.sampled_from([(8, 1), (8, 2), (8, 8)]),
)
def test_each_row_is_a_profile(
    name: str, factors: list[float], nbytes: float, shape: tuple[int, int]
) -> None:
    ranks, count = shape
    algorithm, machine = find(name), nodes(ranks, bandwidth=1e9, per_node=ranks // count)
    schedule = algorithm.build(ranks, nbytes)
    profiles = [moved(PROFILE, factor) for factor in factors]
    together = stacked(profiles).shares_of(schedule, machine, algorithm)
    for share, seconds in together.items():
        column = np.broadcast_to(seconds, (len(factors), 1))[:, 0]
        alone = [each.overheads(schedule, machine, algorithm)[share] for each in profiles]
        assert column == pytest.approx(alone, rel=1e-12, abs=0)


def test_what_all_share_stays_as_it_is() -> None:
    together = stacked([PROFILE, replace(PROFILE, launch=5e-6)])
    assert together.launch.tolist() == [[3e-6], [5e-6]]  # type: ignore[attr-defined]
    assert together.kernels == PROFILE.kernels
    assert together.protocols is PROFILE.protocols
