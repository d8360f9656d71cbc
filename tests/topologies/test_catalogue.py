"""NAME:key=value,... and files: what is understood, what is built, and what is said of the rest."""

from dataclasses import replace

import numpy as np
import pytest

from catalogue_entries import SHAPE_KEYS
from grouped_cases import each_case
from refusals import refusal
from topologies.catalogue import find
from topologies.clusters import MACHINES, cluster
from topologies.shapes import SHAPES
from topologies.topology import Topology


def names(topology: Topology) -> list[str]:
    return [topology.device_names[device] for device in topology.placement]


def test_no_shape_is_a_machine() -> None:
    assert not SHAPES.keys() & MACHINES.keys()
    assert list(SHAPE_KEYS) != []
    assert set(SHAPE_KEYS) == set(SHAPES)


@each_case(
    ("text", "near"),
    [
        *(
            ("hgx_h10", "hgx_h100"),
            ("HGX_H100", "hgx_h100"),
            ("Ring", "ring"),
            ("hgx_h100 ", "hgx_h100"),
        ),
        *(
            ("rnig", "ring"),
            ("dgxa100", "dgx_a100"),
            ("hgx_h10:nodes=2", "hgx_h100"),
            ("ring\n", "ring"),
        ),
        *(("hgx_h10:oversubscription=1.5", "hgx_h100"), ("рing", "ring")),
    ],
)
def test_a_name_that_is_none_is_answered_with_the_nearest(text: str, near: str) -> None:
    message = refusal(lambda: find(text))
    name = text.partition(":")[0]
    assert message.startswith(f"no topology or file {name!r}: did you mean '{near}'? ")
    assert all(known in message for known in (*SHAPES, *MACHINES))


@each_case("text", ["zzzzzz", "?", "x\0y", "~", "42", "--", "zzz:k=1"])
def test_a_name_like_none_is_answered_with_all(text: str) -> None:
    message = refusal(lambda: find(text))
    assert "did you mean" not in message
    assert all(known in message for known in (*SHAPES, *MACHINES))


@pytest.mark.parametrize("length", [300, 5000])
def test_a_name_too_long_for_a_file_is_none(length: int) -> None:
    assert len(refusal(lambda: find("a" * length))) < 600


# Shapes.


@each_case("shape", SHAPES)
def test_figures_are_those_of_all_links(shape: str) -> None:
    machine = find(shape).with_links(bandwidth=3e9, latency=4e-6, gap=5e-6)
    topology = replace(machine, reduction=6e-12).build(8)
    wanted = SHAPES[shape](8, bandwidth=3e9, latency=4e-6, gap=5e-6, reduction=6e-12)
    for column in ("medium_bandwidth", "latency", "medium_gap", "reduction"):
        assert getattr(topology, column).tolist() == getattr(wanted, column).tolist()


@each_case("shape", SHAPES)
def test_options_are_figures_too(shape: str) -> None:
    topology = find(f"{shape}:bandwidth=3GB/s,latency=4us,gap=5us").build(8)
    wanted = find(shape).with_links(bandwidth=3e9, latency=4e-6, gap=5e-6).build(8)
    for column in ("medium_bandwidth", "latency", "medium_gap"):
        assert getattr(topology, column).tolist() == getattr(wanted, column).tolist()


def test_servers_of_a_shape_are_further_ranks() -> None:
    topology = find("star").build(8, 2)
    assert names(topology) == [f"gpu{rank}" for rank in range(10)]
    assert names(replace(find("ring"), placement=(3, 2, 1, 0)).build(4, 1)) == [
        "gpu3",
        "gpu2",
        "gpu1",
        "gpu0",
        "gpu4",
    ]


# Machines.


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_has_as_many_nodes_as_the_ranks_need(name: str) -> None:
    """And no more ranks than are asked for."""
    gpus = MACHINES[name].node().ranks
    for ranks, nodes in (
        (2, 1),
        (gpus - 1, 1),
        (gpus, 1),
        (gpus + 1, 2),
        (2 * gpus, 2),
        (2 * gpus + 1, 3),
    ):
        topology = find(name).build(ranks)
        assert len({node for node in topology.node.tolist() if node >= 0}) == nodes
        gpu_names = (f"node{rank // gpus}.gpu{rank % gpus}" for rank in range(ranks))
        assert names(topology) == [
            gpu if nodes > 1 else gpu.removeprefix("node0.") for gpu in gpu_names
        ]


