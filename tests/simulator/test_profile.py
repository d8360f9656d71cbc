"""A profile changes what links cost, keeps the fastest protocol, and adds what software does
first."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from folded import assert_alike, groups
from parsed_html import Parsed
from simulator.collectives import Algorithm, algorithms, find
from simulator.effects.link_slowdowns import Crowding, Exchanges, NodeCorrection
from simulator.effects.software_costs import HostMemory
from simulator.engines import simulate
from simulator.profile import Profile, Protocol
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.routed import route
from simulator.schedules.shifts import rotations
from topologies.clusters import cluster
from topologies.columns import Words
from topologies.errors import InputError
from topologies.link import Link
from topologies.shapes import nodes, ring
from topologies.topology import Topology

RING = find("ring")
LL = Protocol(
    "LL",
    {"node": Link(4e9, 1e-6), "network": Link(2e9, 2e-6)},
    {"tree": {"network": 3.0}},
)
SIMPLE = Protocol("Simple", {"node": Link(100e9, 5e-6, 1e-6), "network": Link(50e9, 9e-6)})


def machine(ranks: int = 8, per_node: int = 4) -> Topology:
    return nodes(ranks, per_node=per_node, bandwidth=1e9, latency=1e-6)


def links(topology: Topology, kind: str) -> tuple[set[float], set[float], set[float]]:
    chosen = topology.link_kinds.are(kind)
    columns = (topology.latency, topology.medium_gap, topology.medium_bandwidth)
    return tuple(set(column[chosen].tolist()) for column in columns)  # type: ignore[return-value]


def overheads(profile: Profile, name: str, nbytes: float) -> dict[str, float]:
    """What is not simulated, on 4 ranks."""
    algorithm = find(name)
    seconds_of = profile.overheads(algorithm.build(4, nbytes), machine(4, 1), algorithm)
    return {what: seconds for what, seconds in seconds_of.items() if seconds}


def test_links_cost_what_the_protocol_says() -> None:
    topology = Profile("x", "nodes", 0.0, (LL, SIMPLE)).apply(machine(), SIMPLE)
    assert links(topology, "node") == ({5e-6}, {1e-6}, {100e9})
    assert links(topology, "network") == ({9e-6}, {0.0}, {50e9})
    assert links(topology, "port") == ({0.0}, {0.0}, {np.inf})


def test_a_factor_counts_in_its_algorithm_alone() -> None:
    profile = Profile("x", "nodes", 0.0, (LL,))
    assert links(profile.apply(machine(), LL, "tree"), "network")[0] == {6e-6}
    assert links(profile.apply(machine(), LL, "ring"), "network")[0] == {2e-6}
    assert links(profile.apply(machine(), LL, "tree"), "node")[0] == {1e-6}


def test_a_protocol_carries_no_longer_messages_than_it_can() -> None:
    """A ring of eight sends V/8 at a time. Where no protocol can, all are taken."""
    limited = replace(SIMPLE, name="limited", links=LL.links, most=192.0)
    slow = replace(LL, links={kind: Link(1e6, 1e-3) for kind in LL.links})
    profile = Profile("x", "nodes", 0.0, (limited, slow))
    for nbytes, name in ((8 * 192.0, "limited"), (8 * 192.0 + 8, "LL")):
        routed = route(*RING.on(machine(), 8, nbytes)[:2])
        assert profile.simulate(routed, RING).protocol == name
    assert replace(profile, protocols=(limited,)).simulate(routed, RING).protocol == "limited"


def test_more_nodes_crowd_the_links_between_them() -> None:
    profile = Profile("x", "nodes", 0.0, (LL,), {"network": Crowding(2.0, 1.0, 0.5)})
    assert links(profile.apply(machine(8), LL), "network") == ({2e-6}, {0.0}, {2e9})
    assert links(profile.apply(machine(32), LL), "network") == ({8e-6}, {0.0}, {1e9})
    assert links(profile.apply(machine(32), LL), "node")[0] == {1e-6}


def test_more_nodes_may_slow_the_rate_of_one_protocol_alone() -> None:
    crowding = Crowding(2.0, 1.0, 0.5, protocol="Simple")
    profile = Profile("x", "nodes", 0.0, (LL, SIMPLE), {"network": crowding})
    assert links(profile.apply(machine(32), LL), "network") == ({8e-6}, {0.0}, {2e9})
    assert links(profile.apply(machine(32), SIMPLE), "network") == ({36e-6}, {0.0}, {25e9})


def test_crowding_ends_at_the_most_nodes_that_were_measured() -> None:
    bounded = Crowding(2.0, 0.5, 1.0, most=8.0)
    assert bounded.slower(4.0) == pytest.approx(Crowding(2.0, 0.5, 1.0).slower(4.0))
    assert bounded.slower(8.0) == pytest.approx([2.0, 4.0])
    assert bounded.slower(512.0) == pytest.approx([2.0, 4.0])
    crowding = bounded._replace(corrections=(NodeCorrection(8, np.log(3.0), 0.0),))
    assert crowding.slower(128.0) == pytest.approx([2.0 * 3.0 ** np.exp(-1.0), 4.0])


def test_crowding_of_the_network_slows_no_link_inside_a_node() -> None:
    """Links inside nodes are paced by the network as it is without crowding, however many nodes
    there are."""
    profile = Profile(
        "x", "nodes", 0.0, (SIMPLE,), {"network": Crowding(2.0, 0.0, 1.0)}, paced=True
    )
    for count, between in ((2, 50e9), (8, 12.5e9)):
        machine_of_profile = profile.apply(machine(4 * count), SIMPLE, "ring")
        assert links(machine_of_profile, "network")[2] == {between}
        assert links(machine_of_profile, "node")[2] == {50e9}


def test_numbers_of_nodes_may_have_something_of_their_own() -> None:
    """As measured where it was; half way, by the logarithm, half of each neighbour or more; far
    away nothing."""
    corrections = (
        NodeCorrection(2, np.log(3.0), 0.0),
        NodeCorrection(8, np.log(3.0), np.log(2.0)),
    )
    crowding = Crowding(2.0, 1.0, 0.0, corrections)
    assert crowding.slower(2.0) == pytest.approx([3.0, 1.0])
    assert crowding.slower(8.0) == pytest.approx([4 * 3.0, 2.0])
    between = 1 / np.cosh(np.log(2.0) / np.log(16.0))
    assert crowding.slower(4.0) == pytest.approx([2 * 3.0**between, 2.0 ** (between / 2)])
    assert crowding.slower(8.0 * 16.0)[1] == pytest.approx(2.0 ** np.exp(-1.0))
    profile = Profile("x", "nodes", 0.0, (LL,), {"network": crowding})
    latencies, _, bandwidths = links(profile.apply(machine(8), LL), "network")
    assert [*latencies, *bandwidths] == pytest.approx([6e-6, 2e9])


def test_ranks_of_a_node_share_its_ports_or_have_their_own() -> None:
    crowding = Crowding(1.0, per_node=2.0, shared=-1.0)
    assert (crowding.sharing(8.0), crowding.sharing(1.0)) == pytest.approx((1 / 4, 2.0))
    profile = Profile("x", "nodes", 0.0, (LL,), {"network": crowding})
    assert links(profile.apply(machine(), LL, "ring"), "network") == ({2e-6}, {0.0}, {4e9})
    assert links(profile.apply(machine(), LL, "shift"), "network") == ({2e-6}, {0.0}, {1e9})


def test_ports_of_many_ranks_make_no_link_inside_a_node_faster() -> None:
    crowding = {"network": Crowding(1.0, shared=-1.0)}
    links_of_gpus = Protocol("Simple", {"node": Link(50e9, 1e-6), "network": Link(20e9, 2e-6)})
    profile = Profile("x", "nodes", 0.0, (links_of_gpus,), crowding, paced=True)
    for per_node, between, inside in ((2, 40e9, 40e9), (4, 80e9, 50e9), (8, 160e9, 50e9)):
        machine_of_profile = profile.apply(machine(2 * per_node, per_node), links_of_gpus, "ring")
        assert links(machine_of_profile, "network")[2] == {between}
        assert links(machine_of_profile, "node")[2] == {inside}


def test_an_algorithm_may_have_another_launch_and_bandwidth() -> None:
    profile = Profile(
        "x",
        "nodes",
        1e-6,
        (LL,),
        slower={"pairwise": {"network": 4.0}},
        launches={"pairwise": 5e-6},
    )
    assert [overheads(profile, name, 64.0) for name in ("pairwise", "shift")] == [
        {"launch": 5e-6},
        {"launch": 1e-6},
    ]
    assert links(profile.apply(machine(), LL, "pairwise"), "network")[2] == {5e8}
    assert links(profile.apply(machine(), LL, "pairwise"), "node")[2] == {4e9}
    assert links(profile.apply(machine(), LL, "ring"), "network")[2] == {2e9}


def test_the_fastest_protocol_is_kept() -> None:
    profile, schedule = Profile("x", "nodes", 3e-6, (LL, SIMPLE)), RING.build(8, 1.0)
    routed = route(schedule, machine())
    small = profile.simulate(routed.scaled(64.0), RING)
    large = profile.simulate(routed.scaled(2.0**30), RING)
    assert (small.protocol, large.protocol) == ("LL", "Simple")
    for run, protocol, nbytes in ((small, LL, 64.0), (large, SIMPLE, 2.0**30)):
        alone = simulate(
            schedule.scaled(nbytes), profile.apply(machine(), protocol, "ring", nbytes)
        )
        assert run.timeline.makespan == alone.makespan
        assert run.seconds == 3e-6 + alone.makespan


def test_one_rank_a_node_is_hockneys_model() -> None:
    """p ranks, one a node: 2(p-1) steps of 2α and V/p bytes, merged at γ in the first half."""
    flat = Protocol("flat", {"network": Link(1e9, 2e-6)})
    profile = Profile("x", "nodes", 0.0, (flat,), memory=HostMemory(1e-9, 1e-9))
    seconds = profile.simulate(route(RING.build(4, 4e6), machine(4, 1)), RING).seconds
    assert seconds == pytest.approx(2 * 3 * (4e-6 + 1e6 / 1e9) + 3 * 1e6 * 1e-9, rel=1e-12)


def test_memory_is_slower_beyond_the_cache() -> None:
    memory = HostMemory(1.0, 3.0, 2.0, 6.0, cache=2.0**20)
    assert memory.merge(2.0**10) == pytest.approx(1.0)
    assert memory.merge(2.0**20) == 2.0
    assert memory.merge(2.0**30) == pytest.approx(3.0)
    assert memory.touch(2.0**20) == 4.0


def test_scratch_is_new_memory_from_32_mib_or_half_a_mebibyte_in_several_blocks() -> None:
    scratch, nbytes = (
        np.array([0.0, 1.0, 1.0, 2.0, 2.0]),
        np.array([2.0**30, 2.0**24, 2.0**26, 2.0**19, 2.0**20]),
    )
    seconds = HostMemory(fresh=5.0, back=3.0).allocate(scratch, nbytes)
    assert seconds.tolist() == [0.0, 0.0, 5.0 * 2**26, 0.0, 3.0 * 2**21]


def test_reductions_copy_first_and_pay_for_fresh_memory() -> None:
    memory = HostMemory(0.0, 0.0, 2.0, 2.0, 5.0)
    profile = Profile("x", "nodes", 1e-6, (LL,), memory=memory, scratch={"ring": 1.0})
    assert overheads(profile, "ring", 100.0) == {"launch": 1e-6, "copy to merge": 200.0}
    large = 2.0**26
    assert overheads(profile, "ring", large) == {
        "launch": 1e-6,
        "copy to merge": 2 * large,
        "fresh memory": 5 * large,
    }
    assert overheads(profile, "ring_all_gather", large) == {"launch": 1e-6}


def test_joined_memory_is_registered_again_where_it_is_fresh() -> None:
    memory = HostMemory(registered=3.0, back=9.0)
    profile = Profile("x", "nodes", 0.0, (LL,), memory=memory, joined={"ring": 0.5})
    assert overheads(profile, "ring", 2.0**26) == {"fresh memory": 2.0**26 * 2 * 3.0}
    assert overheads(profile, "ring", 2.0**24) == overheads(profile, "tree", 2.0**26) == {}


def test_fresh_memory_is_pinned_once_and_again_for_every_block_that_joins_it() -> None:
    memory = HostMemory(fresh=4.0, back=1.0, pinned=8.0)
    scratch, joined, nbytes = (
        np.array([0.0, 1.0, 1.0, 2.0]),
        np.array([0.0, 0.0, 2.0, 0.0]),
        2.0**26,
    )
    assert memory._replace(fresh=0.0).allocate(scratch, nbytes, joined).tolist() == [
        0.0,
        8.0,
        5 * 8.0,
        8.0,
    ]
    below = memory._replace(mapped=2.0**27)
    assert below.allocate(scratch, nbytes, joined).tolist() == [0.0, 0.0, 0.0, nbytes * 2 + 8 / 4]
    assert below._replace(back=5.0).allocate(2.0, nbytes) == nbytes * 10 + 8
    assert below._replace(back=0.0).allocate(2.0, nbytes) == 0.0


def test_scratch_takes_time_on_more_ranks_than_ucx_connects_one_by_one() -> None:
    memory = HostMemory(fresh=4.0, pinned_on_many=8.0)
    scratch, nbytes = np.array([0.0, 0.5, 0.5, 1.0]), np.array([2.0**20, 2.0**19, 2.0**20, 2.0**26])
    assert memory.allocate(scratch, nbytes, 0.0, 257.0).tolist() == [0.0, 0.0, 8.0, 2.0**28]
    assert memory.allocate(scratch, nbytes, 0.0, 256.0).tolist() == [0.0, 0.0, 0.0, 2.0**28]


def test_long_exchanges_between_nodes_take_longer() -> None:
    """4 ranks, one a node: two steps of V; the bytes after the first half mebibyte count, as 1/β
    does on 4."""
    doubling, nbytes = find("recursive_doubling"), 2.0**20
    flat = Protocol("flat", {"network": Link(1e9, 2e-6), "node": Link(1e10, 1e-6)})
    plain = Profile("x", "nodes", 0.0, (flat,), {"network": Crowding(2.0, 0.0, 1.0)})
    slow = replace(plain, exchanges=Exchanges(1e-9, 2.0**19))
    for algorithm, machine_, more in (
        (doubling, machine(4, 1), 2 * 2**19 * 1e-9 * 2),
        (doubling, machine(4, 4), 0.0),
    ):
        routed = route(algorithm.build(4, nbytes), machine_)
        times = [profile.simulate(routed, algorithm).seconds for profile in (plain, slow)]
        assert times[1] - times[0] == pytest.approx(more, rel=1e-9)
    ring = route(RING.build(4, 8 * nbytes), machine(4, 1))
    assert slow.simulate(ring, RING).seconds == plain.simulate(ring, RING).seconds


def test_a_machine_without_such_links_is_refused() -> None:
    with pytest.raises(
        InputError,
        match=r"^ring has links of kind link, which x knows nothing of: it is of nodes:per_node=4$",
    ):
        Profile("x", "nodes:per_node=4", 0.0, (LL,)).apply(ring(4, bandwidth=1e9), LL)


def costs(kinds: tuple[str, ...]) -> st.SearchStrategy[Protocol]:
    """A protocol of links of these kinds; some take no time but that of their bytes."""
    link = st.builds(
        Link, st.sampled_from((1.0, 2.0, 8.0)), *[st.sampled_from((0.0, 0.5, 3.0))] * 2
    )
    return st.builds(Protocol, st.just("p"), st.fixed_dictionaries(dict.fromkeys(kinds, link)))


FOLDING = [algorithm for algorithm in algorithms().values() if algorithm.shifts(8)]
MACHINES = (
    nodes(8, per_node=1, bandwidth=1e9, latency=1e-6),
    nodes(8, per_node=4, bandwidth=1e9, latency=1e-6),
    nodes(8, per_node=8, bandwidth=1e9),
    cluster("mn5_acc", 2),
    cluster("pcie_box", 2),
)


@given(algorithm=st.sampled_from(FOLDING), data=st.data())
def test_a_folded_run_is_the_whole_one(algorithm: Algorithm, data: st.DataObject) -> None:
    """Also where reductions take time under the profile alone, and links of equal costs differ."""
    topology = data.draw(st.sampled_from(MACHINES))
    ranks = topology.ranks
    protocol = data.draw(costs(topology.link_kinds.vocabulary))
    memory = data.draw(st.sampled_from((HostMemory(), HostMemory(0.25, 0.25))))
    profile = Profile("x", "x", 1.0, (protocol,), memory=memory, exchanges=Exchanges(0.5, 1.0))
    all_shifts = algorithm.shifts_on or (lambda _, count: algorithm.shifts(count))
    group = data.draw(st.sampled_from([*groups(all_shifts(topology, ranks))]))
    try:
        fitted = algorithm.on(topology, ranks, 16.0 * ranks, group)
        folded = profile.simulate(route(fitted.schedule, topology, merges=True), algorithm)
    except NotSymmetric:
        event("refused")
        return
    event("folded")
    schedule = algorithm.on(topology, ranks, 16.0 * ranks).schedule
    whole = profile.simulate(route(schedule, topology), algorithm)
    assert_alike(whole.timeline, folded.timeline)
    assert folded.overheads == whole.overheads


def test_links_of_different_kinds_do_not_stand_for_each_other() -> None:
    topology = ring(4, bandwidth=1e9)
    kinds = Words(topology.source.astype(np.int8) % 2, ("node", "network"))
    with pytest.raises(NotSymmetric, match="different latencies, kinds"):
        route(RING.on(topology, 4, 4.0, rotations(4)).schedule, replace(topology, link_kinds=kinds))


def test_ranks_of_a_node_do_not_stand_for_those_of_two() -> None:
    """What a long exchange costs depends on whether its ends are on one node."""
    topology = ring(4, bandwidth=1e9)
    topology = replace(topology, node=np.array([0, 0, 1, 1], dtype=np.int32))
    with pytest.raises(NotSymmetric, match="parts the ranks of a node"):
        route(RING.on(topology, 4, 4.0, rotations(4)).schedule, topology)
    assert route(RING.on(topology, 4, 4.0, rotations(4, 2)).schedule, topology).whole is topology


def test_a_notebook_shows_a_profile_with_its_names_escaped() -> None:
    rows = Parsed(Profile("<script>", "nodes", 2e-6, (LL,))._repr_html_()).rows
    assert rows[:2] == [["fitted on", "nodes"], ["launch", "2us"]]
    assert [row[:2] for row in rows[3:]] == [["LL", kind] for kind in LL.links]
    assert "script" not in Parsed(Profile("<script>", "nodes", 0.0, (LL,))._repr_html_()).tags
