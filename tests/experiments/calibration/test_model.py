"""What a fit predicts by counted paths is what a simulation says, parameter by parameter."""

import numpy as np
import pytest

from experiments.calibration.exploration import Exploration
from experiments.calibration.libraries import MPI, NCCL, Library
from experiments.calibration.machine_builder import machine_for
from experiments.calibration.model import Model
from experiments.calibration.observations import Points, Series
from experiments.calibration.paths import Costs, Paths
from experiments.calibration.prediction import predict
from experiments.calibration.table import as_nodes
from simulator.collectives import find
from topologies.catalogue import find as machine
from topologies.shapes import nodes
from topologies.topology import Topology

SIZES = np.geomspace(4.0**4, 4.0**14, 11)
EVERY = tuple(
    (prior.name, kind)
    for library in (NCCL, MPI)
    for prior in library.protocols
    for kind in ("node", "network")
)


def curve(collective: str, names: tuple[str, ...], ranks: int = 8, count: int = 2) -> Series:
    return Series("made up", collective, names, ranks, count, SIZES, np.ones(len(SIZES)))


@pytest.mark.parametrize("gaps", [(), EVERY], ids=["", "gaps"])
@pytest.mark.parametrize("library", [NCCL, MPI], ids=lambda one: str(one.name))
@pytest.mark.parametrize(
    ("collective", "names"),
    [
        ("all_reduce", ("ring", "double_tree")),
        ("all_reduce", ("recursive_doubling",)),
        ("all_gather", ("ring_all_gather", "recursive_doubling_all_gather")),
        ("all_reduce", ("tree", "binary_tree")),
        ("reduce_scatter", ("recursive_halving_reduce_scatter",)),
        ("reduce_scatter", ("ring_reduce_scatter",)),
        ("broadcast", ("chain_broadcast",)),
        ("all_to_all", ("pairwise",)),
    ],
)
def test_paths_and_simulation_agree(
    library: object, collective: str, names: tuple[str, ...], gaps: tuple[tuple[str, str], ...]
) -> None:
    """At parameters that no path was looked for at; the profile simulates every protocol and
    algorithm."""
    assert library in (NCCL, MPI)
    known = NCCL if library is NCCL else MPI
    model = Model(
        Points([curve(collective, names), curve(collective, names, 12, 3)]), known, gaps=gaps
    )
    inner = model.start + np.random.default_rng(1).uniform(-0.5, 0.5, len(model.start))
    model.explore(inner)
    assert model.explore(inner) < 1e-9
    predicted = model.predict(inner)
    profile = model.profile(inner, "made up", "nodes:per_node=4")
    for k, one in enumerate(model.points.curves):
        rows = predict(profile, known, one, as_nodes(one.ranks, one.per_node))
        assert [row.seconds for row in rows] == pytest.approx(
            predicted[model.points.curve == k], rel=1e-9
        )


def test_a_path_is_counted_in_links_bytes_and_bytes_merged() -> None:
    """Ring of 4 on a star: 6 steps of two links, 6/4 V on the way, 6 messages, 3/4 V merged."""
    paths = Paths(find("ring"), as_nodes(4, 1), 4, ("network",))
    costs = Costs(np.array([1e-6]), np.array([1e-9]), np.array([1e-7]), 1e-10)
    assert paths.simulate(costs, 4e3) == pytest.approx(
        12e-6 + 6e3 * 1e-9 + 6e-7 + 3e3 * 1e-10, rel=1e-12
    )
    (row,) = paths.rows(0, 4e3)
    assert row == pytest.approx([12.0, 1.5, 6.0, 0.75])
    assert paths.longest(costs, 4e3) == pytest.approx(paths.simulate(costs, 4e3), rel=1e-12)


def test_paths_that_are_longer_than_the_simulation_are_dropped() -> None:
    """Where queues are served in another order; what is left is never longer than what was
    simulated last."""
    paths = Paths(find("double_tree"), as_nodes(16, 4), 16, ("node", "network"))
    random = np.random.default_rng(0)
    for _ in range(8):
        costs = Costs(
            10.0 ** random.uniform(-7, -5, 2),
            10.0 ** random.uniform(-11, -9, 2),
            np.zeros(2),
            1e-11,
        )
        for nbytes in (1e3, 1e6, 1e9):
            simulated = paths.simulate(costs, nbytes)
            assert paths.longest(costs, nbytes) == pytest.approx(simulated, rel=1e-9)


