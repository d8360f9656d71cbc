"""Libraries on machines that nobody has measured."""

from itertools import pairwise, product
from math import hypot, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.calibration.population.library_profile import FURTHER, LIBRARIES, profile_for
from experiments.calibration.population.population import population_of as population
from experiments.calibration.population.specification import KERNELS
from experiments.calibration.prediction import times
from law_cases import tries
from simulator.collectives import find as algorithm
from simulator.predictions import prediction
from simulator.profile import Profile
from simulator.schedules.routed import route
from topologies.catalogue import find
from topologies.topology import Topology

MACHINES = ("hgx_h100:nodes=2", "dgx_a100", "mi300x:nodes=2", "star", "nodes:per_node=4")


def built(text: str) -> Topology:
    return find(text).build(16) if text.startswith("nodes") else find(text).whole()


def seconds(profile: Profile, topology: Topology, nbytes: float) -> float:
    return times(profile, algorithm("ring"), topology, topology.ranks, [nbytes])[nbytes][0]


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        pytest.param(*case, marks=[pytest.mark.exhaustive] * (number % 3 > 0))
        for number, case in enumerate(product(LIBRARIES, MACHINES))
    ],
)
def test_a_library_runs_on_any_machine(name: str, machine: str) -> None:
    topology = built(machine)
    described = profile_for(name, topology)
    assert described.profile.machine == topology.name
    assert described.notes
    small, large = (seconds(described.profile, topology, size) for size in (1e3, 1e9))
    assert 1e-6 < small < large


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_says_how_sure_it_is(name: str) -> None:
    topology = built("dgx_a100")
    profile = profile_for(name, topology).profile
    (timed,) = times(profile, algorithm("ring"), topology, 8, [1e6]).values()
    assert timed.interval is not None
    assert timed.interval.expected == pytest.approx(timed.seconds)
    assert timed.interval.high > 1.3 * timed.interval.expected
    assert timed.interval.unsure == ("no run was measured",)


def test_what_the_population_does_not_reach_has_wider_intervals() -> None:
    """RCCL runs on one of the measured machines, and not with NVLinks. Each of the two reasons adds
    the variance of another machine."""
    topology, sure = built("dgx_a100"), []
    for name in ("nccl", "rccl"):
        known = profile_for(name, topology).profile.uncertainty
        assert known is not None
        sure.append(known)
    reached, wider = (known.residuals.rules for known in sure)
    of_machines = hypot(reached.machine, FURTHER)
    assert wider.machine == pytest.approx(hypot(reached.machine, 2**0.5 * of_machines))
    assert wider._replace(machine=0) == reached._replace(machine=0)
    assert (sure[0].software, sure[0].between) == (sure[1].software, sure[1].between)


def test_over_several_nodes_middle_sizes_are_less_sure_than_gigabytes() -> None:
    """Half the width in log: at least 1.5 times as much at 4 MiB as at 8 GiB, where intervals end
    within 30% of the time."""
    topology = built("hgx_h100:nodes=2")
    profile = profile_for("nccl", topology).profile
    runs = times(profile, algorithm("rings"), topology, 16, [2.0**22, 2.0**33])
    middle, large = (log(run.interval.high / run.seconds) for run in runs.values() if run.interval)
    assert middle > 1.5 * large
    assert large < log(1.3)


def test_switches_are_no_ranks_of_a_run() -> None:
    """Intervals widen beyond the ranks that were measured: sixteen, whatever reduces for them."""
    topology, in_switches = built("hgx_h100:nodes=2"), algorithm("nvls_tree:segments=64")
    schedule, machine, _, _ = in_switches.on(topology, 16, 1e9)
    profile = profile_for("nccl", topology).profile
    assert schedule.ranks > 16
    run = profile.simulate(route(schedule, machine), in_switches)
    predicted = prediction(profile, run, in_switches)
    assert predicted is not None
    assert predicted.place.ranks.tolist() == [16]


