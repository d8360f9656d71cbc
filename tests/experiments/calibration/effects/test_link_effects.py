"""Effects on the cost of links."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.calibration.effects.link_effects import protocols
from experiments.calibration.fit import explore, fit
from experiments.calibration.known_paths import as_nodes
from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library import Library
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve
from experiments.calibration.prediction import predict
from made_up_curves import SIZES, check_simulated, curve, model_of


def test_every_protocol_has_a_latency_and_a_rate_for_each_kind_of_link() -> None:
    model = model_of(MPI, curve("all_reduce", ("ring",)), gaps=[("eager", "network")])
    names = {
        f"{prior.name} {kind} {what}"
        for prior in MPI.protocols
        for kind in ("node", "network")
        for what in ("α", "1/β")
    }
    assert {*names, "eager network g"} <= model.index.keys()
    assert "short network g" not in model.index


def test_long_messages_of_nccl_between_nodes_hold_their_links() -> None:
    """A ring over several nodes sends one for each step. On one node there is no g."""
    assert "Simple network g" not in model_of(NCCL, curve("all_reduce", ("ring",), 8, 1)).index
    model = model_of(NCCL, curve("all_reduce", ("ring",), 8, 4))
    assert [name for name in model.index if name.endswith(" g")] == ["Simple network g"]
    longer = model.start.copy()
    longer[model.index["Simple network g"]] += np.log(11)
    check_simulated(model, longer)
    largest, held = model.points.largest, 10 * model.values(model.start)["Simple network g"]
    added = (model.predict(longer) - model.predict(model.start))[largest]
    assert added == pytest.approx(14 * held, rel=0.2)


def test_a_single_warp_has_one_rate_for_all_links() -> None:
    model = model_of(NCCL, curve("all_reduce", ("ring",)))
    assert "short 1/β" in model.index
    links = model.profile(model.start).protocols[0].links
    assert links["node"].bandwidth == links["network"].bandwidth == pytest.approx(0.15e9)


def test_jobs_on_one_node_have_their_own_rate_of_ll() -> None:
    """Jobs over several nodes have as many channels as their network feeds."""
    curves = [curve("all_reduce", ("ring",), 8, nodes) for nodes in (1, 4)]
    model = model_of(NCCL, *curves)
    model.explore(model.start)
    faster = model.start.copy()
    faster[model.index["LL node 1/β"]] -= 0.1
    changed = model.predict(faster) < model.predict(model.start)
    assert changed[model.points.nodes == 1].any()
    assert not changed[model.points.nodes > 1].any()


@pytest.mark.parametrize("library", [NCCL, MPI])
@given(shifts=st.lists(st.floats(-6, 6), min_size=24, max_size=24))
def test_protocols_keep_their_roles(library: Library, shifts: list[float]) -> None:
    model = model_of(library, curve("all_reduce", ("ring",)))
    profile = model.profile(model.start + np.array(shifts)[: len(model.start)])
    ordered = [
        protocol.links
        for protocol, prior in zip(profile.protocols, library.protocols, strict=True)
        if not prior.kind_of
    ]
    for kind in model.kinds:
        latencies = [links[kind].latency for links in ordered]
        assert latencies == sorted(latencies)
        for protocol, prior in zip(profile.protocols, library.protocols, strict=True):
            most = prior.share * profile.protocols[-1].links[kind].bandwidth
            assert protocol.links[kind].bandwidth <= most * (1 + 1e-9)


def test_short_messages_of_cray_mpich_have_at_most_192_bytes() -> None:
    """On Slingshot. Runs of several libraries have no limit together."""
    measured = curve("all_reduce", ("ring",))
    cray, other = (
        FitCurve(**(vars(measured) | {"library": name})) for name in ("Cray MPICH 8.1.29", "MPICH")
    )
    limits = []
    for curves in ([cray], [other], [cray, other]):
        model = model_of(MPI, *curves)
        limits.append([each.most for each in model.profile(model.start).protocols])
    assert limits == [[192.0, inf, inf], [inf, inf, inf], [inf, inf, inf]]


def test_a_protocol_with_flags_reaches_no_more_than_its_share_of_a_link() -> None:
    model = model_of(NCCL, curve("all_reduce", ("ring",)))
    values = model.values(model.start) | {"LL128 network 1/β": 1e-12, "Simple network 1/β": 2e-11}
    links = protocols(model.data).write(model.profile(model.start), values).protocols[2].links
    assert links["network"].bandwidth == pytest.approx(0.92 * 50e9)


def _broadcast(version: str) -> FitCurve:
    """A broadcast on two nodes of four ranks by a version of Open MPI."""
    rule = MPI.rule("broadcast", 8, version)
    assert rule is not None
    names = tuple(dict.fromkeys(map(rule, SIZES.tolist())))
    return FitCurve(**(vars(curve("broadcast", names)) | {"rule": rule}))


def test_a_gap_in_segments_is_simulated_as_it_is_predicted() -> None:
    series = _broadcast("Open MPI 4.0.5")
    model = model_of(MPI, series)
    longer = model.start.copy()
    for name in ("node g", "network g", "node g of rendezvous", "network g of rendezvous"):
        longer[model.index[name]] += np.log(20.0)
    for inner in (model.start, longer):
        model.explore(inner)
        assert model.explore(inner) < 1e-9
    predicted, profile = model.predict(longer), model.profile(longer, "made up", "nodes")
    eager, rendezvous = (
        {kind: link.gap for kind, link in protocol.links.items()}
        for protocol in profile.protocols[1:]
    )
    assert eager == pytest.approx({"node": 20 * 0.2e-6, "network": 20 * 0.5e-6})
    assert rendezvous == pytest.approx({"node": 80 * 0.2e-6, "network": 80 * 0.5e-6})
    rows = predict(profile, MPI, series, as_nodes(8, 4))
    assert [row.seconds for row in rows] == pytest.approx(predicted, rel=1e-9)
    many = np.array([":segments=1" not in row.algorithm for row in rows])
    assert (predicted[many] > 1.5 * model.predict(model.start)[many]).any()


@pytest.mark.parametrize(
    "series", [_broadcast("Open MPI 4.1.6"), curve("broadcast", ("chain_broadcast",))]
)
def test_a_run_without_segments_by_a_rule_shows_no_gap(series: FitCurve) -> None:
    assert "node g" not in model_of(MPI, series).index


def test_growth_is_a_parameter_where_jobs_have_several_numbers_of_nodes() -> None:
    single_job = model_of(NCCL, curve("all_reduce", ("ring",)))
    assert "network α by nodes" not in single_job.index
    assert single_job.profile(single_job.start).crowding == {}
    several = model_of(NCCL, curve("all_reduce", ("ring",)), curve("all_reduce", ("ring",), 32, 8))
    slow = several.start.copy()
    slow[several.index["network 1/β by nodes"]] = 1.0
    crowding = several.profile(slow).crowding["network"]
    assert (crowding.nodes, crowding.most) == pytest.approx((4.0, 8.0))
    assert crowding.slower(8.0) == pytest.approx([1.0, 2.0])


def test_growth_ends_at_the_most_nodes_that_a_fit_sees() -> None:
    model = model_of(NCCL, curve("all_reduce", ("ring",)), curve("all_reduce", ("ring",), 32, 8))
    fewer = model.seeing(model.points.nodes < 8)
    assert fewer.profile(model.start).crowding["network"].most == 2.0
    assert model.profile(model.start).crowding["network"].most == 8.0


def test_sessions_are_simulated_as_they_are_predicted() -> None:
    model = model_of(
        MPI, curve("all_reduce", ("ring",), 8, 2), curve("all_reduce", ("ring",), 16, 4)
    )
    inner = model.start + np.random.default_rng(2).uniform(-1, 1, len(model.start))
    assert any(" at " in parameter.name for parameter in model.parameters)
    model.explore(inner)
    profile, chosen = model.profile(inner), model.paths.of["ring", 16, 4]
    costs = next(each for paths, each in model.paths.costs(profile) if paths is chosen)
    simulated = [
        chosen.simulate(costs(number, SIZES[-1]), SIZES[-1], number)
        for number in range(len(MPI.protocols))
    ]
    memory = profile.memory
    first = model.values(inner)["launch"] + memory.touch(SIZES[-1]) * SIZES[-1]
    assert model.predict(inner)[-1] == pytest.approx(first + min(simulated), rel=1e-9)


def made(forced: str, *counts: int) -> Model:
    """All-gathers by rings on nodes of one rank."""
    curves = [curve("all_gather", ("ring_all_gather",), count, count) for count in counts]
    return model_of(MPI, *[replace(each, forced=forced) for each in curves])


def test_more_nodes_slow_the_rate_of_rendezvous_alone() -> None:
    model = made("ring", 2, 16)
    slow = model.start.copy()
    slow[model.index["network 1/β by nodes"]] = 0.5
    profiles = [model.profile(inner) for inner in (model.start, slow)]
    jobs = model.paths.jobs
    before, after = (each.link_costs(jobs, each.protocols, ["network"]) for each in profiles)
    slowed = before.bandwidth / after.bandwidth
    assert slowed[:-1] == pytest.approx(1.0)
    assert slowed[-1, 0] == pytest.approx(np.sqrt(jobs.nodes / model.data.typical))


def test_only_forced_algorithms_on_several_numbers_of_nodes_show_it() -> None:
    chosen, forced = made("", 2, 16), made("ring", 2)
    assert chosen.profile(chosen.start).crowding["network"].protocol == ""
    assert forced.profile(forced.start).crowding == {}


def test_ranks_with_ports_of_their_own_are_told_from_those_that_share_one() -> None:
    """1/β per node falls with the ranks there; a shift, in which one rank sends from node to node,
    is as fast."""
    mixed = [
        curve(what, (name,), ranks, 2)
        for ranks in (4, 8)
        for what, name in (("all_reduce", "ring"), ("send_recv", "shift"))
    ]
    model = model_of(NCCL, *mixed)
    power = model.index["network 1/β by ranks a node"]
    shared, with_ports = model.start.copy(), model.start.copy()
    shared[power], with_ports[power] = 0.0, -1.0
    for inner in (shared, with_ports):
        model.explore(inner)
    largest = model.points.size == SIZES[-1]
    before, after = (model.predict(inner)[largest] for inner in (shared, with_ports))
    wide = np.sqrt(2 * 4)
    assert after / before == pytest.approx([wide / 2, wide, wide / 4, wide], rel=0.02)
    check_simulated(model, with_ports)


def test_without_data_each_rank_has_a_port_of_its_own() -> None:
    """A job of one rank a node does not show whether two would share a port."""
    rates = {1: 1.0, 2: 2.0}
    curves = [
        FitCurve(**(vars(alike) | {"seconds": 1e-5 + SIZES / rates[alike.per_node] / 1e9}))
        for alike in (curve("all_gather", ("ring_all_gather",), 4 * width, 4) for width in rates)
    ]
    whole = explore(model_of(NCCL, *curves))
    narrow = fit(whole.model, whole.model.points.ranks == 4)
    wide = (whole.model.points.ranks == 8) & whole.model.points.largest
    assert narrow.predicted[wide] == pytest.approx(whole.model.points.seconds[wide], rel=0.25)


def test_on_two_nodes_a_tree_moves_v_over_the_network_and_a_ring_almost_twice_that() -> None:
    """Links inside nodes have the β of the network on four nodes, and twice that on two nodes."""
    mixed = [curve("all_reduce", ("double_tree", "ring"), 4 * count, count) for count in (2, 4)]
    model = model_of(NCCL, *mixed)
    check_simulated(model, model.start)
    largest = model.points.size == SIZES[-1]
    rate = model.profile(model.start).protocols[-1].links["network"].bandwidth
    volume = model.predict(model.start)[largest] * rate / SIZES[-1]
    assert volume == pytest.approx([1.03, 1.88], rel=0.1)


def test_other_channels_on_two_nodes_show_only_beside_larger_jobs() -> None:
    for counts, shown in (((2,), False), ((4, 8), False), ((1, 2), False), ((2, 4), True)):
        curves = [curve("all_reduce", ("ring",), 4 * count, count) for count in counts]
        model = model_of(NCCL, *curves)
        assert ("node β on two nodes" in model.index) == shown
        assert model.profile(model.start).pace_on_two == pytest.approx(2.0)


def test_long_exchanges_are_a_parameter_where_there_are_any() -> None:
    """Ranks in one node exchange through memory; NCCL's rings and trees exchange nothing."""
    for library, name, count, known in (
        (MPI, "halving_doubling", 2, True),
        (MPI, "halving_doubling", 1, False),
        (MPI, "ring", 2, False),
        (NCCL, "halving_doubling", 2, False),
    ):
        model = model_of(library, curve("all_reduce", (name,), 8, count))
        assert ("long exchanges" in model.index) == known
    chosen = model_of(MPI, curve("all_reduce", ("ring", "halving_doubling")))
    assert "long exchanges" not in chosen.index
    model = model_of(MPI, curve("all_reduce", ("halving_doubling",), 8, 2))
    model.explore(model.start)
    free = model.start.copy()
    free[model.index["long exchanges"]] = -200.0
    between = 2 * np.maximum(
        0.0, model.points.size / 2 - model.profile(model.start).exchanges.beyond
    )
    assert model.predict(model.start) - model.predict(free) == pytest.approx(between / 40e9)
