"""Effects on single algorithms and on the launch of a collective."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.calibration.calibrated_profile import points
from experiments.calibration.effects.algorithm_effects import CHANNEL
from experiments.calibration.fit import explore
from experiments.calibration.known_paths import as_nodes
from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve
from experiments.calibration.prediction import predict
from experiments.measurements import Curve
from experiments.measurements.curve import Point
from experiments.profiles.profile_document import of
from grouped_cases import each_case
from made_up_curves import check_simulated, curve, model_of
from simulator.effects.jobs import jobs
from simulator.effects.link_slowdowns import PeerChannels


def test_a_launch_delays_every_algorithm_alike() -> None:
    """A call that takes two microseconds longer makes every size two microseconds longer."""
    model = model_of(MPI, curve("all_reduce", ("ring",)), curve("all_to_all", ("pairwise",)))
    later = model.start.copy()
    later[model.index["launch"]] = np.log(3e-6)
    model.explore(model.start)
    assert model.predict(later) - model.predict(model.start) == pytest.approx(2e-6)
    assert model.profile(later).launch == pytest.approx(3e-6)


def test_a_longer_launch_of_reductions_is_the_same_at_every_size() -> None:
    curves = [curve("all_reduce", ("ring",)), curve("broadcast", ("tree_broadcast",))]
    model = model_of(MPI, *curves)
    longer = model.start.copy()
    longer[model.index["launch of reductions"]] = np.log(30.0)
    model.explore(model.start)
    more = model.predict(longer) - model.predict(model.start)
    expected = np.where(model.points.curve == 0, 29e-6, 0.0)
    assert more == pytest.approx(expected, rel=1e-6, abs=1e-12)
    launches = model.profile(longer, "x", "nodes:per_node=4").launches
    assert {"ring", "recursive_halving_reduce_scatter", "tree_reduce"} <= launches.keys()
    assert "tree_broadcast" not in launches


BOTH = [curve("all_reduce", ("ring",)), curve("broadcast", ("tree_broadcast",))]


def test_a_shorter_alpha_of_roots_shortens_only_collectives_with_a_root() -> None:
    model = model_of(MPI, *BOTH)
    shorter = model.start.copy()
    shorter[model.index["α of roots"]] = np.log(0.5)
    for inner in (model.start, shorter):
        model.explore(inner)
    before, after = model.predict(model.start), model.predict(shorter)
    rooted = model.points.curve == 1
    assert after[~rooted] == pytest.approx(before[~rooted])
    assert after[rooted][0] < 0.8 * before[rooted][0]
    for protocol in model.profile(shorter, "x", "nodes:per_node=4").protocols:
        assert protocol.factors["tree_reduce"] == pytest.approx({"node": 0.5, "network": 0.5})
        assert protocol.factor("ring_all_gather", "node") == 1.0


@pytest.mark.parametrize("curves", [BOTH[:1], BOTH[1:]])
def test_one_kind_of_collective_shows_no_difference(curves: list[FitCurve]) -> None:
    assert not {"α of roots", "launch of reductions"} & model_of(MPI, *curves).index.keys()


def test_nccl_has_no_such_factor() -> None:
    """nccl-tests reports the slowest rank."""
    assert "α of roots" not in model_of(NCCL, *BOTH).index


def test_a_rendezvous_in_a_ring_has_an_alpha_of_its_own() -> None:
    model = model_of(
        MPI, curve("all_reduce", ("ring",)), curve("all_reduce", ("halving_doubling",))
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
    free = model_of(MPI, curve("all_reduce", ("ring", "halving_doubling")))
    with_ring = model_of(MPI, *free.points.curves, curve("all_reduce", ("ring",)))
    assert "rendezvous α in rings" in with_ring.index
    assert "rendezvous α in rings" not in free.index


def test_neighbour_exchange_waits_for_two_peers_as_a_ring_does() -> None:
    model = model_of(MPI, curve("all_gather", ("neighbor_exchange",)))
    ringed = model.start.copy()
    ringed[model.index["rendezvous α in rings"]] = np.log(3.0)
    factors = model.profile(ringed).protocols[-1].factors
    assert factors["neighbor_exchange"] == pytest.approx({"node": 3.0, "network": 3.0})


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
    model = model_of(
        NCCL, *[curve(what, (name,), ranks, count) for what, name, ranks, count in MIXED]
    )
    inner = model.start + np.random.default_rng(3).uniform(-0.5, 0.5, len(model.start))
    names = {
        "launch of sends",
        "α of sends",
        "node 1/β of sends",
        "network 1/β of sends",
        "network 1/β of all-to-all",
        "network 1/β by ranks a node",
    }
    assert names <= model.index.keys()
    check_simulated(model, inner)


def test_what_sends_have_of_their_own_is_fitted_beside_something_else() -> None:
    alone = model_of(NCCL, curve("send_recv", ("shift",)), curve("all_to_all", ("pairwise",)))
    assert not any("sends" in name for name in alone.index)
    for library in (NCCL, MPI):
        model_of_both = model_of(
            library, curve("send_recv", ("shift",)), curve("all_reduce", ("ring",))
        )
        assert ("α of sends" in model_of_both.index) == (library is NCCL)


def test_an_all_to_all_that_no_curve_shows_has_the_bandwidth_of_other_collectives() -> None:
    """A message to one peer has few channels: its 1/β says nothing of an all-to-all's."""
    model = model_of(NCCL, curve("send_recv", ("shift",)), curve("all_reduce", ("ring",)))
    assert "network 1/β of all-to-all" not in model.index
    inner = model.start.copy()
    inner[model.index["network 1/β of sends"]] = 1.0
    inner[model.index["launch of sends"]] = 0.5
    profile = model.profile(inner)
    assert profile.slower.keys() == {"shift"}
    assert profile.launches["pairwise"] == profile.launches["shift"] > profile.launch


