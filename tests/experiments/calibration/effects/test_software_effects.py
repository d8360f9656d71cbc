"""Effects besides links: kernels that run a collective on GPUs, and memory of the host."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.calibration.effects.software_effects import OWN, PIECE
from experiments.calibration.libraries import FUJITSU, MPI, NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from experiments.profiles.profile_document import of
from made_up_curves import SIZES, check_simulated, curve, model_of
from simulator.collectives import find
from simulator.effects.jobs import Jobs, jobs
from simulator.effects.software_costs import KernelCosts

COSTS = KernelCosts(own_copies=2e-12, piece=1e-6, message=3e-7, message_between=2e-6)
SLOWNESS = 1 / 370e9


def job(name: str, ranks: float, nodes: float, collective: str = "") -> Jobs:
    collective = collective or find(name).collective.name
    return jobs([name], [ranks], [nodes], [-(-ranks // nodes)], [collective])


def shares(name: str, ranks: float, nodes: float, nbytes: float) -> dict[str, float]:
    every = COSTS.shares(job(name, ranks, nodes), nbytes, SLOWNESS)
    return {part: float(seconds[0]) for part, seconds in every.items()}


@given(
    st.sampled_from(["ring", "ring_all_gather", "pairwise", "nvls", "shift", "tree_broadcast"]),
    st.integers(2, 256),
    st.integers(1, 8),
    st.floats(8, 2.0**34),
)
def test_kernels_never_make_a_collective_faster(
    name: str, ranks: int, nodes: int, nbytes: float
) -> None:
    less, more = (shares(name, ranks, min(nodes, ranks), size) for size in (nbytes, 2 * nbytes))
    for part, seconds in less.items():
        assert 0 <= seconds <= more[part]


def test_copies_vanish_on_many_ranks() -> None:
    few, many = (shares("ring_all_gather", ranks, 1, 2.0**30) for ranks in (2, 2048))
    assert few["own copies"] == pytest.approx(2e-12 * 2.0**29)
    assert many["own copies"] == pytest.approx(few["own copies"] / 1024)


def test_switches_that_reduce_leave_no_part_to_copy() -> None:
    assert not any(shares("nvls", 8, 1, 2.0**30).values())


def test_algorithms_of_users_pay_for_their_collective() -> None:
    ring, mine = (job(name, 8, 1, "all_reduce") for name in ("ring", "mine"))
    paid, expected = (COSTS.shares(each, 2.0**20, SLOWNESS) for each in (mine, ring))
    assert paid == expected
    assert paid["pieces"] > 0


def test_pieces_matter_at_middle_sizes_alone() -> None:
    """They take a smaller share of the time of larger sizes, and little beside a launch of
    microseconds. Jobs on several nodes wait for their network instead."""
    assert shares("ring", 8, 1, 512.0)["pieces"] < 2e-7
    parts = [shares("ring", 8, 1, size)["pieces"] / size for size in (2.0**20, 2.0**28)]
    assert parts[1] == pytest.approx(parts[0] / 16)
    assert shares("ring", 8, 2, 2.0**20)["pieces"] == 0.0


def test_an_all_to_all_starts_a_message_for_each_peer() -> None:
    assert shares("pairwise", 8, 2, 1e6)["messages"] == pytest.approx(3 * 3e-7 + 4 * 2e-6)
    assert shares("ring", 8, 2, 1e6)["messages"] == 0.0


def test_only_jobs_on_one_node_show_copies_and_pieces() -> None:
    one, two = (model_of(NCCL, curve("all_gather", ("ring_all_gather",), 8, n)) for n in (1, 2))
    assert {OWN.name, PIECE.name} <= one.index.keys()
    assert not {OWN.name, PIECE.name} & two.index.keys()
    assert two.profile(two.start).kernels.own_copies == 0.0


@pytest.mark.parametrize(("nodes", "shown"), [(1, {"node"}), (2, {"node", "network"})])
def test_all_to_alls_show_messages_where_they_have_peers(nodes: int, shown: set[str]) -> None:
    model = model_of(NCCL, curve("all_to_all", ("pairwise",), 8, nodes))
    names = {name.split()[0] for name in model.index if name.endswith("message to a peer")}
    assert names == shown
    reducing = model_of(NCCL, curve("all_reduce", ("ring",), 8, nodes))
    assert not any("peer" in name for name in reducing.index)


def test_kernels_are_simulated_as_they_are_predicted() -> None:
    cases = [("all_gather", ("ring_all_gather",)), ("all_to_all", ("pairwise",))]
    model = model_of(NCCL, *[curve(what, names, 4, 1) for what, names in cases])
    moved = np.random.default_rng(3).uniform(-0.5, 0.5, len(model.start))
    check_simulated(model, model.start + moved)


def test_a_file_keeps_what_kernels_cost() -> None:
    model = model_of(NCCL, curve("all_gather", ("ring_all_gather",), 4, 1))
    profile = model.profile(model.start, "made up", "nodes:per_node=4")
    assert profile.kernels.own_copies > 0
    assert of(profile, "NCCL").simulated().kernels == profile.kernels


def test_libraries_on_hosts_have_no_kernels() -> None:
    model = model_of(MPI, curve("all_gather", ("ring_all_gather",), 4, 1))
    assert model.profile(model.start).kernels == KernelCosts()


def test_memory_given_back_is_a_parameter_where_scratch_has_several_blocks() -> None:
    """A binary tree has one block in Open MPI, and three in Fujitsu's library."""
    points = FitPoints([curve("all_reduce", ("binary_tree",))])
    assert "memory given back" not in Model(points, MPI).index
    assert "memory given back" in Model(points, FUJITSU).index


