"""Every number of every machine against its source, and times of one node computed by hand."""

import re
from collections import Counter
from itertools import permutations, product

import networkx as nx
import numpy as np
import pytest

from simulator.builder import ScheduleBuilder
from simulator.collectives import find
from simulator.engines import simulate
from topologies.clusters import cluster
from topologies.errors import InputError
from topologies.link_kinds import LINKS, link_kind
from topologies.machines import MACHINES, dgx1, hgx_h100, leonardo, mi300x, nvl72, pcie_box
from topologies.topology import Topology

US = 1e-6
Links = dict[tuple[str, str, str, float, float], int]

DEVICES = {
    "pcie_box": {"cpu": 2, "pcie switch": 2, "gpu": 8, "nic": 2},
    "dgx1": {"cpu": 2, "pcie switch": 4, "gpu": 8, "nic": 4},
    "dgx_a100": {"cpu": 2, "pcie switch": 4, "gpu": 8, "nic": 8, "nvswitch": 1},
    "hgx_h100": {"cpu": 2, "pcie switch": 4, "gpu": 8, "nic": 8, "nvswitch": 1},
    "hgx_h200": {"cpu": 2, "pcie switch": 4, "gpu": 8, "nic": 8, "nvswitch": 1},
    "b200": {"cpu": 2, "pcie switch": 4, "gpu": 8, "nic": 8, "nvswitch": 1},
    "mi300x": {"cpu": 2, "pcie switch": 8, "gpu": 8, "nic": 8},
    "nvl72": {"cpu": 36, "gpu": 72, "nic": 72, "nvswitch": 1},
    "leonardo": {"cpu": 1, "gpu": 4, "nic": 4},
    "mn5_acc": {"cpu": 2, "pcie switch": 4, "gpu": 4, "nic": 4},
    "alps": {"cpu": 4, "gpu": 4, "nic": 4},
}


def _hosted(switches: int, gpus: int, nics: int, pcie: float, socket: float) -> Links:
    """Two sockets with PCIe switches: α 0.5 us a link of PCIe, 0.1 us between the sockets."""
    return {
        ("cpu", "cpu", "upi", socket, 0.1): 1,
        ("cpu", "pcie switch", "pcie", pcie, 0.5): switches,
        ("gpu", "pcie switch", "pcie", pcie, 0.5): gpus,
        ("nic", "pcie switch", "pcie", pcie, 0.5): nics,
    }


