"""Every number of every machine against its source."""

import re
from collections import Counter
from itertools import permutations, product

import networkx as nx
import numpy as np
import pytest

from catalogue_entries import DEVICES
from grouped_cases import each_case
from refusals import refusal
from topologies.clusters import MACHINES, cluster
from topologies.errors import InputError
from topologies.link import LINKS, link_kind
from topologies.topology import Topology

US = 1e-6
Links = dict[tuple[str, str, str, float, float], int]


def _hosted(switches: int, gpus: int, nics: int, pcie: float, socket: float) -> Links:
    """Two sockets with PCIe switches: α 0.5 us a link of PCIe, 0.1 us between the sockets."""
    return {
        ("cpu", "cpu", "upi", socket, 0.1): 1,
        ("cpu", "pcie switch", "pcie", pcie, 0.5): switches,
        ("gpu", "pcie switch", "pcie", pcie, 0.5): gpus,
        ("nic", "pcie switch", "pcie", pcie, 0.5): nics,
    }


HGX = _hosted(4, 8, 8, 48.0, 22.0) | {("gpu", "nvswitch", "nvlink", 18 * 20.6, 0.3): 8}
AMD = _hosted(8, 8, 8, 48.0, 16.0) | {("gpu", "gpu", "xgmi", 48.0, 0.6): 28}
# The CPUs of HGX B300 have PCIe 5: its GPUs reach them at that rate.
B300 = _hosted(4, 8, 8, 96.0, 40.0) | {("gpu", "nvswitch", "nvlink", 18 * 40.1, 0.3): 8}
B300[("gpu", "pcie switch", "pcie", 48.0, 0.5)] = B300.pop(
    ("gpu", "pcie switch", "pcie", 96.0, 0.5)
)
EQUIPMENT: dict[str, Links] = {
    # Between kinds, the kind of link, β in GB/s (NCCL's per NVLink times their number, PCIe x16 of
    # the generation, between sockets by the CPU), α in us: how many full-duplex links.
    "pcie_box": _hosted(2, 8, 2, 24.0, 10.0),
    "dgx1": _hosted(4, 8, 4, 12.0, 6.0)
    | {("gpu", "gpu", "nvlink", 20.0, 0.6): 8, ("gpu", "gpu", "nvlink", 2 * 20.0, 0.6): 8},
    "dgx_a100": _hosted(4, 8, 8, 24.0, 16.0) | {("gpu", "nvswitch", "nvlink", 12 * 20.0, 0.3): 8},
    "hgx_h100": HGX,
    "hgx_h800": _hosted(4, 8, 8, 48.0, 22.0) | {("gpu", "nvswitch", "nvlink", 8 * 20.6, 0.3): 8},
    "hgx_h200": HGX,
    "hgx_b300": B300,
    "b200": _hosted(4, 8, 8, 48.0, 40.0) | {("gpu", "nvswitch", "nvlink", 18 * 40.1, 0.3): 8},
    "mi300x": AMD,
    "mi325x": AMD,
    "mi355x": AMD,
    "nvl72": {
        ("cpu", "gpu", "c2c", 450.0, 0.5): 72,
        ("cpu", "nic", "pcie", 48.0, 0.5): 72,
        ("gpu", "nvswitch", "nvlink", 18 * 40.1, 0.3): 72,
    },
    "gb300": {
        ("cpu", "gpu", "c2c", 450.0, 0.5): 72,
        ("cpu", "nic", "pcie", 96.0, 0.5): 72,
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
SWITCHES_REDUCE = "hgx_h100", "hgx_h800", "hgx_h200", "b200", "hgx_b300", "nvl72", "gb300"
NEAREST = {
    "pcie_box": [[gpu // 4] for gpu in range(8)],
    "dgx1": [[gpu // 2] for gpu in range(8)],
    **{
        name: [[gpu // 2 * 2, gpu // 2 * 2 + 1] for gpu in range(8)]
        for name in ("dgx_a100", "hgx_h100", "hgx_h800", "hgx_h200", "b200", "hgx_b300")
    },
    **{name: [[gpu] for gpu in range(8)] for name in ("mi300x", "mi325x", "mi355x")},
    **{
        name: [[gpu // 2 * 2, gpu // 2 * 2 + 1] for gpu in range(72)] for name in ("nvl72", "gb300")
    },
    "leonardo": [[0, 1, 2, 3]] * 4,
    "mn5_acc": [[gpu] for gpu in range(4)],
    "alps": [[gpu] for gpu in range(4)],
}
"""The NICs that are as few links away from GPU k as any."""

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
"""What `nvidia-smi topo -m` says of a DGX-1 with V100 (microsoft/msccl-tools,
tests/test_topologies.py)."""


def nics_of(machine: Topology) -> list[str]:
    return [
        name
        for name, kind in zip(machine.device_names, machine.device_kinds, strict=True)
        if kind == "nic"
    ]


def kinds_of(machine: Topology, route: tuple[int, ...]) -> list[str]:
    return [machine.link_kinds[link] for link in route]


def pcie_level(machine: Topology, start: str, end: str) -> str:
    """PIX through one PCIe switch, PHB through a CPU, SYS through two, as nvidia-smi says: NVLinks
    apart."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_edges_from(
        (near, far)
        for near, far, edge in machine.graph.edges(data=True)
        if edge["kind"] != "nvlink"
    )
    way = nx.shortest_path(graph, start, end)
    return ("PIX", "PHB", "SYS")[sum(name.startswith("cpu") for name in way)]


# Numbers.


@each_case("name", MACHINES)
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


@each_case("name", MACHINES)
def test_the_links_of_a_machine(name: str) -> None:
    """All of them full-duplex, each with the β and α of its kind, without gap."""
    machine = MACHINES[name].node()
    links_by_kind: Counter[tuple[str, str, str, float, float]] = Counter()
    for link in range(machine.links):
        ends = sorted(
            machine.device_kinds[end] for end in (machine.source[link], machine.target[link])
        )
        figures = (
            round(float(machine.bandwidth[link]) / 1e9, 6),
            round(float(machine.latency[link]) / US, 6),
        )
        links_by_kind[ends[0], ends[1], machine.link_kinds[link], *figures] += 1
    wanted = {
        (*ends, round(beta, 6), alpha): 2 * count
        for (*ends, beta, alpha), count in EQUIPMENT[name].items()
    }
    assert links_by_kind == wanted
    pairs = set(zip(machine.source.tolist(), machine.target.tolist(), strict=True))
    assert pairs == {(target, source) for source, target in pairs}
    assert not machine.medium_gap.any()
    assert machine.shared_names == ()


def test_one_step_of_nccls_over_each_kind_takes_what_its_links_take_together() -> None:
    """LL steps of tuning.cc: 0.6 us over NVLink or two hops to an NVSwitch, 1.0 us over a PCIe
    switch, 2.7 us over a network with a PCIe link before and after each NIC and one switch of the
    network."""
    nvlink, pcie, network = (link_kind(name).link.latency for name in ("nvlink4", "pcie5", "ndr"))
    assert nvlink == pytest.approx(0.6 * US)
    assert 2 * pcie == pytest.approx(1.0 * US)
    assert 4 * pcie + 2 * network == pytest.approx(2.7 * US)
    machine = cluster("hgx_h100", 2)
    assert machine.latency[list(machine.route(0, 8))].sum() == pytest.approx(2.7 * US)


def test_the_bandwidth_of_a_kind_is_that_of_its_source() -> None:
    """In GB/s, or in Gbit/s of the wire."""
    for name, kind in LINKS.items():
        rate = re.search(r"([\d.]+) G(B/s|bit/s)", kind.source)
        assert rate, name
        bits = 8 if rate[2] == "bit/s" else 1
        assert float(rate[1]) * 1e9 / bits == pytest.approx(kind.link.bandwidth), name


def test_there_is_no_other_kind_of_link() -> None:
    assert "'nvlink6' is no kind of link: there are nvlink1, nvlink2" in refusal(
        link_kind, "nvlink6"
    )


def test_a_dgx1_is_what_nvidia_smi_says() -> None:
    machine = cluster("dgx1")
    heading, *rows = (line.split() for line in DGX1_MATRIX.strip().splitlines())
    names = [label.replace("GPU", "gpu").replace("mlx5_", "nic") for label in heading]
    for row, (_, *cells) in zip(names, rows, strict=True):
        for column, cell in zip(names, cells, strict=True):
            if row == column:
                assert cell == "X"
            elif cell.startswith("NV"):
                assert machine.graph.edges[row, column]["bandwidth"] == int(cell[2:]) * 20e9
            else:
                assert not machine.graph.has_edge(row, column)
                assert pcie_level(machine, row, column) == cell


@each_case("name", MACHINES)
def test_only_nvswitches_with_nvls_reduce(name: str) -> None:
    machine = MACHINES[name].node()
    names = [machine.device_names[device] for device in np.flatnonzero(machine.in_network).tolist()]
    assert names == (["nvswitch"] if name in SWITCHES_REDUCE else [])


def test_a_grace_cpu_of_nvl72_has_two_gpus_and_two_nics() -> None:
    graph = cluster("nvl72").graph
    for cpu in range(36):
        below = [f"gpu{2 * cpu}", f"gpu{2 * cpu + 1}", f"nic{2 * cpu}", f"nic{2 * cpu + 1}"]
        assert sorted(graph.successors(f"cpu{cpu}")) == below


@each_case("name", MACHINES)
def test_a_machine_says_where_its_figures_come_from(name: str) -> None:
    """A note for every kind of link that it has, each once and on one line; a summary that is a
    sentence."""
    machine = MACHINES[name].node()
    assert len(set(machine.notes)) == len(machine.notes)
    assert all("\n" not in note for note in machine.notes)
    noted = {
        LINKS[note.partition(":")[0]].kind
        for note in machine.notes
        if note.partition(":")[0] in LINKS
    }
    assert noted == set(machine.link_kinds)
    assert re.fullmatch(r"[A-Z].{30,119}\.", MACHINES[name].summary)


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


@each_case("name", MACHINES)
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


@each_case("name", MACHINES)
@each_case("count", [0, 1, 3, 9, 100])
def test_a_machine_has_as_many_nics_as_are_asked_for(name: str, count: int) -> None:
    usual, machine = MACHINES[name].node(), MACHINES[name].node(nics=count)
    assert nics_of(machine) == [f"nic{nic}" for nic in range(count)]
    assert (
        machine.links == usual.links + 2 * (count - DEVICES[name]["nic"])
        if count
        else machine.links < usual.links
    )
    assert machine.ranks == usual.ranks


def test_nics_are_shared_out_evenly() -> None:
    """12 on four switches are three on each; 6 are two, one, two, one."""
    for count, wanted in (
        (12, [3, 3, 3, 3]),
        (4, [1, 1, 1, 1]),
        (2, [1, 0, 1, 0]),
        (6, [2, 1, 2, 1]),
    ):
        graph = cluster("hgx_h100", nics=count).graph
        hosts = [
            [nic for nic in graph.successors(f"pcie{switch}") if "nic" in nic]
            for switch in range(4)
        ]
        assert list(map(len, hosts)) == wanted


@pytest.mark.parametrize("count", [-1, 1025, 10**9])
def test_a_node_has_no_such_number_of_nics(count: int) -> None:
    for name in MACHINES:
        with pytest.raises(InputError, match=f"^nics is {count}: a node has 0 to 1024 NICs$"):
            MACHINES[name].node(nics=count)