def test_a_machine_has_as_many_nodes_as_it_says() -> None:
    for nodes in (1, 2, 3):
        for ranks in (2, 8 * nodes):
            topology = find(f"dgx1:nodes={nodes}").build(ranks)
            assert (topology.ranks, topology.device_kinds.are("gpu").sum()) == (ranks, 8 * nodes)
        message = refusal(lambda nodes=nodes: find(f"dgx1:nodes={nodes}").build(8 * nodes + 1))
        assert message == (
            f"dgx1:nodes={nodes} has {8 * nodes} GPUs, not {8 * nodes + 1}: take fewer ranks or "
            f"more nodes"
        )


def test_options_reach_the_machine() -> None:
    topology = find(
        "hgx_h100:nodes=3,network=leaf_spine,nics=2,port=hdr,spines=1,sharp=yes,paths=hash"
    ).build(8)
    wanted = cluster("hgx_h100", 3, network="leaf_spine", nics=2, port="hdr", spines=1, sharp=True)
    assert topology.device_names == wanted.device_names
    assert topology.bandwidth.tolist() == wanted.bandwidth.tolist()
    assert topology.in_network.tolist() == wanted.in_network.tolist()
    assert topology.paths == "hash"


@pytest.mark.parametrize("figures", [{"bandwidth": 1e9}, {"latency": 0.0}, {"gap": 0.0}])
def test_a_machine_has_links_of_its_own(figures: dict[str, float]) -> None:
    message = refusal(lambda: find("dgx1").with_links(**figures))
    assert message == "dgx1 has links of its own: leave out --bandwidth, --latency and --gap"


def test_gpus_merge_as_fast_as_is_said() -> None:
    topology = replace(find("dgx1"), reduction=1e-12).build(12)
    assert set(topology.reduction[topology.placement].tolist()) == {1e-12}
    assert not topology.reduction[~topology.device_kinds.are("gpu")].any()


def test_a_server_on_a_cpu_merges_as_fast_as_is_said() -> None:
    """Or it would reduce in no time what eight workers send: a shape's server has the γ of all."""
    topology = replace(find("dgx1"), reduction=1e-12).build(8, 1)
    assert topology.reduction[topology.placement].tolist() == [1e-12] * 9


@each_case(
    ("ranks", "servers", "wanted"),
    [
        (7, 1, ["gpu7"]),
        (6, 2, ["gpu6", "gpu7"]),
        (8, 1, ["cpu0"]),
        (8, 2, ["cpu0", "cpu1"]),
        (7, 2, ["gpu7", "cpu0"]),
    ],
)
def test_servers_take_free_gpus_and_then_cpus(ranks: int, servers: int, wanted: list[str]) -> None:
    topology = find("dgx1").build(ranks, servers)
    assert names(topology) == [*(f"gpu{rank}" for rank in range(ranks)), *wanted]


def test_servers_of_several_nodes() -> None:
    assert names(find("dgx1").build(9, 1))[-2:] == ["node1.gpu0", "node1.gpu1"]
    assert names(find("dgx1").build(16, 3))[-3:] == ["node0.cpu0", "node0.cpu1", "node1.cpu0"]
    spread = names(replace(find("dgx1:nodes=2"), placement="round-robin").build(3, 1))
    assert spread == ["node0.gpu0", "node1.gpu0", "node0.gpu1", "node1.gpu1"]


def test_too_many_servers_are_refused() -> None:
    message = refusal(lambda: find("dgx1").build(8, 3))
    assert message == (
        "dgx1 has no device left for 3 servers besides 8 ranks: take fewer ranks, or a larger "
        "machine"
    )
    assert "left for 1 server besides" in refusal(
        lambda: find("hgx_h100:nodes=1").build(8, 1, "gpu")
    )


def test_a_placement_lists_workers_only() -> None:
    message = refusal(lambda: replace(find("dgx1"), placement=(0, 1, 2, 3)).build(3, 1))
    assert message == "placement '0,1,2,3': name 3 different places, 0 to 7, for 3 ranks"
    assert names(replace(find("dgx1"), placement=(7, 6, 5)).build(3, 1)) == [
        "gpu7",
        "gpu6",
        "gpu5",
        "gpu0",
    ]


def test_a_hundred_million_ranks_are_too_many() -> None:
    dgx1 = find("dgx1")
    assert refusal(dgx1.build, 10**9).startswith("125000000 nodes of dgx1: this takes about ")
    forced = replace(dgx1, force=True)
    assert "nodes is 125000000: dgx1 comes 1 to" in refusal(forced.build, 10**9)