def test_a_rack_is_larger_than_the_nodes_that_were_measured() -> None:
    """One measured machine has 72 GPUs a node; the others have 8 or fewer."""
    rack, node = (profile_for("nccl", built(name)) for name in ("nvl72", "hgx_h100"))
    assert any("1 of these machines has 72 GPUs a node" in note for note in rack.notes)
    assert not any("GPUs a node" in note for note in node.notes)
    unsure = rack.profile.uncertainty, node.profile.uncertainty
    wide, narrow = (known.residuals.rules.machine for known in unsure if known is not None)
    assert wide > 2 * narrow


def test_gpus_over_pcie_may_not_reach_each_other() -> None:
    """Intervals are widest if nobody says it, and a note tells how to. NVLinks need no answer."""
    box, widths = built("pcie_box"), []
    for p2p in (None, False, True):
        described = profile_for("nccl", box, p2p=p2p)
        assert described.profile.uncertainty is not None
        assert any("say p2p=yes" in note for note in described.notes) == (p2p is None)
        widths.append(described.profile.uncertainty.residuals.rules.machine)
    assert widths[0] > 1.2 * widths[1] > 1.2**2 * widths[2]
    linked = built("dgx_a100")
    assert (
        profile_for("nccl", linked, p2p=None).notes == profile_for("nccl", linked, p2p=True).notes
    )


def test_variants_move_as_the_population_does() -> None:
    """Variances of the launch add up to that of the population."""
    members = population("NCCL")
    assert members is not None
    profile = profile_for("nccl", built("dgx_a100")).profile
    assert profile.uncertainty is not None
    moved = [log(each.launch / profile.launch) for each in profile.uncertainty.variants]
    assert sum(move**2 for move in moved) ** 0.5 == pytest.approx(members.spreads["launch"])


@given(st.floats(1e9, 1e11), st.floats(1.1, 10))
@tries(3, many=100)
def test_faster_links_are_faster(bandwidth: float, factor: float) -> None:
    """The profile of a machine with faster links takes less time, and at most the factor less."""
    slow, fast = (
        find("nodes:per_node=4").with_links(bandwidth=rate).build(8)
        for rate in (bandwidth, bandwidth * factor)
    )
    slower, faster = (seconds(profile_for("nccl", one).profile, one, 1e8) for one in (slow, fast))
    assert faster <= slower <= faster * factor * (1 + 1e-9)


def test_a_step_takes_as_long_whatever_its_links() -> None:
    """α of NVLinks through a switch are those of a node of the population."""
    members = population("NCCL")
    assert members is not None
    for kind, machine in (("nvlink", "dgx_a100"), ("node", "nodes:per_node=8")):
        topology = built(machine)
        profile = profile_for("nccl", topology).profile
        step = sum(
            profile.protocols[1].links[str(topology.link_kinds[link])].latency
            for link in topology.route(0, 1)
        )
        assert kind in profile.protocols[1].links
        assert step == pytest.approx(2 * 2.718281828459045 ** members.members["LL node α"].mean)


def test_the_links_of_long_messages_have_what_machines_reach_of_their_bandwidth() -> None:
    members = population("NCCL")
    assert members is not None
    topology = built("dgx_a100")
    simple = profile_for("nccl", topology).profile.protocols[-1]
    specified = float(topology.bandwidth[topology.link_kinds.are("nvlink")][0])
    slower = 2.718281828459045 ** members.members["Simple node 1/β"].mean
    assert simple.links["nvlink"].bandwidth == pytest.approx(specified / slower)


def test_protocols_begin_faster_and_end_slower() -> None:
    protocols = profile_for("nccl", built("dgx_a100")).profile.protocols
    for shorter, longer in pairwise(protocols):
        assert shorter.links["nvlink"].bandwidth < longer.links["nvlink"].bandwidth


