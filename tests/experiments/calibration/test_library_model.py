"""What a fit predicts by counted paths is what a simulation says, parameter by parameter."""

import numpy as np
import pytest

from experiments.calibration.known_paths import as_nodes, machine_for
from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library import Library
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.paths import Paths
from experiments.calibration.prediction import predict
from made_up_curves import SIZES, curve
from simulator.collectives import find
from topologies.catalogue import find as machine
from topologies.shapes import nodes
from topologies.topology import Topology

EVERY = tuple(
    (prior.name, kind)
    for library in (NCCL, MPI)
    for prior in library.protocols
    for kind in ("node", "network")
)


CASES = [
    ("all_reduce", ("ring", "double_tree")),
    ("all_reduce", ("recursive_doubling",)),
    ("all_gather", ("ring_all_gather", "recursive_doubling_all_gather")),
    ("all_reduce", ("tree", "binary_tree")),
    ("reduce_scatter", ("recursive_halving_reduce_scatter",)),
    ("reduce_scatter", ("ring_reduce_scatter",)),
    ("broadcast", ("chain_broadcast",)),
    ("all_to_all", ("pairwise",)),
]


@pytest.mark.parametrize(
    ("library", "collective", "names", "gaps"),
    [
        *((library, *CASES[0], gaps) for library in (NCCL, MPI) for gaps in (EVERY, ())),
        *(((NCCL, MPI)[number % 2], *case, EVERY) for number, case in enumerate(CASES[1:])),
        *(
            pytest.param(library, *case, gaps, marks=pytest.mark.exhaustive)
            for number, case in enumerate(CASES[1:])
            for library, gaps in (((MPI, NCCL)[number % 2], EVERY), (NCCL, ()), (MPI, ()))
        ),
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
        FitPoints([curve(collective, names), curve(collective, names, 12, 3)]), known, gaps=gaps
    )
    inner = model.start + np.random.default_rng(1).uniform(-0.5, 0.5, len(model.start))
    model.explore(inner)
    assert model.explore(inner) < 1e-9
    predicted = model.predict(inner)
    profile = model.profile(inner, "made up", "nodes:per_node=4")
    for k, series in enumerate(model.points.curves):
        rows = predict(profile, known, series, as_nodes(series.ranks, series.per_node))
        assert [row.seconds for row in rows] == pytest.approx(
            predicted[model.points.curve == k], rel=1e-9
        )


def test_paths_and_simulation_agree_where_messages_of_a_protocol_have_a_limit() -> None:
    measured = curve("all_reduce", ("ring", "halving_doubling"))
    model = Model(FitPoints([FitCurve(**(vars(measured) | {"library": "Cray MPICH"}))]), MPI)
    model.explore(model.start)
    assert model.explore(model.start) < 1e-9
    profile = model.profile(model.start)
    simulated = predict(profile, MPI, model.points.curves[0], as_nodes(measured.ranks, 4))
    assert model.predict(model.start) == pytest.approx([row.seconds for row in simulated], rel=1e-6)
    unlimited = Model(FitPoints([measured]), MPI)
    unlimited.explore(unlimited.start)
    assert (model.predict(model.start) >= unlimited.predict(model.start) * (1 - 1e-9)).all()


def test_a_path_is_counted_in_links_bytes_and_bytes_merged() -> None:
    """Ring of 4 on a star: 6 steps of two links, 6/4 V on the way, 6 messages, 3/4 V merged."""
    paths = Paths(find("ring"), as_nodes(4, 1), 4, ("network",))
    costs = np.array([1e-6, 1e-9, 1e-7, 1e-10])
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
        alpha, slowness = 10.0 ** random.uniform((-7, -11), (-5, -9), (2, 2)).T
        costs = np.array([*alpha, *slowness, 0.0, 0.0, 1e-11])
        for nbytes in (1e3, 1e6, 1e9):
            simulated = paths.simulate(costs, nbytes)
            assert paths.longest(costs, nbytes) == pytest.approx(simulated, rel=1e-9)


def test_a_ring_with_fewer_elements_than_ranks_is_recursive_doubling_in_mpi() -> None:
    ring, doubling = (
        Model(
            FitPoints(
                [FitCurve("x", "all_reduce", (name,), 8, 8, np.array([4.0, 4096.0]), np.ones(2))]
            ),
            MPI,
        )
        for name in ("ring", "recursive_doubling")
    )
    for model in (ring, doubling):
        model.explore(model.start)
    assert ring.predict(ring.start)[0] == doubling.predict(doubling.start)[0]
    assert ring.predict(ring.start)[1] > doubling.predict(doubling.start)[1]


def test_a_reduce_and_a_broadcast_are_the_librarys_own_choice() -> None:
    assert MPI.algorithms("all_reduce", "nonoverlapping") == ("tree", "binary_tree")
    assert MPI.algorithms("all_reduce", "segmented_ring") == ("ring",)
    assert MPI.algorithms("all_reduce", "trix6") == ()


def test_a_pairwise_all_to_all_of_mpi_waits_at_every_step() -> None:
    """(p - 1)(α + V / (p β)) over two links, by the fastest protocol."""
    names = MPI.algorithms("all_to_all", "pairwise")
    sizes = np.array([2.0**14, 2.0**26])
    model = Model(FitPoints([FitCurve("x", "all_to_all", names, 64, 64, sizes, np.ones(2))]), MPI)
    model.explore(model.start)
    profile = model.profile(model.start)
    links = [protocol.links["network"] for protocol in profile.protocols]
    steps = [63 * (2 * link.latency + sizes / 64 / link.bandwidth) for link in links]
    rest = model.predict(model.start) - profile.launch - np.min(steps, axis=0)
    assert rest == pytest.approx([0.0, 0.0], abs=1e-9)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_long_chains_of_nccl_take_little_longer_than_short_ones(collective: str) -> None:
    """A chain of 64 pieces takes three times as long on 128 ranks as on two."""
    names = NCCL.algorithms(collective)
    model = Model(
        FitPoints([curve(collective, names, ranks, ranks // 4) for ranks in (8, 128)]), NCCL
    )
    latencies = [name for name in model.index if name.endswith("α")]
    inner = model.start.copy()
    inner[[model.index[name] for name in latencies]] = np.log(1e-9)
    model.explore(inner)
    short, long = model.predict(inner)[model.points.largest]
    assert 1.1 < long / short < 1.4
    nodes_of_four = model.profile(inner, "made up", "nodes")
    series = model.points.curves[0]
    rows = predict(nodes_of_four, NCCL, series, as_nodes(8, 4))
    assert rows[-1].seconds == pytest.approx(short, rel=1e-9)


def test_a_tree_of_nccl_has_few_pieces_for_a_few_mebibytes() -> None:
    series = curve("all_reduce", NCCL.algorithms("all_reduce"))
    assert NCCL.ran(series, 2.0**12) == ("ring", "double_tree:segments=8")
    assert NCCL.ran(series, 2.0**24) == ("ring", "double_tree:segments=16")
    assert NCCL.ran(series, 2.0**32, ("double_tree",)) == ("double_tree:segments=32",)


def test_a_protocol_that_was_forced_is_the_only_one() -> None:
    times = {}
    for protocol, protocols in {"": (), "LL": ("short", "LL"), "Simple": ("Simple",)}.items():
        series = FitCurve(
            "x", "all_reduce", ("ring",), 8, 2, SIZES, np.ones(len(SIZES)), protocols=protocols
        )
        model = Model(FitPoints([series]), NCCL)
        model.explore(model.start)
        times[protocol] = model.predict(model.start)
        profile = model.profile(model.start, "x", "nodes:per_node=4")
        rows = predict(profile, NCCL, series, as_nodes(8, 4))
        assert [row.seconds for row in rows] == pytest.approx(times[protocol], rel=1e-6)
        assert {row.protocol for row in rows} <= set(
            protocols or [prior.name for prior in NCCL.protocols]
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
    from experiments.calibration.library import fit_curve
    from experiments.measurements import Curve
    from experiments.measurements import Point as Measured

    points = tuple(Measured(int(size), 1e-3) for size in SIZES)
    measured_curve = fit_curve(
        Curve("all_reduce", ranks, count, points, (), "x", algorithm="ring", library="NCCL"), NCCL
    )
    assert measured_curve.per_node == per_node
    model = Model(FitPoints([measured_curve, curve("all_reduce", ("ring",), 16, 4)]), NCCL)
    model.explore(model.start)
    profile = model.profile(model.start, "x", "nodes:per_node=4")
    rows = predict(
        profile,
        NCCL,
        measured_curve,
        machine(profile.machine).for_job(ranks, measured_curve.nodes).build(ranks),
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
    model = Model(FitPoints([series]), NCCL, slow)
    model.explore(model.start)
    assert model.explore(model.start) < 1e-9
    rows = predict(model.profile(model.start, "x", "nodes"), NCCL, series, slow(8, 4))
    assert [row.seconds for row in rows] == pytest.approx(model.predict(model.start), rel=1e-6)


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
        FitPoints([curve("all_reduce", (name,), ranks, count) for name, ranks, count in curves]),
        library,
        build,
    )
    inner = model.start + np.random.default_rng(3).uniform(-0.5, 0.5, len(model.start))
    for _ in range(4):
        model.explore(inner)
    predicted, profile = model.predict(inner), model.profile(inner, "made up", topology)
    for k, series in enumerate(model.points.curves):
        rows = predict(profile, library, series, build(series.ranks, series.per_node))
        assert [row.seconds for row in rows] == pytest.approx(
            predicted[model.points.curve == k], rel=1e-9
        )


def test_a_fit_of_one_node_says_what_links_to_other_nodes_cost() -> None:
    """They start at what the machine has. No run crosses them, so they take no degree of freedom
    from the fit of the others."""
    build = machine_for(machine("dgx_a100"))
    model = Model(FitPoints([curve("all_reduce", ("ring",), 8, 1)]), NCCL, build)
    assert "ib" in model.paths.further
    ib = float(build(16, 8).bandwidth[build(16, 8).link_kinds.are("ib")].min())
    simple = model.profile(model.start).protocols[-1]
    assert simple.links["ib"].bandwidth == pytest.approx(0.89 * ib)
    on_two = curve("all_reduce", ("ring",), 16, 2)
    rows = predict(model.profile(model.start), NCCL, on_two, build(16, 8))
    assert all(row.seconds > 0 for row in rows)


def test_a_machine_of_one_node_has_no_links_to_others() -> None:
    build = machine_for(machine("dgx_a100").with_options(nodes=1))
    model = Model(FitPoints([curve("all_reduce", ("ring",), 8, 1)]), NCCL, build)
    assert not model.paths.further


def test_any_machine_can_be_fitted_by_its_own_kinds_of_link() -> None:
    def hopper(ranks: int, per_node: int) -> Topology:
        return machine("hgx_h100").build(ranks)

    model = Model(FitPoints([curve("all_reduce", ("ring",), 16)]), NCCL, hopper)
    assert {"nvlink", "pcie", "ib"} <= set(model.kinds)
    names = {parameter.name for parameter in model.parameters}
    assert {"LL nvlink α", "Simple ib 1/β", "LL ib 1/β"} <= names
    model.explore(model.start)
    assert np.isfinite(model.predict(model.start)).all()