def model(*places: tuple[int, int]) -> Model:
    shown = [curve("send_recv", ("shift",), ranks, nodes) for ranks, nodes in places]
    return model_of(NCCL, *shown, curve("all_gather", ("ring_all_gather",), 8, 1))


@each_case(
    ("places", "seen"),
    [([(8, 1)], True), ([(8, 2)], False), ([(8, 2), (4, 1)], True), ([], False)],
)
def test_sends_on_one_node_show_the_rate_of_a_channel(
    places: list[tuple[int, int]], seen: bool
) -> None:
    made = model(*places)
    assert (CHANNEL in made.index) == seen
    assert bool(made.profile(made.start).channels) == seen


def test_few_channels_are_simulated_as_they_are_predicted() -> None:
    made = model((8, 1), (4, 1), (8, 2))
    inner = made.start + np.random.default_rng(3).uniform(-0.5, 0.5, len(made.start))
    check_simulated(made, inner)


@pytest.mark.parametrize(("ranks", "busbw"), [(8, 4 * 20.4e9), (4, 8 * 20.4e9)])
def test_a_message_of_64_mib_has_the_channels_of_its_share(ranks: int, busbw: float) -> None:
    """Of 32 channels each of 8 ranks has 4 for a peer, and each of 4 ranks has 8."""
    made, sizes = model((8, 1)), np.array([2.0**26])
    sends = FitCurve("x", "send_recv", ("shift",), ranks, 1, sizes, sizes)
    (row,) = predict(made.profile(made.start), NCCL, sends, as_nodes(ranks, ranks))
    assert sizes[0] / row.seconds == pytest.approx(busbw, rel=0.03)


@given(st.integers(2, 64), st.floats(1, 1e12), st.floats(1, 4), st.integers(1, 2))
def test_more_bytes_never_have_fewer_channels(
    ranks: int, nbytes: float, factor: float, nodes: int
) -> None:
    """All channels at most; and no message is faster than all channels together."""
    few = PeerChannels("node", 1 / 20e9)
    some, more = (float(few.of(ranks, size)) for size in (nbytes, nbytes * factor))
    assert 1 <= some <= more <= few.total
    job = jobs(["shift"], [ranks], [nodes], [ranks], ["send_recv"])
    (excess,) = few.excess(job, nbytes, 1 / 370e9)
    assert excess == 0.0 if nodes > 1 else 0 <= excess <= nbytes / 20e9