@pytest.mark.parametrize(
    ("name", "machine", "words"),
    [
        ("nccl", "dgx_a100", ["median error"]),
        ("gloo", "nodes:per_node=4", ["no machine was measured"]),
        ("nccl", "mi300x", ["population of", "--library rccl does"]),
        ("rccl", "dgx_a100", ["population of", "--library nccl does", "only 1 of these"]),
        ("rccl", "mi300x", ["population of", "only 1 of these machines has rccl"]),
        ("nccl", "star", ["population of", "has links of kind link: simctl takes them as"]),
        ("nccl", "hgx_h100:nodes=2", ["population of"]),
        ("nccl", "hgx_h100:nodes=2,port=roce400", ["population of"]),
        ("nccl", "nodes:per_node=4", ["population of", "links of kind network may be RoCE or not"]),
        ("rccl", "mi300x:nodes=2", ["population of", "only 1"]),
        (
            "rccl",
            "mi300x:nodes=2,port=ethernet400",
            ["population of", "kind ethernet count as", "only"],
        ),
    ],
)
def test_notes_say_where_figures_are_from(name: str, machine: str, words: list[str]) -> None:
    notes = profile_for(name, built(machine)).notes
    assert len(notes) == len(words)
    for note, part in zip(notes, words, strict=True):
        assert part in note


@pytest.mark.parametrize("name", ["nccl", "openmpi"])
def test_messages_over_tcp_go_through_kernels(name: str) -> None:
    """By populations of other machines, so about as much longer than over RoCE."""
    steps = []
    for port in ("ethernet400", "roce400"):
        topology = built(f"hgx_h100:nodes=2,port={port}")
        kinds = [str(topology.link_kinds[link]) for link in topology.route(0, 8)]
        protocols = profile_for(name, topology).profile.protocols
        steps.append([sum(each.links[kind].latency for kind in kinds) for each in protocols])
    for tcp, verbs in zip(*steps, strict=True):
        assert tcp - verbs > 0.9 * KERNELS


@pytest.mark.parametrize("port", ["ndr", "roce400"])
def test_a_transport_has_the_figures_of_its_population(port: str) -> None:
    members = population("NCCL")
    assert members is not None
    for name, wide in ((port, members.over("verbs")), ("ethernet400", members)):
        topology = built(f"hgx_h100:nodes=2,port={name}")
        profile = profile_for("nccl", topology).profile
        assert profile.uncertainty is not None
        moved = [log(each.launch / profile.launch) for each in profile.uncertainty.variants]
        assert sum(move**2 for move in moved) ** 0.5 == pytest.approx(wide.spreads["launch"])


@pytest.mark.parametrize(
    ("machine", "ranks", "busbw"),
    [
        ("hgx_h100", 4, 376e9),
        pytest.param("hgx_h200", 5, 414e9, marks=pytest.mark.exhaustive),
        pytest.param("hgx_h200", 6, 436e9, marks=pytest.mark.exhaustive),
        pytest.param("hgx_h200", 7, 460e9, marks=pytest.mark.exhaustive),
        ("hgx_h200", 8, 473e9),
        pytest.param("b200", 6, 778e9, marks=pytest.mark.exhaustive),
        pytest.param("b200", 7, 811e9, marks=pytest.mark.exhaustive),
        ("b200", 8, 838e9),
    ],
)
def test_nvls_has_the_bandwidth_that_was_published(machine: str, ranks: int, busbw: float) -> None:
    """All-reduces of 8 GiB: nccl-tests in ml-engineering's pages on networks, and of four H100 on
    one node (NCCL 2.18.3)."""
    topology, nbytes = find(machine).build(ranks), 2.0**33
    profile = profile_for("nccl", find(machine).whole()).profile
    name = profile.divided("nvls", nbytes)
    took = times(profile, algorithm(name), topology, ranks, [nbytes])[nbytes][0]
    assert 2 * (ranks - 1) / ranks * nbytes / took == pytest.approx(busbw, rel=0.05)