HGX = _hosted(4, 8, 8, 48.0, 22.0) | {("gpu", "nvswitch", "nvlink", 18 * 20.6, 0.3): 8}
WIRES: dict[str, Links] = {
    # Between kinds, the kind of link, β in GB/s (NCCL's per NVLink times their number, PCIe x16 of the generation,
    # between sockets by the CPU), α in us: how many full-duplex links.
    "pcie_box": _hosted(2, 8, 2, 24.0, 10.0),
    "dgx1": _hosted(4, 8, 4, 12.0, 6.0)
    | {("gpu", "gpu", "nvlink", 20.0, 0.6): 8, ("gpu", "gpu", "nvlink", 2 * 20.0, 0.6): 8},
    "dgx_a100": _hosted(4, 8, 8, 24.0, 16.0) | {("gpu", "nvswitch", "nvlink", 12 * 20.0, 0.3): 8},
    "hgx_h100": HGX,
    "hgx_h200": HGX,
    "b200": _hosted(4, 8, 8, 48.0, 40.0) | {("gpu", "nvswitch", "nvlink", 18 * 40.1, 0.3): 8},
    "mi300x": _hosted(8, 8, 8, 48.0, 16.0) | {("gpu", "gpu", "xgmi", 48.0, 0.6): 28},
    "nvl72": {
        ("cpu", "gpu", "c2c", 450.0, 0.5): 72,
        ("cpu", "nic", "pcie", 48.0, 0.5): 72,
        ("gpu", "nvswitch", "nvlink", 18 * 40.1, 0.3): 72,
    },
    "leonardo": {
        ("cpu", "gpu", "pcie", 24.0, 0.5): 4,
        ("cpu", "nic", "pcie", 24.0, 0.5): 4,
        ("gpu", "gpu", "nvlink", 4 * 20.0, 0.6): 6,
    },
    "mn5_acc": _hosted(4, 4, 4, 48.0, 22.0) | {("gpu", "gpu", "nvlink", 6 * 20.6, 0.6): 6},
    "alps": {
        ("cpu", "cpu", "c2c", 100.0, 0.5): 6,
        ("cpu", "gpu", "c2c", 450.0, 0.5): 4,
        ("cpu", "nic", "pcie", 48.0, 0.5): 4,
        ("gpu", "gpu", "nvlink", 6 * 20.6, 0.6): 6,
    },
}
NEAREST = {
    "pcie_box": [[gpu // 4] for gpu in range(8)],
    "dgx1": [[gpu // 2] for gpu in range(8)],
    **{name: [[gpu // 2 * 2, gpu // 2 * 2 + 1] for gpu in range(8)] for name in ("dgx_a100", "hgx_h100", "hgx_h200")},
    "b200": [[gpu // 2 * 2, gpu // 2 * 2 + 1] for gpu in range(8)],
    "mi300x": [[gpu] for gpu in range(8)],
    "nvl72": [[gpu // 2 * 2, gpu // 2 * 2 + 1] for gpu in range(72)],
    "leonardo": [[0, 1, 2, 3]] * 4,
    "mn5_acc": [[gpu] for gpu in range(4)],
    "alps": [[gpu] for gpu in range(4)],
}
"""The NICs that are as few links away from GPU k as any."""
NETWORKS = {
    # How nodes are joined and the β of a NIC's port: EDR 100, HDR 200, NDR 400 Gbit/s, Slingshot 11 200 Gbit/s.
    "pcie_box": ("leaf_spine", 12.5e9),
    "dgx1": ("leaf_spine", 12.5e9),
    "dgx_a100": ("rails", 25e9),
    "hgx_h100": ("rails", 50e9),
    "hgx_h200": ("rails", 50e9),
    "b200": ("rails", 50e9),
    "nvl72": ("rails", 50e9),
    "mi300x": ("rails", 50e9),
    "leonardo": ("dragonfly", 12.5e9),
    "mn5_acc": ("leaf_spine", 25e9),
    "alps": ("dragonfly", 25e9),
}

DGX1_MATRIX = """
        GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7 mlx5_0 mlx5_2 mlx5_1 mlx5_3
GPU0    X    NV1  NV1  NV2  NV2  SYS  SYS  SYS  PIX    SYS    PHB    SYS
GPU1    NV1  X    NV2  NV1  SYS  NV2  SYS  SYS  PIX    SYS    PHB    SYS
GPU2    NV1  NV2  X    NV2  SYS  SYS  NV1  SYS  PHB    SYS    PIX    SYS
GPU3    NV2  NV1  NV2  X    SYS  SYS  SYS  NV1  PHB    SYS    PIX    SYS
GPU4    NV2  SYS  SYS  SYS  X    NV1  NV1  NV2  SYS    PIX    SYS    PHB
GPU5    SYS  NV2  SYS  SYS  NV1  X    NV2  NV1  SYS    PIX    SYS    PHB
GPU6    SYS  SYS  NV1  SYS  NV1  NV2  X    NV2  SYS    PHB    SYS    PIX
GPU7    SYS  SYS  SYS  NV1  NV2  NV1  NV2  X    SYS    PHB    SYS    PIX
mlx5_0  PIX  PIX  PHB  PHB  SYS  SYS  SYS  SYS  X      SYS    PHB    SYS
mlx5_2  SYS  SYS  SYS  SYS  PIX  PIX  PHB  PHB  SYS    X      SYS    PHB
mlx5_1  PHB  PHB  PIX  PIX  SYS  SYS  SYS  SYS  PHB    SYS    X      SYS
mlx5_3  SYS  SYS  SYS  SYS  PHB  PHB  PIX  PIX  SYS    PHB    SYS    X
"""
"""What `nvidia-smi topo -m` says of a DGX-1 with V100 (microsoft/msccl-tools, tests/test_topologies.py)."""


def nics_of(machine: Topology) -> list[str]:
    return [name for name, kind in zip(machine.device_names, machine.device_kinds, strict=True) if kind == "nic"]


def kinds_of(machine: Topology, route: tuple[int, ...]) -> list[str]:
    return [machine.link_kinds[link] for link in route]


def pcie_level(machine: Topology, one: str, other: str) -> str:
    """PIX through one PCIe switch, PHB through a CPU, SYS through two, as nvidia-smi says: NVLinks apart."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_edges_from((near, far) for near, far, edge in machine.graph.edges(data=True) if edge["kind"] != "nvlink")
    way = nx.shortest_path(graph, one, other)
    return ("PIX", "PHB", "SYS")[sum(name.startswith("cpu") for name in way)]


# Numbers.


@pytest.mark.parametrize("name", MACHINES)
def test_the_devices_of_a_machine(name: str) -> None:
    machine = MACHINES[name].node()
    assert machine.name == name
    assert Counter(machine.device_kinds) == DEVICES[name]
    assert set(machine.node.tolist()) == {0}
    gpus = [f"gpu{rank}" for rank in range(DEVICES[name]["gpu"])]
    assert [machine.device_names[device] for device in machine.placement] == gpus
    assert [machine.device_kinds[device] for device in machine.placement] == ["gpu"] * len(gpus)
    assert nics_of(machine) == [f"nic{k}" for k in range(DEVICES[name]["nic"])]
    assert machine.paths == "rail"
    assert not machine.reduction.any()
    assert not machine.copy.any()


@pytest.mark.parametrize("name", MACHINES)
def test_the_links_of_a_machine(name: str) -> None:
    """All of them full-duplex, each with the β and α of its kind, without gap."""
    machine = MACHINES[name].node()
    found: Counter[tuple[str, str, str, float, float]] = Counter()
    for link in range(machine.links):
        ends = sorted(machine.device_kinds[end] for end in (machine.source[link], machine.target[link]))
        figures = round(float(machine.bandwidth[link]) / 1e9, 6), round(float(machine.latency[link]) / US, 6)
        found[ends[0], ends[1], machine.link_kinds[link], *figures] += 1
    wanted = {(*ends, round(beta, 6), alpha): 2 * count for (*ends, beta, alpha), count in WIRES[name].items()}
    assert found == wanted
    pairs = set(zip(machine.source.tolist(), machine.target.tolist(), strict=True))
    assert pairs == {(other, one) for one, other in pairs}
    assert not machine.medium_gap.any()
    assert machine.shared_names == ()


def test_the_figures_of_link_kinds() -> None:
    """GB/s of NCCL 2.2x's src/graph/topo.h (NVLinks by compute capability, 12 for x16 of PCIe 3, between sockets by
    CPU), of RCCL's for xGMI, and line rates of networks over 8."""
    figures = {
        "nvlink1": (18, 0.6), "nvlink2": (20, 0.6), "nvlink3": (20, 0.6), "nvlink4": (20.6, 0.6),
        "nvlink5": (40.1, 0.6), "xgmi1": (24, 0.6), "xgmi2": (36, 0.6), "xgmi3": (48, 0.6),
        "pcie3": (12, 0.5), "pcie4": (24, 0.5), "pcie5": (48, 0.5), "qpi": (6, 0.1), "upi2": (10, 0.1),
        "upi3": (22, 0.1), "upi4": (40, 0.1), "fabric": (16, 0.1), "power": (32, 0.1), "arm": (6, 0.1),
        "c2c": (450, 0.5), "ethernet10": (1.25, 0.35), "ethernet25": (3.125, 0.35), "ethernet100": (12.5, 0.35),
        "ethernet400": (50, 0.35), "slingshot": (25, 0.35), "edr": (12.5, 0.35), "hdr": (25, 0.35),
        "ndr200": (25, 0.35), "ndr": (50, 0.35),
    }  # fmt: skip
    assert list(LINKS) == list(figures)
    for name, kind in LINKS.items():
        assert (kind.bandwidth / 1e9, kind.latency / US) == pytest.approx(figures[name])
    assert all("\n" not in kind.source and len(kind.source) > 20 for kind in LINKS.values())


def test_one_step_of_nccls_over_each_kind_takes_what_its_links_take_together() -> None:
    """LL steps of tuning.cc: 0.6 us over NVLink or two hops to an NVSwitch, 1.0 us over a PCIe switch, 2.7 us over a
    network with a PCIe link before and after each NIC and one switch of the network."""
    nvlink, pcie, network = (link_kind(name).latency for name in ("nvlink4", "pcie5", "ndr"))
    assert nvlink == pytest.approx(0.6 * US)
    assert 2 * pcie == pytest.approx(1.0 * US)
    assert 4 * pcie + 2 * network == pytest.approx(2.7 * US)
    machine = cluster("hgx_h100", 2)
    assert machine.latency[list(machine.route(0, 8))].sum() == pytest.approx(2.7 * US)


def test_there_is_no_other_kind_of_link() -> None:
    with pytest.raises(InputError, match="'nvlink6' is no kind of link: there are nvlink1, nvlink2"):
        link_kind("nvlink6")


def test_a_dgx1_is_what_nvidia_smi_says() -> None:
    machine = dgx1()
    heading, *rows = (line.split() for line in DGX1_MATRIX.strip().splitlines())
    names = [label.replace("GPU", "gpu").replace("mlx5_", "nic") for label in heading]
    for one, (_, *cells) in zip(names, rows, strict=True):
        for other, cell in zip(names, cells, strict=True):
            if one == other:
                assert cell == "X"
            elif cell.startswith("NV"):
                assert machine.graph.edges[one, other]["bandwidth"] == int(cell[2:]) * 20e9
            else:
                assert not machine.graph.has_edge(one, other)
                assert pcie_level(machine, one, other) == cell


def test_a_v100_has_six_nvlinks_and_an_mi300x_seven_neighbours() -> None:
    for gpu in range(8):
        leaving = [out for _, _, out in dgx1().graph.out_edges(f"gpu{gpu}", data=True) if out["kind"] == "nvlink"]
        assert sum(out["bandwidth"] for out in leaving) == 6 * 20e9
        peers = [peer for _, peer, out in mi300x().graph.out_edges(f"gpu{gpu}", data=True) if out["kind"] == "xgmi"]
        assert sorted(peers) == [f"gpu{peer}" for peer in range(8) if peer != gpu]


@pytest.mark.parametrize("name", ["leonardo", "mn5_acc", "alps"])
def test_four_gpus_have_all_their_nvlinks_to_each_other(name: str) -> None:
    """12 of an A100, 18 of an H100, shared by three peers."""
    total = 12 * 20e9 if name == "leonardo" else 18 * 20.6e9
    graph = MACHINES[name].node().graph
    for gpu in range(4):
        leaving = [out for _, _, out in graph.out_edges(f"gpu{gpu}", data=True) if out["kind"] == "nvlink"]
        assert len(leaving) == 3
        assert sum(out["bandwidth"] for out in leaving) == pytest.approx(total)


@pytest.mark.parametrize("name", MACHINES)
def test_only_nvswitches_with_nvls_reduce(name: str) -> None:
    machine = MACHINES[name].node()
    names = [machine.device_names[device] for device in np.flatnonzero(machine.in_network)]
    assert names == (["nvswitch"] if name in ("hgx_h100", "hgx_h200", "b200", "nvl72") else [])


def test_a_grace_cpu_of_nvl72_has_two_gpus_and_two_nics() -> None:
    graph = nvl72().graph
    for cpu in range(36):
        below = [f"gpu{2 * cpu}", f"gpu{2 * cpu + 1}", f"nic{2 * cpu}", f"nic{2 * cpu + 1}"]
        assert sorted(graph.successors(f"cpu{cpu}")) == below


@pytest.mark.parametrize("name", MACHINES)
def test_networks_are_those_of_the_machine(name: str) -> None:
    machine = MACHINES[name]
    network, bandwidth = NETWORKS[name]
    assert machine.network == network
    assert link_kind(machine.port).bandwidth == bandwidth
    assert link_kind(machine.port).kind == ("ethernet" if name in ("pcie_box", "mi300x", "alps") else "ib")


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_says_where_its_figures_come_from(name: str) -> None:
    """A note for every kind of link that it has, each once and on one line; a summary that is a sentence."""
    machine = MACHINES[name].node()
    assert len(set(machine.notes)) == len(machine.notes)
    assert all("\n" not in note for note in machine.notes)
    noted = {LINKS[note.partition(":")[0]].kind for note in machine.notes if note.partition(":")[0] in LINKS}
    assert noted == set(machine.link_kinds)
    assert re.fullmatch(r"[A-Z].{30,119}", MACHINES[name].summary)


# Routes.


@pytest.mark.parametrize("name", MACHINES)
def test_gpus_take_nvlinks_where_there_are_any(name: str) -> None:
    machine = MACHINES[name].node()
    for pair in permutations(range(min(machine.ranks, 8)), 2):
        kinds = kinds_of(machine, machine.route(*pair))
        if name == "pcie_box":
            assert set(kinds) <= {"pcie", "upi"}
        else:
            assert set(kinds) == {"xgmi"} if name == "mi300x" else {"nvlink"}
            assert len(kinds) <= 2


def test_a_dgx1_is_two_nvlinks_wide() -> None:
    machine = dgx1()
    lengths = [len(machine.route(one, other)) for one, other in permutations(range(8), 2)]
    assert Counter(lengths) == {1: 32, 2: 24}


def test_four_gpus_of_a_pcie_box_are_nearer_to_each_other() -> None:
    machine = pcie_box()
    for one, other in permutations(range(8), 2):
        kinds = kinds_of(machine, machine.route(one, other))
        assert kinds == (["pcie"] * 2 if one // 4 == other // 4 else ["pcie", "pcie", "upi", "pcie", "pcie"])


@pytest.mark.parametrize("name", MACHINES)
def test_a_gpu_is_near_its_own_nics(name: str) -> None:
    machine = MACHINES[name].node()
    graph = nx.Graph(machine.graph)
    for gpu, nearest in enumerate(NEAREST[name][:8]):
        hops = nx.single_source_shortest_path_length(graph, f"gpu{gpu}")
        away = [hops[f"nic{nic}"] for nic in range(DEVICES[name]["nic"])]
        assert [nic for nic, far in enumerate(away) if far == min(away)] == nearest


@pytest.mark.parametrize("name", MACHINES)
def test_traffic_between_nodes_leaves_and_enters_by_the_nearest_nics(name: str) -> None:
    machine = cluster(name, 2)
    gpus = machine.ranks // 2
    for sender, receiver in product(range(min(gpus, 8)), repeat=2):
        route = list(machine.route(sender, gpus + receiver))
        names = [machine.device_names[device] for device in machine.target[route]]
        out, into = (int(name.partition(".nic")[2]) for name in names if ".nic" in name)
        assert out in NEAREST[name][sender]
        assert into in NEAREST[name][receiver]
        assert "nvlink" not in kinds_of(machine, tuple(route))
        assert "xgmi" not in kinds_of(machine, tuple(route))


@pytest.mark.parametrize("name", MACHINES)
def test_all_ranks_and_all_nics_reach_each_other(name: str) -> None:
    assert nx.is_strongly_connected(MACHINES[name].node().graph)
    for count in (0, 1, 3):
        assert nx.is_strongly_connected(MACHINES[name].node(nics=count).graph)


# NICs.


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("count", [0, 1, 3, 9, 100])
def test_a_machine_has_as_many_nics_as_are_asked_for(name: str, count: int) -> None:
    usual, machine = MACHINES[name].node(), MACHINES[name].node(nics=count)
    assert nics_of(machine) == [f"nic{nic}" for nic in range(count)]
    assert machine.links == usual.links + 2 * (count - DEVICES[name]["nic"]) if count else machine.links < usual.links
    assert machine.ranks == usual.ranks


def test_nics_are_shared_out_evenly() -> None:
    """12 on four switches are three on each; 6 are two, one, two, one."""
    for count, wanted in ((12, [3, 3, 3, 3]), (4, [1, 1, 1, 1]), (2, [1, 0, 1, 0]), (6, [2, 1, 2, 1])):
        graph = hgx_h100(nics=count).graph
        hosts = [[nic for nic in graph.successors(f"pcie{switch}") if "nic" in nic] for switch in range(4)]
        assert list(map(len, hosts)) == wanted


@pytest.mark.parametrize("count", [-1, 1025, 10**9])
def test_a_node_has_no_such_number_of_nics(count: int) -> None:
    for name in MACHINES:
        with pytest.raises(InputError, match=f"^nics is {count}: a node has 0 to 1024 NICs$"):
            MACHINES[name].node(nics=count)


# Times of one node, computed by hand. T in seconds; s and f are the times of a chunk over a slow and a fast link.


def sent(machine: Topology, pairs: list[tuple[int, int]], nbytes: float) -> float:
    """The time of a message of `nbytes` for each pair, all ready at once and none waiting for a place to go."""
    sender, receiver = np.array(pairs).T
    schedule = ScheduleBuilder(machine.ranks, nbytes, scratch=len(pairs))
    schedule.copy(sender, receiver, slot=0, target=1 + np.arange(len(pairs)))
    return simulate(schedule.build(), machine).makespan


def collective(machine: Topology, name: str, ranks: int, nbytes: float) -> float:
    return simulate(find(name).build(ranks, nbytes), machine).makespan


@pytest.mark.parametrize(
    ("name", "pair", "bandwidth", "latency"),
    [
        ("pcie_box", (0, 1), 24e9, 0.5 + 0.5),  # up to the switch and down
        ("pcie_box", (0, 4), 10e9, 0.5 + 0.5 + 0.1 + 0.5 + 0.5),  # between the sockets: UPI is the narrowest
        ("dgx1", (0, 1), 20e9, 0.6),  # one NVLink
        ("dgx1", (0, 3), 40e9, 0.6),  # two
        ("dgx1", (0, 5), 20e9, 0.6 + 0.6),  # by GPU 1 or 4: one of the two steps is single either way
        ("dgx1", (0, 7), 40e9, 0.6 + 0.6),  # by GPU 4, two and two; to 6, which is even, by GPU 2
        ("dgx1", (0, 6), 20e9, 0.6 + 0.6),
        ("dgx_a100", (0, 7), 240e9, 0.3 + 0.3),  # through the NVSwitch, which adds its α and no second n/β
        ("hgx_h100", (0, 7), 370.8e9, 0.3 + 0.3),
        ("hgx_h200", (3, 4), 370.8e9, 0.3 + 0.3),
        ("b200", (0, 7), 721.8e9, 0.3 + 0.3),
        ("nvl72", (0, 71), 721.8e9, 0.3 + 0.3),
        ("mi300x", (0, 7), 48e9, 0.6),
        ("leonardo", (0, 3), 80e9, 0.6),
        ("mn5_acc", (0, 3), 123.6e9, 0.6),
        ("alps", (0, 3), 123.6e9, 0.6),
    ],
)
def test_a_message_takes_the_latencies_of_its_links_and_once_the_slowest(
    name: str, pair: tuple[int, int], bandwidth: float, latency: float
) -> None:
    machine, nbytes = MACHINES[name].node(), 1e6
    assert sent(machine, [pair], nbytes) == pytest.approx(latency * US + nbytes / bandwidth, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "pair", "bandwidth"),
    [("pcie_box", (0, 1), 24e9), ("dgx1", (0, 3), 40e9), ("hgx_h100", (0, 7), 370.8e9), ("mi300x", (2, 5), 48e9)],
)
def test_messages_in_flight_share_a_link(name: str, pair: tuple[int, int], bandwidth: float) -> None:
    """Five at once are n/β after each other: no two are on a link together."""
    machine, nbytes = MACHINES[name].node(), 1e6
    alone = sent(machine, [pair], nbytes)
    assert sent(machine, [pair] * 5, nbytes) == pytest.approx(alone + 4 * nbytes / bandwidth, rel=1e-12)


def test_the_link_between_two_sockets_is_divided() -> None:
    """Four GPUs to the other socket: 4 n / 10 GB/s one after the other; to their own neighbours each has its own."""
    machine, nbytes = pcie_box(), 1e6
    across = [(gpu, gpu + 4) for gpu in range(4)]
    assert sent(machine, across, nbytes) == pytest.approx(2.1 * US + 4 * nbytes / 10e9, rel=1e-12)
    assert sent(machine, [*across, *((b, a) for a, b in across)], nbytes) == pytest.approx(
        2.1 * US + 4 * nbytes / 10e9, rel=1e-12
    )
    beside = [(gpu, gpu ^ 1) for gpu in range(8)]
    assert sent(machine, beside, nbytes) == pytest.approx(1.0 * US + nbytes / 24e9, rel=1e-12)


def test_an_nvswitch_does_not_block_but_a_gpu_has_one_port() -> None:
    """Eight pairs at once are as one; seven senders to one GPU queue at its port."""
    machine, nbytes = hgx_h100(), 1e6
    around = [(gpu, (gpu + 3) % 8) for gpu in range(8)]
    assert sent(machine, around, nbytes) == pytest.approx(0.6 * US + nbytes / 370.8e9, rel=1e-12)
    incast = [(gpu, 0) for gpu in range(1, 8)]
    assert sent(machine, incast, nbytes) == pytest.approx(0.6 * US + 7 * nbytes / 370.8e9, rel=1e-12)


ALPHA_RING = {
    # p, β of a step in bytes/s; α of a step is 0.6 us: by an NVSwitch 0.3 + 0.3, else one link.
    "dgx_a100": (8, 240e9),
    "hgx_h100": (8, 370.8e9),
    "hgx_h200": (8, 370.8e9),
    "b200": (8, 721.8e9),
    "nvl72": (4, 721.8e9),
    "mi300x": (8, 48e9),
    "leonardo": (4, 80e9),
    "mn5_acc": (4, 123.6e9),
    "alps": (4, 123.6e9),
}


@pytest.mark.parametrize("name", ALPHA_RING)
@pytest.mark.parametrize("nbytes", [8e3, 8e6, 8e9])
def test_a_ring_takes_a_latency_and_a_chunk_a_step(name: str, nbytes: float) -> None:
    """2(p - 1) steps of α + V/(p β), every rank on a link or a port of its own: a switch costs no second V/(p β)."""
    ranks, bandwidth = ALPHA_RING[name]
    step = 0.6 * US + nbytes / ranks / bandwidth
    time = collective(MACHINES[name].node(), "ring", ranks, nbytes)
    assert time == pytest.approx(2 * (ranks - 1) * step, rel=1e-12)


@pytest.mark.parametrize("name", ALPHA_RING)
def test_everyone_to_everyone_takes_p_1_messages_through_a_switch_and_one_where_all_are_joined(name: str) -> None:
    """Through an NVSwitch a GPU sends p - 1 times V one after the other, to others than the others do: (p - 1) V/β + α.
    With a link for each peer: V/β + α."""
    ranks, bandwidth = ALPHA_RING[name]
    messages = ranks - 1 if "nvswitch" in DEVICES[name] else 1
    time = collective(MACHINES[name].node(), "naive", ranks, 8e6)
    assert time == pytest.approx(messages * 8e6 / bandwidth + 0.6 * US, rel=1e-12)


def test_a_ring_in_a_pcie_box_is_as_fast_as_the_link_between_its_sockets() -> None:
    """V = 8 MB, a chunk of 1 MB: s = 100 us over UPI (10 GB/s), f = 41.7 us over PCIe (24 GB/s). Steps 3 -> 4 and
    7 -> 0 cross UPI, one each way, and take s each time; the three steps between take 3 (f + 1 us) < 4 s, so that UPI
    never waits for them: 14 chunks one after the other, and the α of 0.5 + 0.5 + 0.1 + 0.5 + 0.5 us once."""
    assert collective(pcie_box(), "ring", 8, 8e6) == pytest.approx((14 * 100 + 2.1) * US, rel=1e-12)


def test_everyone_to_everyone_in_a_pcie_box_waits_for_the_link_between_its_sockets() -> None:
    """16 of the messages cross UPI each way, V/10 GB/s = 800 us each; the first head is there after two links of PCIe
    (GPU 3 begins with GPU 4), UPI is never empty since PCIe brings more, and the last has 0.1 + 0.5 + 0.5 us to go."""
    assert collective(pcie_box(), "naive", 8, 8e6) == pytest.approx((1.0 + 16 * 800 + 1.1) * US, rel=1e-12)


def test_a_ring_in_rank_order_in_a_dgx1() -> None:
    """V = 1.6 MB, a chunk of 200 kB: s = 10 us over one NVLink, f = 5 us over two. 3 -> 4 and 7 -> 0 have no NVLink:
    they go 3 -> 0 -> 4 and 7 -> 3 -> 0, where s = 2 f, so that both fit on 3 -> 0. The slow steps are 0 -> 1, 4 -> 5
    and 7 -> 0, of which the last two in a row are 7 -> 0 and 0 -> 1: 13 chunks over 7 -> 3, 2α for the last of them to
    arrive at 0, and from there s + α."""
    assert collective(dgx1(), "ring", 8, 1.6e6) == pytest.approx((13 * 10 + 2 * 0.6 + 10 + 0.6) * US, rel=1e-12)


def test_everyone_to_everyone_in_a_dgx1() -> None:
    """V = 1.6 MB is 80 us over one NVLink. Six messages take 7 -> 3: those of GPU 7 to 3, to 0 and to 2 (both by 3,
    where 4 and 6 would do as well), and those of 4, 5 and 6 to 3 (by 7). GPU 7 has its three ready at once, the others
    come meanwhile, all that come later end at 3: 6 * 80 us + α. As many take 2 -> 6."""
    machine = dgx1()
    links = Counter(link for pair in permutations(range(8), 2) for link in machine.route(*pair))
    load = {
        (machine.device_names[machine.source[link]], machine.device_names[machine.target[link]]): count
        for link, count in links.items()
        if machine.bandwidth[link] == 20e9
    }
    assert {ends for ends, count in load.items() if count == max(load.values())} == {("gpu7", "gpu3"), ("gpu2", "gpu6")}
    assert collective(machine, "naive", 8, 1.6e6) == pytest.approx((6 * 80 + 0.6) * US, rel=1e-12)


def test_two_nodes_of_leonardo_by_hand() -> None:
    """4 -> 0 of the other node: GPU, CPU, NIC, router, NIC, CPU, GPU: 0.5 * 4 + 0.35 * 2 us and n/12.5 GB/s; the ring
    crosses twice, in opposite directions, 14 times n = V/8 each: 14 s + α."""
    machine, nbytes = cluster("leonardo", 2), 8e6
    assert sent(machine, [(3, 4)], nbytes) == pytest.approx(2.7 * US + nbytes / 12.5e9, rel=1e-12)
    assert collective(machine, "ring", 8, nbytes) == pytest.approx(2.7 * US + 14 * 1e6 / 12.5e9, rel=1e-12)


def test_leonardo_shares_its_only_cpu_but_not_its_links() -> None:
    """All four GPUs to the other node at once, each by its own NIC: as one alone."""
    machine, nbytes = cluster("leonardo", 2), 8e6
    alike = [(gpu, gpu + 4) for gpu in range(4)]
    assert sent(machine, alike, nbytes) == pytest.approx(2.7 * US + nbytes / 12.5e9, rel=1e-12)
    one_nic = cluster("leonardo", 2, nics=1)
    assert sent(one_nic, alike, nbytes) == pytest.approx(2.7 * US + 4 * nbytes / 12.5e9, rel=1e-12)
    assert leonardo().ranks == 4