def test_a_ring_with_fewer_elements_than_ranks_is_recursive_doubling_in_mpi() -> None:
    ring, doubling = (
        Model(
            Points([Series("x", "all_reduce", (name,), 8, 8, np.array([4.0, 4096.0]), np.ones(2))]),
            MPI,
        )
        for name in ("ring", "recursive_doubling")
    )
    for model in (ring, doubling):
        model.explore(model.start)
    assert ring.predict(ring.start)[0] == doubling.predict(doubling.start)[0]
    assert ring.predict(ring.start)[1] > doubling.predict(doubling.start)[1]


def test_a_rendezvous_in_a_ring_has_an_alpha_of_its_own() -> None:
    model = Model(
        Points([curve("all_reduce", ("ring",)), curve("all_reduce", ("halving_doubling",))]), MPI
    )
    ringed = model.start.copy()
    ringed[model.index["rendezvous α in rings"]] = np.log(3.0)
    for inner in (model.start, ringed):
        model.explore(inner)
    before, after = model.predict(model.start), model.predict(ringed)
    ring = model.points.curve == 0
    assert after[~ring] == pytest.approx(before[~ring])
    assert (after[ring] > 1.05 * before[ring]).any()
    factors = model.profile(ringed, "x", "nodes:per_node=4").protocols[-1].factors
    assert factors["ring_all_gather"] == pytest.approx({"node": 3.0, "network": 3.0})


def test_what_only_rings_know_is_no_parameter_where_the_library_chose() -> None:
    """It would be fitted so that rings are never chosen."""
    free = Model(Points([curve("all_reduce", ("ring", "halving_doubling"))]), MPI)
    told = Model(Points([*free.points.curves, curve("all_reduce", ("ring",))]), MPI)
    assert "rendezvous α in rings" in told.index
    assert "rendezvous α in rings" not in free.index