@pytest.mark.parametrize(
    ("name", "machine"), [("nccl", "dgx_a100"), ("nccl", "nodes:per_node=4"), ("gloo", "hgx_h100")]
)
def test_nvls_has_figures_only_where_nccl_finds_switches_that_multicast(
    name: str, machine: str
) -> None:
    assert "nvls" not in profile_for(name, built(machine)).profile.slower


def test_nvls_is_as_unsure_as_its_measured_machines() -> None:
    """Machines differ in its latency and its 1/β."""
    profile = profile_for("nccl", built("hgx_h100")).profile
    assert profile.uncertainty is not None
    moved = profile.uncertainty.variants
    assert len({one.slower["nvls"]["nvlink"] for one in moved}) > 1
    assert len({one.launches["nvls"] - one.launch for one in moved}) > 1


@pytest.mark.parametrize(("memory", "device"), [(None, 3.35e12), (4.8e12, 4.8e12)])
def test_copies_go_with_the_memory_of_the_gpu(memory: float | None, device: float) -> None:
    """Without a known bandwidth it is that of a usual GPU with such links."""
    usual, with_memory = (
        profile_for("nccl", built("hgx_h100"), beta).profile.kernels.own_copies
        for beta in (1e12, memory)
    )
    assert with_memory == pytest.approx(usual * 1e12 / device)


def test_a_library_that_nobody_measured_is_less_sure_than_mpi() -> None:
    spreads = []
    for name in ("openmpi", "gloo"):
        sure = profile_for(name, built("hgx_h100")).profile.uncertainty
        assert sure is not None
        spreads.append(sure.residuals.rules.machine)
    assert spreads[1] > spreads[0]


@pytest.mark.parametrize(("ranks", "busbw"), [(4, 157e9), (8, 81.8e9)])
def test_sends_in_a_node_have_few_channels(ranks: int, busbw: float) -> None:
    """64 MiB to one peer, as measured on H100 with NVSwitches."""
    topology, nbytes = find("hgx_h100").build(ranks), 2.0**26
    profile = profile_for("nccl", find("hgx_h100").whole()).profile
    took = times(profile, algorithm("shift"), topology, ranks, [nbytes])[nbytes][0]
    assert nbytes / took == pytest.approx(busbw, rel=0.05)


def test_nvls_between_nodes_has_the_latency_of_simple() -> None:
    """NCCL has NVLS with the protocol Simple alone, so no other one is faster at small sizes."""
    topology = built("hgx_h100:nodes=2")
    profile = profile_for("nccl", topology).profile
    *others, simple = (protocol.factor("nvls", "ib") for protocol in profile.protocols)
    assert simple == 1.0 < min(others)
    assert {protocol.factor("nvls", "nvlink") for protocol in profile.protocols} == {0.0}
    timed = times(profile, algorithm("nvls"), topology, 16, [1e3, 1e6, 1e9])
    assert {one.protocol for one in timed.values()} == {"Simple"}


@pytest.mark.parametrize(
    ("name", "machine", "ranks", "busbw"),
    [
        ("ring", "hgx_h100", 4, 366e9),
        ("ring", "hgx_h200", 8, 366e9),
        ("ring", "b200", 6, 673e9),
        ("ring", "b200", 8, 682e9),
        ("ring_all_gather", "hgx_h200", 8, 361e9),
        ("ring_reduce_scatter", "hgx_h200", 8, 363e9),
    ],
)
def test_rings_do_not_have_the_bandwidth_of_nvls(
    name: str, machine: str, ranks: int, busbw: float
) -> None:
    """Published busbw of 16 GiB. A ring of an all-reduce sends twice what the others send."""
    topology, nbytes = find(machine).build(ranks), 2.0**34
    profile = profile_for("nccl", find(machine).whole()).profile
    took = times(profile, algorithm(name), topology, ranks, [nbytes])[nbytes][0]
    rounds = 2 if name == "ring" else 1
    assert rounds * (ranks - 1) / ranks * nbytes / took == pytest.approx(busbw, rel=0.05)