def test_merging_takes_its_rate_for_every_byte() -> None:
    """A ring merges V / p in each of p - 1 steps."""
    model = model_of(MPI, curve("reduce_scatter", ("ring_reduce_scatter",), 8, 8))
    free = model.start.copy()
    free[[model.index[name] for name in ("γ", "γ beyond cache")]] = -200.0
    for inner in (model.start, free):
        model.explore(inner)
    worth = model.predict(model.start) - model.predict(free)
    merge = model.profile(model.start).memory.merge(SIZES)
    assert worth == pytest.approx(np.asarray(merge) * SIZES * 7 / 8, rel=1e-3)


def test_what_is_registered_again_grows_with_the_ranks() -> None:
    """V p / 2 bytes of a ring's reduce-scatter of fresh memory, and nothing else."""
    model = model_of(
        MPI, *[curve("reduce_scatter", ("ring_reduce_scatter",), p, p // 4) for p in (8, 16)]
    )
    model.explore(model.start)
    free = model.start.copy()
    free[model.index["memory registered again"]] = -200.0
    worth = (model.predict(model.start) - model.predict(free)) / model.points.size
    fresh = model.points.size >= model.profile(model.start).memory.mapped
    assert worth[fresh] == pytest.approx(model.points.ranks[fresh] / 2 / 40e9)
    assert worth[~fresh] == pytest.approx(0.0, abs=1e-18)


def test_fresh_memory_is_pinned_once_whatever_its_size() -> None:
    model = model_of(MPI, curve("all_reduce", ("recursive_doubling",)))
    assert "memory pinned on many ranks" not in model.index
    model.explore(model.start)
    free = model.start.copy()
    free[model.index["memory pinned"]] = -200.0
    worth = model.predict(model.start) - model.predict(free)
    fresh = model.points.size >= model.profile(model.start).memory.mapped
    assert worth[fresh] == pytest.approx(1e-4)
    assert worth[~fresh] == pytest.approx(0.0, abs=1e-12)


def test_an_algorithm_without_scratch_shows_no_pinning() -> None:
    model = model_of(MPI, curve("all_reduce", ("ring",)))
    assert "memory pinned" not in model.index
    assert model.profile(model.start).memory.pinned == 0.0


def test_scratch_is_pinned_more_slowly_on_many_ranks() -> None:
    curves = [curve("all_reduce", ("recursive_doubling",), ranks, ranks) for ranks in (256, 512)]
    model = model_of(MPI, *curves)
    model.explore(model.start)
    free = model.start.copy()
    free[model.index["memory pinned on many ranks"]] = -200.0
    worth = model.predict(model.start) - model.predict(free)
    size, memory = model.points.size, model.profile(model.start).memory
    kept = (size > memory.trimmed) & (size < memory.mapped) & (model.points.ranks > 256)
    assert worth[kept] == pytest.approx(1e-4)
    assert worth[~kept] == pytest.approx(0.0, abs=1e-12)