def test_a_file_keeps_channels() -> None:
    made = model((8, 1))
    profile = made.profile(made.start, "made up", "nodes:per_node=8")
    assert of(profile, "NCCL").simulated().channels == profile.channels


CHOSEN = NCCL.algorithms("all_reduce", multicast=True)
LARGE = np.geomspace(2.0**25, 2.0**34, 4)


def test_nvls_is_a_choice_only_where_switches_multicast() -> None:
    assert CHOSEN == ("ring", "double_tree", "nvls")
    assert "nvls" not in NCCL.algorithms("all_reduce")
    assert NCCL.algorithms("all_gather", multicast=True) == NCCL.algorithms("all_gather")


def test_it_has_no_parameters_without_curves_of_nvls() -> None:
    model = model_of(NCCL, curve("all_reduce", ("ring",), 8, 1))
    assert not any("NVLS" in name for name in model.index)
    profile = model.profile(model.start)
    assert "nvls" not in profile.slower.keys() | profile.launches.keys()


def test_nvls_beside_sends_is_simulated_as_it_is_predicted() -> None:
    shown = (
        ("all_reduce", CHOSEN),
        ("send_recv", ("shift",)),
        ("all_gather", ("ring_all_gather",)),
    )
    model = model_of(NCCL, *[curve(what, names, 4, 1) for what, names in shown])
    inner = model.start + np.random.default_rng(3).uniform(-0.5, 0.5, len(model.start))
    assert {"latency of NVLS", "node 1/β of NVLS", "node 1/β of sends"} <= model.index.keys()
    profile = model.profile(inner)
    assert profile.slower.keys() == {"shift", "nvls"}
    assert profile.launches.keys() == {"shift", "pairwise", "nvls"}
    check_simulated(model, inner)


def busbw(ranks: int, names: tuple[str, ...], rate: float) -> FitCurve:
    """An all-reduce of eight GPUs or fewer whose busbw is `rate` at all sizes."""
    seconds = LARGE * 2 * (ranks - 1) / ranks / rate
    return FitCurve(f"{ranks}", "all_reduce", names, ranks, 1, LARGE, seconds)


def test_four_gpus_predict_the_nvls_of_eight() -> None:
    """On four GPUs, ring and NVLS are as fast; on eight, NVLS is 1.3 times faster. The made-up
    ring has the same busbw at all sizes, so it does not show what its pieces cost."""
    four, eight = busbw(4, CHOSEN, 367e9), busbw(8, CHOSEN, 480e9)
    gather = FitCurve("ag", "all_gather", ("ring_all_gather",), 8, 1, LARGE, LARGE * 0.875 / 361e9)
    profile = explore(model_of(NCCL, four, gather)).profile
    for series, most in ((eight, 0.07), (gather, 0.08)):
        row = predict(profile, NCCL, series, as_nodes(8, 8))[-1]
        assert abs(row.error) < most
    assert predict(profile, NCCL, eight, as_nodes(8, 8))[-1].algorithm.startswith("nvls")


def test_latency_counts_once_whatever_the_pieces() -> None:
    model = model_of(NCCL, curve("all_reduce", ("nvls",), 8, 1))
    assert [one.unit for one in model.parameters if "NVLS" in one.name] == ["s", "power"]
    model.explore(model.start)
    seconds = model.predict(model.start)
    values = model.values(model.start)
    assert seconds[0] == pytest.approx(values["launch"] + values["latency of NVLS"], rel=0.01)


def test_an_old_profile_has_no_nvls() -> None:
    """A profile that was fitted without NVLS would take it with the figures of rings."""
    measured = tuple(Point(2**size, 1e-3) for size in range(20, 30))
    run = Curve(
        "all_reduce", 8, 1, measured, (), "x.log", device="NVIDIA H100 80GB HBM3", library="NCCL"
    )
    old = model_of(NCCL, curve("all_reduce", ("ring",), 8, 1))
    new = model_of(NCCL, curve("all_reduce", CHOSEN, 8, 1))
    for model, known in ((old, False), (new, True)):
        judged, _ = points([run], NCCL, profile=model.profile(model.start))
        assert ("nvls" in judged.curves[0].algorithms) == known
    assert "nvls" in points([run], NCCL)[0].curves[0].algorithms