def test_a_job_on_fewer_gpus_a_node_has_the_first_of_each() -> None:
    for text in ("dgx1", "dgx1:nics=2"):
        topology = find(text).for_job(4, 2).build(4)
        assert names(topology) == ["node0.gpu0", "node0.gpu1", "node1.gpu0", "node1.gpu1"]
        assert topology.device_kinds.are("nic").sum() == (8 if text == "dgx1" else 4)


@each_case(("ranks", "nodes"), [(4, 1), (16, 2), (4, 0), (5, 2)])
def test_a_job_that_fills_its_nodes_or_not_evenly_has_the_machine_itself(
    ranks: int, nodes: int
) -> None:
    assert find("dgx1").for_job(ranks, nodes) == find("dgx1")


def test_trays_are_no_nodes_of_a_rack() -> None:
    rack = find("nvl72")
    assert rack.for_job(72, 18) == rack
    two = rack.for_job(128, 32).build(128)
    assert set(two.node[two.placement].tolist()) == {0, 1}
    assert rack.for_job(16, 2).options == {"nodes": 2}


@each_case(
    ("ranks", "used", "racks"),
    [
        (64, 64, 1),
        (72, 72, 1),
        (96, 64, 2),
        (128, 64, 2),
        (144, 72, 2),
        (148, 72, 3),
        (288, 72, 4),
        (512, 64, 8),
        (576, 64, 9),
        (2496, 64, 39),
    ],
)
@each_case("name", ["nvl72", "gb300"])
def test_racks_of_a_training_do_not_cut_groups(
    name: str, ranks: int, used: int, racks: int
) -> None:
    job = find(name).for_training(ranks).build(ranks)
    numbers = np.bincount(job.node[job.placement])
    assert (len(numbers), numbers[0]) == (racks, used)


def test_a_training_leaves_what_the_user_says() -> None:
    for text in ("nvl72:used=72", "nvl72:nodes=2,used=32", "hgx_h100", "star"):
        assert find(text).for_training(1024) == find(text)
    assert find("nvl72:nodes=2").for_training(144) == find("nvl72:nodes=2")
    # Two racks of 64 have no place for 136 ranks.
    assert find("gb300:nodes=2").for_training(136).build(136).ranks == 136
    assert find("gb200:nodes=2").for_training(128).options == {"nodes": 2, "used": 64}
    dealt = replace(find("nvl72"), placement="round-robin")
    assert dealt.for_training(128) == dealt


def test_ranks_take_the_first_gpus_of_each_node() -> None:
    machine = find("dgx1:nodes=2,used=3").build(6)
    assert names(machine) == [f"node{node}.gpu{gpu}" for node in (0, 1) for gpu in range(3)]
    assert find("nvl72:used=64").whole().ranks == 64
    for used in (0, 9):
        message = refusal(lambda used=used: find(f"hgx_h100:used={used}").build(2))
        assert message == f"used is {used}: a node has 8 GPUs, take 1 to 8"


def test_a_machine_has_a_second_name() -> None:
    assert find("gb200").whole().ranks == 72
    assert find("hgx_b200").name == "b200"


def test_a_job_leaves_what_the_user_says() -> None:
    three_nodes = find("dgx1:nodes=3").for_job(4, 2)
    assert (three_nodes.options, three_nodes.placement) == ({"nodes": 3}, (0, 1, 8, 9))
    dealt = replace(find("dgx1"), placement="round-robin")
    assert dealt.for_job(4, 2) == dealt
    assert find("nodes:gap=1us").for_job(7, 2).options == {"gap": 1e-6, "per_node": 4}
    assert find("ring").for_job(4, 2) == find("ring")


# All of it.


@each_case("name", [*SHAPES, *MACHINES])
def test_the_whole_of_it(name: str) -> None:
    whole = find(name).whole()
    assert whole.ranks == (8 if name in SHAPES else MACHINES[name].node().ranks)


def test_the_whole_has_its_options() -> None:
    assert find("dgx1:nodes=3").whole().ranks == 24
    assert find("torus:dims=2x2x2").whole().links == 24
    assert find("leaf_spine:spines=3").whole().ranks == 8


def test_the_whole_of_a_torus_has_as_many_ranks_as_its_dimensions_say() -> None:
    assert find("torus:dims=4x4").whole().ranks == 16