def test_what_is_registered_again_grows_with_the_ranks() -> None:
    """V p / 2 bytes of a ring's reduce-scatter of fresh memory, and nothing else."""
    model = Model(
        Points([curve("reduce_scatter", ("ring_reduce_scatter",), p, p // 4) for p in (8, 16)]), MPI
    )
    model.explore(model.start)
    free = model.start.copy()
    free[model.index["memory registered again"]] = -200.0
    worth = (model.predict(model.start) - model.predict(free)) / model.points.size
    fresh = model.points.size >= model.profile(model.start).memory.mapped
    assert worth[fresh] == pytest.approx(model.points.ranks[fresh] / 2 / 40e9)
    assert worth[~fresh] == pytest.approx(0.0, abs=1e-18)


def test_long_exchanges_are_a_parameter_where_there_are_any() -> None:
    """Ranks in one node exchange through memory; NCCL's rings and trees exchange nothing."""
    for library, name, count, known in (
        (MPI, "halving_doubling", 2, True),
        (MPI, "halving_doubling", 1, False),
        (MPI, "ring", 2, False),
        (NCCL, "halving_doubling", 2, False),
    ):
        model = Model(Points([curve("all_reduce", (name,), 8, count)]), library)
        assert ("long exchanges" in model.index) == known
    chosen = Model(Points([curve("all_reduce", ("ring", "halving_doubling"))]), MPI)
    assert "long exchanges" not in chosen.index
    model = Model(Points([curve("all_reduce", ("halving_doubling",), 8, 2)]), MPI)
    model.explore(model.start)
    free = model.start.copy()
    free[model.index["long exchanges"]] = -200.0
    between = 2 * np.maximum(
        0.0, model.points.size / 2 - model.profile(model.start).exchanges.beyond
    )
    assert model.predict(model.start) - model.predict(free) == pytest.approx(between / 40e9)


def test_a_reduce_and_a_broadcast_are_the_librarys_own_choice() -> None:
    assert MPI.algorithms("all_reduce", "nonoverlapping") == ("tree", "binary_tree")
    assert MPI.algorithms("all_reduce", "segmented_ring") == ("ring",)
    assert MPI.algorithms("all_reduce", "trix6") == ()


def test_a_protocol_that_was_forced_is_the_only_one() -> None:
    times = {}
    for protocol in ("", "LL", "Simple"):
        told = NCCL.told(protocol)
        series = Series(
            "x", "all_reduce", ("ring",), 8, 2, SIZES, np.ones(len(SIZES)), protocols=told
        )
        model = Model(Points([series]), NCCL)
        model.explore(model.start)
        times[protocol] = model.predict(model.start)
        profile = model.profile(model.start, "x", "nodes:per_node=4")
        rows = predict(profile, NCCL, series, as_nodes(8, 4))
        assert [row.seconds for row in rows] == pytest.approx(times[protocol], rel=1e-6)
        assert {row.protocol for row in rows} <= set(
            told or [prior.name for prior in NCCL.protocols]
        )
    assert (times[""] <= np.minimum(times["LL"], times["Simple"]) * (1 + 1e-9)).all()
    assert times["LL"][-1] > 3 * times["Simple"][-1]
    assert times["LL"][0] < times["Simple"][0]


@pytest.mark.parametrize(
    ("ranks", "count", "per_node"), [(9, 3, 3), (8, 8, 1), (10, 4, 3), (10, 3, 4), (8, 1, 8)]
)
def test_nodes_of_any_size_are_the_same_to_fit_and_profile(
    ranks: int, count: int, per_node: int
) -> None:
    from experiments.calibration.observations import series
    from experiments.measurements import Curve
    from experiments.measurements import Point as Measured

    points = tuple(Measured(int(size), 1e-3) for size in SIZES)
    one = series(
        Curve("all_reduce", ranks, count, points, (), "x", algorithm="ring", library="NCCL"), NCCL
    )
    assert one.per_node == per_node
    model = Model(Points([one, curve("all_reduce", ("ring",), 16, 4)]), NCCL)
    model.explore(model.start)
    profile = model.profile(model.start, "x", "nodes:per_node=4")
    rows = predict(
        profile, NCCL, one, machine(profile.machine).for_job(one.ranks, one.nodes).build(one.ranks)
    )
    assert [row.seconds for row in rows] == pytest.approx(
        model.predict(model.start)[: len(rows)], rel=1e-6
    )


def test_what_a_topology_says_of_gaps_and_merging_gives_way_to_the_fit() -> None:
    def slow(ranks: int, per_node: int) -> Topology:
        return nodes(
            ranks, per_node=per_node, bandwidth=1e9, latency=1e-6, gap=5e-6, reduction=1e-9
        )

    series = curve("all_reduce", ("ring",))
    model = Model(Points([series]), NCCL, slow)
    model.explore(model.start)
    assert model.explore(model.start) < 1e-9
    rows = predict(model.profile(model.start, "x", "nodes"), NCCL, series, slow(8, 4))
    assert [row.seconds for row in rows] == pytest.approx(model.predict(model.start), rel=1e-6)


def test_sessions_are_simulated_as_they_are_predicted() -> None:
    model = Model(
        Points([curve("all_reduce", ("ring",), 8, 2), curve("all_reduce", ("ring",), 16, 4)]), MPI
    )
    inner = model.start + np.random.default_rng(2).uniform(-1, 1, len(model.start))
    assert any(" at " in parameter.name for parameter in model.parameters)
    model.explore(inner)
    (place,) = [one for one in model.paths.places() if one.nodes == 4 and one.algorithm == "ring"]
    exploration, simulated = Exploration(model.profile(inner), model.paths.jobs, model.kinds), []
    for number in range(len(MPI.protocols)):
        costs = exploration.costs(place, number, SIZES[-1])
        simulated.append(place.paths.simulate(costs, SIZES[-1], number))
    memory = model.profile(inner).memory
    first = model.values(inner)["launch"] + memory.touch(SIZES[-1]) * SIZES[-1]
    assert model.predict(inner)[-1] == pytest.approx(first + min(simulated), rel=1e-9)


MIXED = (
    ("all_reduce", "ring", 8, 2),
    ("all_reduce", "ring", 6, 3),
    ("all_reduce", "double_tree", 8, 1),
    ("all_to_all", "pairwise", 8, 2),
    ("all_to_all", "pairwise", 4, 4),
    ("send_recv", "shift", 8, 2),
    ("send_recv", "shift", 4, 1),
)


def test_sends_and_shared_ports_are_simulated_as_they_are_predicted() -> None:
    model = Model(
        Points([curve(what, (name,), ranks, count) for what, name, ranks, count in MIXED]), NCCL
    )
    inner = model.start + np.random.default_rng(3).uniform(-0.5, 0.5, len(model.start))
    names = {
        "launch of sends",
        "α of sends",
        "node 1/β of sends",
        "network 1/β of sends",
        "network 1/β by ranks a node",
    }
    assert names <= model.index.keys()
    model.explore(inner)
    assert model.explore(inner) < 1e-9
    predicted, profile = model.predict(inner), model.profile(inner, "made up", "nodes")
    for k, one in enumerate(model.points.curves):
        rows = predict(profile, NCCL, one, as_nodes(one.ranks, one.per_node))
        assert [row.seconds for row in rows] == pytest.approx(
            predicted[model.points.curve == k], rel=1e-9
        )


def test_ranks_with_ports_of_their_own_are_told_from_those_that_share_one() -> None:
    """1/β per node falls with the ranks there; a shift, in which one rank sends from node to node,
    is as fast."""
    mixed = [
        curve(what, (name,), ranks, 2)
        for ranks in (4, 8)
        for what, name in (("all_reduce", "ring"), ("send_recv", "shift"))
    ]
    model = Model(Points(mixed), NCCL)
    own = model.start.copy()
    own[model.index["network 1/β by ranks a node"]] = -1.0
    for inner in (model.start, own):
        model.explore(inner)
    largest = model.points.size == SIZES[-1]
    before, after = (model.predict(inner)[largest] for inner in (model.start, own))
    wide = np.sqrt(2 * 4)
    assert after / before == pytest.approx([wide / 2, wide, wide / 4, wide], rel=0.02)
    predicted, profile = model.predict(own), model.profile(own, "one number of nodes", "nodes")
    for k, one in enumerate(model.points.curves):
        rows = predict(profile, NCCL, one, as_nodes(one.ranks, one.per_node))
        assert [row.seconds for row in rows] == pytest.approx(
            predicted[model.points.curve == k], rel=1e-9
        )


@pytest.mark.parametrize(
    ("library", "topology", "curves"),
    [
        (MPI, "hgx_h100", [("halving_doubling", 16, 2), ("halving_doubling", 32, 4)]),
        (NCCL, "hgx_h100", [("nvls", 16, 2), ("ring", 16, 2), ("ring", 8, 4)]),
    ],
)
def test_any_machine_is_the_same_to_fit_and_profile(
    library: Library, topology: str, curves: list[tuple[str, int, int]]
) -> None:
    """Long exchanges over links of another kind; switches that reduce are no ranks of a node."""
    build = machine_for(machine(topology))
    model = Model(
        Points([curve("all_reduce", (name,), ranks, count) for name, ranks, count in curves]),
        library,
        build,
    )
    inner = model.start + np.random.default_rng(3).uniform(-0.5, 0.5, len(model.start))
    for _ in range(4):
        model.explore(inner)
    predicted, profile = model.predict(inner), model.profile(inner, "made up", topology)
    for k, one in enumerate(model.points.curves):
        rows = predict(profile, library, one, build(one.ranks, one.per_node))
        assert [row.seconds for row in rows] == pytest.approx(
            predicted[model.points.curve == k], rel=1e-9
        )


def test_what_sends_have_of_their_own_is_fitted_beside_something_else() -> None:
    alone = Model(
        Points([curve("send_recv", ("shift",)), curve("all_to_all", ("pairwise",))]), NCCL
    )
    assert not any("sends" in name for name in alone.index)
    for library in (NCCL, MPI):
        both = Model(
            Points([curve("send_recv", ("shift",)), curve("all_reduce", ("ring",))]), library
        )
        assert ("α of sends" in both.index) == (library is NCCL)


def test_any_machine_can_be_fitted_by_its_own_kinds_of_link() -> None:
    def hopper(ranks: int, per_node: int) -> Topology:
        return machine("hgx_h100").build(ranks)

    model = Model(Points([curve("all_reduce", ("ring",), 16)]), NCCL, hopper)
    assert {"nvlink", "pcie", "ib"} <= set(model.kinds)
    names = {parameter.name for parameter in model.parameters}
    assert {"LL nvlink α", "Simple ib 1/β", "LL 1/β"} <= names
    model.explore(model.start)
    assert np.isfinite(model.predict(model.start)).all()
