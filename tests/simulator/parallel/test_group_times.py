"""Degrees of a plan, the groups of ranks that they make, and the times of their collectives."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.profiles import parse
from grouped_cases import each_case
from law_cases import tries
from refusals import refusal
from simulator.collectives import find
from simulator.engines import run
from simulator.parallel import group_routes
from simulator.parallel.degrees import KINDS, Degrees
from simulator.parallel.group_algorithms import two_levels
from simulator.parallel.group_routes import lay
from simulator.parallel.group_times import ALGORITHMS, GroupTimes
from simulator.predictions import Prediction, interval_of
from simulator.profile import Profile, Protocol
from simulator.schedules.routed import route
from simulator.schedules.semantics import check
from simulator.steps.buffers import side_by_side
from simulator.steps.step_graph import MESSAGE
from simulator.uncertainty.interval import Interval, last_of
from sure_profile import SURE
from topologies.catalogue import find as machine
from topologies.errors import InputError
from topologies.link import Link
from topologies.shapes import star
from topologies.topology import Ints, Topology
from topologies.topology_builder import TopologyBuilder
from topologies.variants import slowed


@st.composite
def degrees(draw: st.DrawFn) -> Degrees:
    """Degrees of up to 256 ranks, in any order."""
    dp, tp, pp, cp = (draw(st.integers(1, 4)) for _ in range(4))
    ep = draw(st.sampled_from([size for size in range(1, dp * cp + 1) if dp * cp % size == 0]))
    order = "-".join(draw(st.permutations(("tp", "cp", "dp", "pp"))))
    return Degrees(dp, tp, pp, cp, ep, order)


def coordinates(plan: Degrees, rank: int) -> dict[str, int]:
    """The place of a rank along each axis."""
    places = {}
    for axis in plan.order.split("-"):
        rank, places[axis] = divmod(rank, getattr(plan, axis))
    return places


@given(st.integers(1, 2**20), st.integers(1, 2**20))
def test_the_last_of_more_ranks_is_later(first: int, second: int) -> None:
    assert last_of(1) == 0
    assert (last_of(first) < last_of(second)) == (first < second)


def test_ranks_that_enter_at_different_moments_wait_for_the_last() -> None:
    """A rank alone waits for nobody, and a pair of stages that send does not wait."""
    topology = machine("hgx_h100").build(8)
    for tp, dp in ((1, 8), (8, 1), (2, 4)):
        usual = GroupTimes(topology, Degrees(dp=dp, tp=tp))
        late = replace(usual, jitter=1e-5)
        for kind, ranks in (("tp", tp), ("dp", dp)):
            more = late.seconds(kind, "all_reduce", 1e6) - usual.seconds(kind, "all_reduce", 1e6)
            assert more == pytest.approx(1e-5 * last_of(ranks), abs=1e-12)
    pair = GroupTimes(topology, Degrees(pp=2))
    assert replace(pair, jitter=1e-5).transfer(0, 1, 1e6) == pair.transfer(0, 1, 1e6)
    slow = replace(pair, usual=pair)
    sent = slow.by_rank("0 to 1", MESSAGE, 1e6)
    assert replace(slow, jitter=1e-5).by_rank("0 to 1", MESSAGE, 1e6).tolist() == sent.tolist()


def test_software_makes_of_seconds_on_links_what_its_law_says() -> None:
    """The law of a collective holds on slow links, too, and beside other algorithms."""
    plain = GroupTimes(machine("hgx_h100").build(8), Degrees(dp=4, tp=2))

    def law(ranks: int, nbytes: float, links: float) -> float:
        return ranks + nbytes + 2 * links

    under = replace(plain, laws={"all_gather": law}).with_algorithms({}, {"dispatch": law})
    links = plain.seconds("tp", "all_gather", 1e6)
    assert under.seconds("tp", "all_gather", 1e6) == 2 + 1e6 + 2 * links
    assert under.seconds("tp", "all_reduce", 1e6) == plain.seconds("tp", "all_reduce", 1e6)
    assert {*under.laws} == {"all_gather", "dispatch"}
    built = machine("hgx_h100").build(8)
    slow = replace(under, topology=slowed(built, 7, 0.5), usual=under, _laid={}, _times={})
    times = [each.seconds("tp", "all_gather", 1e6) for each in (under, slow)]
    shares = [times[0] / times[1]] * 6 + [1.0] * 2
    assert slow.by_rank("tp", "all_gather", 1e6).tolist() == pytest.approx(shares, rel=1e-12)
    assert times[1] > times[0]


@given(degrees())
def test_the_groups_of_each_kind_hold_every_rank_once(plan: Degrees) -> None:
    for kind in KINDS:
        groups = plan.groups(kind)
        assert groups.shape[1] == plan.size(kind)
        assert sorted(groups.ravel()) == [*range(plan.ranks)]
        assert (np.diff(groups, axis=1) > 0).all()


@given(degrees())
def test_ranks_of_a_group_differ_along_its_axes_alone(plan: Degrees) -> None:
    for kind, axes in KINDS.items():
        for group in plan.groups(kind)[:4].tolist():
            places = [coordinates(plan, rank) for rank in group]
            for axis in {"tp", "cp", "dp", "pp"} - {*axes}:
                assert len({place[axis] for place in places}) == 1


@given(degrees())
def test_a_rank_shares_its_experts_groups_with_no_rank_of_its_ep_group(plan: Degrees) -> None:
    number = np.zeros((2, plan.ranks), dtype=int)
    for row, kind in enumerate(("ep", "experts")):
        for group, members in enumerate(plan.groups(kind)):
            number[row, members] = group
    assert len(np.unique(number, axis=1).T) == plan.ranks


@given(degrees(), st.sampled_from(("data", "experts")), st.data())
def test_runs_cut_groups_and_meet_across_them_once(
    plan: Degrees, kind: str, data: st.DataObject
) -> None:
    whole = plan.size(kind)
    run = data.draw(st.sampled_from([n for n in range(1, whole + 1) if whole % n == 0]))
    runs, across = (plan.groups(f"{kind}{cut}{run}") for cut in "/%")
    assert plan.size(f"{kind}/{run}") == run
    assert plan.size(f"{kind}%{run}") == whole // run
    assert [*map(set, runs.reshape(-1, whole))] == [*map(set, plan.groups(kind))]
    for groups in (runs, across):
        assert sorted(groups.ravel()) == [*range(plan.ranks)]
    members = [set(group) for group in runs.tolist()]
    for group in across.tolist():
        assert all(len(run.intersection(group)) <= 1 for run in members)


def test_groups_follow_the_order_of_megatron() -> None:
    plan = Degrees(dp=2, tp=2, pp=2, cp=2, ep=2)
    assert plan.groups("tp")[:2].tolist() == [[0, 1], [2, 3]]
    assert plan.groups("cp")[:2].tolist() == [[0, 2], [1, 3]]
    assert plan.groups("dp")[0].tolist() == [0, 4]
    assert plan.groups("pp")[0].tolist() == [0, 8]
    assert plan.groups("data")[0].tolist() == [0, 2, 4, 6]
    assert plan.groups("ep")[:2].tolist() == [[0, 2], [4, 6]]
    assert plan.groups("experts")[:2].tolist() == [[0, 4], [2, 6]]


@each_case(
    ("plan", "gpus", "right"),
    [
        (Degrees(dp=8, tp=4, pp=2), 32, "take dp=4"),
        (Degrees(dp=8, tp=4, pp=3), 32, "take pp=2 and dp=4"),
        (Degrees(dp=1, tp=3, pp=1), 8, "take tp=2 and dp=4"),
        (Degrees(dp=1, tp=3, pp=5), 8, "take tp=2, pp=4 and dp=1"),
    ],
)
def test_degrees_for_other_gpus_are_refused(plan: Degrees, gpus: int, right: str) -> None:
    assert refusal(plan.check, gpus).endswith(f"there are {gpus} GPUs: {right}")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tp": 0}, "tp is 0: a whole number of 1 or more"),
        ({"dp": 6, "ep": 4}, "ep is 4: it divides dp x cp = 6, like 3"),
        ({"order": "tp-dp"}, "order 'tp-dp': each of tp, cp, dp, pp"),
    ],
)
def test_degrees_that_make_no_sense_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Degrees(**values)  # type: ignore[arg-type]


def test_unknown_groups_are_refused() -> None:
    assert "no kind of group 'sp': one of tp" in refusal(Degrees().groups, "sp")
    for kind in ("data/4", "data%0", "data/x"):
        with pytest.raises(InputError, match=r"data groups have 6, so take [13]$"):
            Degrees(dp=6).groups(kind)


def test_groups_of_two_devices_have_a_rank_of_each() -> None:
    plan = Degrees(tp=2, pp=3)
    assert plan.groups("2 to 0").tolist() == [[4, 0], [5, 1]]
    assert (plan.size("2 to 0"), plan.size("1 to 1")) == (2, 1)
    assert "device 0 to 3: the pipeline has 3 devices" in refusal(plan.size, "0 to 3")


MACHINES = ("dgx_a100:nodes=2", "leonardo:nodes=4", "pcie_box:nodes=4")
SMALL = degrees().filter(lambda plan: 1 < plan.ranks <= 16)


def on(name: str, plan: Degrees) -> Topology:
    """A machine with a GPU for each rank."""
    return machine(name).build(plan.ranks)


def of_place(plan: Degrees, kind: str, place: int) -> Ints:
    """The groups of a kind whose ranks are of a device of the pipeline."""
    groups = plan.groups(kind)
    return groups[np.isin(groups[:, 0], plan.groups("pp")[:, place])]


@tries(10, 40)
@given(
    SMALL,
    st.sampled_from(MACHINES),
    st.sampled_from(("tp", "data", "ep", "experts", "cp")),
    st.sampled_from(("ring", "pairwise", "shift", "double_tree")),
)
def test_parts_take_as_long_as_all_groups_of_a_place_at_once(
    plan: Degrees, name: str, kind: str, algorithm: str
) -> None:
    if plan.size(kind) == 1:
        return
    topology, chosen = on(name, plan), find(algorithm)
    first = replace(topology, placement=topology.placement[plan.groups(kind)[0]])
    child = chosen.on(first, plan.size(kind), 1.0)
    together = {}
    for place in range(plan.pp):
        groups = of_place(plan, kind, place)
        whole = replace(topology, placement=topology.placement[groups.ravel()])
        alike = side_by_side(child.schedule, len(groups)).scaled(1e6)
        together[place] = run(route(alike, whole)).makespan
    times = GroupTimes(
        topology, plan, {chosen.collective.name: (algorithm,)} | {"shift": ("shift",)}
    )
    collective = "shift" if algorithm == "shift" else chosen.collective.name
    assert times.by_place(kind, collective, 1e6) == pytest.approx(together, rel=1e-12)
    assert times.seconds(kind, collective, 1e6) == max(
        times.by_place(kind, collective, 1e6).values()
    )


def test_the_fastest_algorithm_runs() -> None:
    plan = Degrees(dp=16)
    topology = on("dgx_a100:nodes=2", plan)
    each = [
        GroupTimes(topology, plan, {"all_reduce": (name,)}) for name in ALGORITHMS["all_reduce"]
    ]
    for nbytes in (1e3, 1e9):
        least = min(times.seconds("data", "all_reduce", nbytes) for times in each)
        assert GroupTimes(topology, plan).seconds("data", "all_reduce", nbytes) == least


def test_a_transfer_goes_from_each_rank_of_a_device_to_its_peer() -> None:
    times = GroupTimes(star(4, bandwidth=1e9), Degrees(tp=2, pp=2))
    assert times.transfer(0, 1, 1e6) == times.transfer(1, 0, 1e6) == 1e-3
    assert times.transfer(1, 1, 1e6) == times.transfer(0, 1, 0.0) == 0.0
    assert "device 0 to 2: the pipeline has 2 devices" in refusal(times.transfer, 0, 2, 1.0)


def test_a_profile_adds_its_launch_and_takes_its_links() -> None:
    topology = star(2, bandwidth=1e9)
    kinds = topology.link_kinds.vocabulary
    links = {kind: Link(latency=0.0, bandwidth=1e8, gap=0.0) for kind in kinds}
    profile = Profile("test", "star", 1e-4, (Protocol("Simple", links),))
    times = GroupTimes(topology, Degrees(dp=2), {"all_reduce": ("ring",)}, profile)
    assert times.seconds("dp", "all_reduce", 1e6) == pytest.approx(1e-4 + 1e-2)


def test_large_parts_are_simulated_as_a_group_with_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = Degrees(dp=4, tp=4)
    topology = on("leonardo:nodes=4", plan)
    exact = GroupTimes(topology, plan, {"all_reduce": ("ring",)}).seconds("dp", "all_reduce", 1e8)
    monkeypatch.setattr(group_routes, "MOST", 40)
    groups = plan.groups("dp")
    laid = lay(find("ring"), topology, groups, np.zeros(len(groups), dtype=np.int32))
    share = run(laid.parts[0].scaled(1e8)).makespan
    assert len(laid.parts[0].schedule) == 24
    assert share == pytest.approx(exact, rel=0.01)


def test_groups_of_many_ranks_are_folded() -> None:
    plan = Degrees(dp=64, tp=8)
    times = GroupTimes(on("hgx_h100:nodes=64", plan), plan)
    assert times.seconds("data", "all_gather", 1e8) == pytest.approx(1e8 / 50e9, rel=0.15)
    assert times.seconds("data", "all_reduce", 1e8) == pytest.approx(2e8 / 50e9, rel=0.15)


def test_a_group_of_a_rank_and_no_bytes_take_no_time() -> None:
    times = GroupTimes(star(2, bandwidth=1.0), Degrees(dp=2))
    assert times.seconds("tp", "all_reduce", 1.0) == times.seconds("dp", "all_reduce", 0.0) == 0.0


def test_an_unknown_collective_and_other_gpus_are_refused() -> None:
    with pytest.raises(InputError, match="no collective 'gossip': one of all_reduce"):
        GroupTimes(star(2, bandwidth=1.0), Degrees(dp=2)).seconds("dp", "gossip", 1.0)
    with pytest.raises(InputError, match="there are 4 GPUs: take dp=4"):
        GroupTimes(star(4, bandwidth=1.0), Degrees(dp=8))


def test_copies_of_a_schedule_keep_their_switches_last() -> None:
    topology = machine("hgx_h100").build(8)
    child = find("nvls").on(topology, 4, 1.0).schedule
    two = side_by_side(child, 2)
    assert (two.workers, two.switches) == (8, 2 * child.switches)
    assert np.array_equal(np.sort(np.unique(two.rank)), np.arange(two.ranks))


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather"])
def test_groups_with_some_ranks_of_each_node_use_the_ports_of_all(collective: str) -> None:
    plan = Degrees(dp=8, tp=4)
    topology = on("dgx_a100:nodes=4", plan)
    times = GroupTimes(topology, plan)
    port = 25e9 * 2
    moved = 7 / 8 * 1e9 * (2 if collective == "all_reduce" else 1)
    assert times.seconds("data", collective, 1e9) == pytest.approx(moved / port, rel=0.02)
    algorithm = times.fastest("data", collective, 1e9)
    group = replace(topology, placement=topology.placement[plan.groups("data")[0]])
    check(algorithm.on(group, 8, 1.0).schedule, algorithm.collective)


def test_groups_of_whole_nodes_take_rings() -> None:
    plan = Degrees(dp=16)
    topology = on("dgx_a100:nodes=2", plan)
    assert two_levels("all_gather", topology, plan.groups("data")[0]) == []
    assert two_levels("all_to_all", topology, np.array([0, 1, 8, 9], dtype=np.int32)) == []


@given(st.floats(1, 1e9), st.sampled_from(["all_reduce", "all_gather", "all_to_all"]))
@settings(max_examples=10)
def test_ends_of_a_call_are_in_order(nbytes: float, collective: str) -> None:
    profile = parse(SURE, "mine.yaml").simulated()
    topology = machine("nodes:per_node=1").build(8)
    times = GroupTimes(topology, Degrees(dp=4, tp=2), profile=profile, end="time")
    alone = GroupTimes(topology, times.degrees, profile=profile)
    plain = alone.seconds("data", collective, nbytes)
    assert alone.at("high").seconds("data", collective, nbytes) > plain
    assert times.seconds("data", collective, nbytes) == plain
    low, expected, high = (
        times.at(end).seconds("data", collective, nbytes) for end in ("low", "expected", "high")
    )
    assert low < expected < high
    assert expected * expected == pytest.approx(low * high)


def test_a_group_is_as_unsure_as_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that meet are simulated as one schedule, but each has its own number of ranks."""
    places = []

    def kept(predicted: Prediction) -> Interval:
        places.append(predicted.place)
        return interval_of(predicted)

    monkeypatch.setattr("simulator.parallel.group_times.interval_of", kept)
    link = "network: {latency: 1.0e-06, bandwidth: 1.0e+09}"
    text = SURE.replace(link, f"{link}\n    {link.replace('network', 'node')}")
    topology, profile = machine("nodes:per_node=2").build(8), parse(text, "mine.yaml").simulated()
    times = GroupTimes(topology, Degrees(dp=4, tp=2), profile=profile, end="time")
    times.seconds("data", "all_reduce", 1024.0)
    assert {float(where.ranks[0]) for where in places} == {4.0}


def test_without_uncertainty_the_ends_are_the_time() -> None:
    times = GroupTimes(star(8, bandwidth=1e9), Degrees(dp=8), end="time")
    plain = times.seconds("data", "all_reduce", 1024.0)
    assert times.at("high").seconds("data", "all_reduce", 1024.0) == plain


def test_the_slowest_part_need_not_be_the_busiest() -> None:
    """The links of the first pair are busy for longer, the second pair waits for its latency."""
    builder = TopologyBuilder("two pairs")
    gpus = [builder.device(f"g{number}") for number in range(4)]
    builder.connect("g0", "g1", Link(1e9, 1e-6))
    builder.connect("g2", "g3", Link(2e9, 1e-3))
    topology = builder.build(gpus)
    times = GroupTimes(topology, Degrees(dp=2, tp=2), {"all_reduce": ("ring",)})
    assert times.seconds("tp", "all_reduce", 1e3) == pytest.approx(2.0005e-3)
