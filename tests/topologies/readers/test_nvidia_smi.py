"""A matrix of nvidia-smi topo -m: its machine has devices as far apart as the matrix says."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from smi_matrices import PAIR, refused, rendered
from topologies.link import LINKS
from topologies.readers.matrix import parse
from topologies.readers.nvidia_smi import looks_like, read_matrix
from topologies.topology import Topology

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.glob("smi_*"))
SAMPLES = sorted((Path(__file__).parents[4] / "shared/measured/topo_m").glob("*.txt"))
LEVELS = ("PIX", "PXB", "PHB", "NODE", "SYS")


def machine_of(file: str) -> Topology:
    return read_matrix((DATA / file).read_text(), file)


def everywhere(machine: Topology) -> Topology:
    """The same machine with a rank on every device."""
    return replace(machine, placement=np.arange(len(machine.device_names), dtype=np.int32))


def crossed(machine: Topology, source: str, target: str) -> tuple[Counter[str], Counter[str]]:
    """The kinds of devices between two, and of the links."""
    names = machine.device_names
    route = everywhere(machine).route(names.index(source), names.index(target))
    between = Counter(machine.device_kinds[int(machine.target[link])] for link in route[:-1])
    return between, Counter(machine.link_kinds[link] for link in route)


def agrees(word: str, between: Counter[str], links: Counter[str]) -> bool:
    """Whether a route is what a cell says. The host bridge is the CPU where a CPU has only one."""
    hosts = between["cpu"] + between["bridge"]
    if word.startswith("NV"):
        return set(links) == {"nvlink"}
    if links["nvlink"] or between["gpu"] or between["nic"]:
        return False
    return {
        "PIX": between["pcie switch"] == 1 and not hosts,
        "PXB": between["pcie switch"] > 1 and not hosts,
        "PHB": hosts == 1 and not links["upi"],
        "NODE": between["cpu"] == 1 and between["bridge"] == 2 and not links["upi"],
        "SYS": links["upi"] == 1,
        "NS": True,
    }[word]


def beta(machine: Topology, source: str, target: str) -> float:
    link = machine.medium_names.index(f"{source}->{target}")
    assert machine.assumed[link]
    return float(machine.medium_bandwidth[link])


@pytest.mark.parametrize("path", [*FILES, *SAMPLES], ids=lambda path: path.name)
def test_routes_are_what_the_matrix_says(path: Path) -> None:
    text = path.read_text()
    matrix, machine = parse(text, path.name), read_matrix(text, path.name)
    assert machine.name == path.name
    assert looks_like(text)
    assert machine.ranks == len(matrix.gpus)
    assert machine.assumed.all()
    assert set(machine.node.tolist()) == {0}
    for row, column in combinations(range(len(matrix.names)), 2):
        ends = matrix.names[row], matrix.names[column]
        assert agrees(matrix.text(row, column), *crossed(machine, *ends)), (
            ends,
            matrix.text(row, column),
        )


def test_every_level_and_the_legend() -> None:
    machine = machine_of("smi_every_level.txt")
    assert Counter(machine.device_kinds) == {
        "gpu": 6,
        "nic": 2,
        "cpu": 2,
        "bridge": 2,
        "pcie switch": 4,
    }
    assert machine.device_names[6:8] == ("bnxt_re0", "mlx5_bond_0")
    assert [machine.device_names[device] for device in machine.placement] == [
        f"gpu{rank}" for rank in range(6)
    ]
    # bridge0 carries a switch over two switches, and one GPU; bridge1 one GPU.
    assert beta(machine, "bridge0", "cpu0") == 2 * LINKS["pcie4"].link.bandwidth
    assert beta(machine, "bridge1", "cpu0") == LINKS["pcie4"].link.bandwidth
    assert beta(machine, "cpu0", "cpu1") == LINKS["fabric"].link.bandwidth
    assert machine.notes[0].startswith("PCIe: pcie4 assumed")


def test_sixteen_gpus_on_an_nvswitch() -> None:
    machine = machine_of("smi_16_nvswitch.txt")
    assert Counter(machine.device_kinds) == {
        "gpu": 16,
        "nic": 2,
        "cpu": 2,
        "bridge": 18,
        "nvswitch": 1,
    }
    assert beta(machine, "gpu3", "nvswitch") == 6 * 20e9
    route = machine.route(0, 15)
    assert len(route) == 2
    assert machine.latency[list(route)].sum() == LINKS["nvlink2"].link.latency
    assert "nvlink2 assumed, as the matrix shows 6 links a GPU" in machine.notes[0]
    assert LINKS["nvlink2"].source in machine.notes[0]
    assert crossed(machine, "gpu0", "hfi1_1")[1]["upi"] == 1


def test_a_cube_mesh_has_direct_links_and_rows_of_nics_may_be_missing() -> None:
    machine = machine_of("smi_cube_mesh.txt")
    assert Counter(machine.device_kinds) == {"gpu": 8, "nic": 4, "cpu": 2, "pcie switch": 4}
    assert beta(machine, "gpu0", "gpu1") == 20e9
    assert beta(machine, "gpu0", "gpu3") == beta(machine, "gpu3", "gpu0") == 40e9
    assert machine.link_kinds.are("nvlink").sum() == 2 * 16
    # SOC: through switches and both CPUs, and not by way of a third GPU that has NVLinks to both.
    assert crossed(machine, "gpu0", "gpu5") == ({"pcie switch": 2, "cpu": 2}, {"pcie": 4, "upi": 1})


def test_markdown_names_cpus_by_numa_node() -> None:
    machine = machine_of("smi_markdown.md")
    assert machine.device_names == (
        "gpu0",
        "gpu1",
        "gpu2",
        "gpu3",
        "cxi0",
        "cpu1",
        "cpu0",
        "cpu3",
        "cpu2",
    )
    assert beta(machine, "gpu0", "gpu3") == 4 * LINKS["nvlink3"].link.bandwidth
    assert crossed(machine, "gpu1", "cxi0")[0] == {"cpu": 1}


def test_wrapped_rows_and_four_gpus_with_more_links_than_a_gpu_has() -> None:
    machine = machine_of("smi_wrapped.txt")
    assert Counter(machine.device_kinds) == {
        "gpu": 4,
        "nic": 2,
        "cpu": 2,
        "bridge": 6,
        "nvswitch": 1,
    }
    assert beta(machine, "gpu0", "nvswitch") == 18 * LINKS["nvlink4"].link.bandwidth
    assert machine.in_network[machine.device_names.index("nvswitch")]


def test_peer_matrices_say_nothing_of_the_way() -> None:
    machine = machine_of("smi_peer.txt")
    assert Counter(machine.device_kinds) == {"gpu": 3, "cpu": 1, "bridge": 3}
    assert any("NS and OK" in note for note in machine.notes)
    assert any("no affinities" in note for note in machine.notes)


def test_affinity_tells_cpus_apart_where_nvlinks_hide_pcie() -> None:
    rows = [
        f"GPU{k} " + " ".join("X" if k == j else "NV12" for j in range(6)) + f" {k // 3}-{k // 3}"
        for k in range(6)
    ]
    heading = " ".join(f"GPU{k}" for k in range(6))
    machine = read_matrix("\n".join([f"{heading} CPU Affinity NUMA", *rows]), "plain.txt")
    assert machine.device_kinds.are("cpu").sum() == 2
    silent = read_matrix(
        "\n".join([heading, *(row.rpartition(" ")[0] for row in rows)]), "plain.txt"
    )
    assert silent.device_kinds.are("cpu").sum() == 1


@each_case(
    ("pairs", "kind"),
    [
        ({(0, 1): 1, (0, 2): 1, (0, 3): 1, (1, 2): 1, (2, 3): 1, (0, 4): 1}, "nvlink1"),
        ({(0, 1): 2}, "nvlink2"),
        ({(0, 1): 3}, "nvlink2"),
        ({(0, 1): 4}, "nvlink3"),
        ({(0, 1): 12}, "nvlink3"),
        ({(0, 1): 6, (0, 2): 6, (1, 2): 6}, "nvlink3"),
        ({(0, 1): 6, (0, 2): 6, (0, 3): 6, (1, 2): 6, (1, 3): 6, (2, 3): 6}, "nvlink4"),
        ({(0, 1): 18}, "nvlink4"),
    ],
)
def test_the_generation_follows_from_the_links_of_a_gpu(
    pairs: dict[tuple[int, int], int], kind: str
) -> None:
    count = max(map(max, pairs)) + 1
    words = [[_nvlinks(pairs, row, column) for column in range(count)] for row in range(count)]
    machine = read_matrix(rendered([f"GPU{k}" for k in range(count)], words), "bridges.txt")
    assert not machine.device_kinds.are("nvswitch").any()
    assert f"NVLink: {kind} assumed" in machine.notes[0]
    for (row, column), links in pairs.items():
        assert beta(machine, f"gpu{row}", f"gpu{column}") == links * LINKS[kind].link.bandwidth


def _nvlinks(pairs: dict[tuple[int, int], int], row: int, column: int) -> str:
    links = pairs.get((min(row, column), max(row, column)))
    return "X" if row == column else f"NV{links}" if links else "SYS"


@pytest.mark.parametrize(("gpus", "switches"), [(4, 0), (5, 1)])
def test_more_than_four_gpus_alike_have_an_nvswitch(gpus: int, switches: int) -> None:
    words = [["X" if row == column else "NV2" for column in range(gpus)] for row in range(gpus)]
    machine = read_matrix(rendered([f"GPU{k}" for k in range(gpus)], words), "alike.txt")
    assert machine.device_kinds.are("nvswitch").sum() == switches


def test_kinds_can_be_given() -> None:
    text = (DATA / "smi_cube_mesh.txt").read_text()
    machine = read_matrix(text, "p100", nvlink="nvlink1", socket="qpi")
    assert beta(machine, "gpu0", "gpu1") == LINKS["nvlink1"].link.bandwidth
    assert beta(machine, "cpu0", "cpu1") == LINKS["qpi"].link.bandwidth
    assert beta(machine, "gpu0", "pcie0") == LINKS["pcie3"].link.bandwidth
    assert (
        beta(read_matrix(text, "new", pcie="pcie5"), "gpu0", "pcie0")
        == LINKS["pcie5"].link.bandwidth
    )
    assert "there are nvlink1, nvlink2" in refused(text, nvlink="pcie3")
    assert "'warp' is no kind of link" in refused(text, socket="warp")


@each_case(
    ("old", "new"),
    [
        ("\n", "\r\n"),
        ("\t", " \xa0 "),
        ("\tGPU0\t", "\x1b[4m\tGPU0\t\x1b[0m"),
        ("\tGPU0\tGPU1", "\n\nuser$ nvidia-smi topo -m\n\tGPU0\tGPU1"),
        ("GPU0\t X ", "rank 0: GPU0\t X "),
        ("PIX\tPXB", "PIXPXB"),
        ("PIX", "PSB"),
        ("\nGPU1", "\n\n\nGPU1"),
        ("mlx5_0\tPXB\tPXB\t X \n", ""),
        ("mlx5_0\tPXB\tPXB\t X \n", "mlx5_0 is the HCA; NV18 and OK are words.\n"),
        ("GPU0\t X \tPIX\tPXB", "GPU0\t X \n\tPIX\n\tPXB"),
    ],
)
def test_the_same_matrix_however_it_was_copied(old: str, new: str) -> None:
    assert old in PAIR
    as_printed, copied = parse(PAIR, "a"), parse(PAIR.replace(old, new), "a")
    assert copied.names == as_printed.names
    assert (copied.level == as_printed.level).all()


@each_case("file", ["smi_every_level.txt", "smi_16_nvswitch.txt", "smi_cube_mesh.txt"])
@each_case("width", [60, 66, 67, 80, 83, 100, 101, 102, 103, 120])
def test_a_terminal_may_break_lines_anywhere(file: str, width: int) -> None:
    text = (DATA / file).read_text().replace("\x1b[4m", "").replace("\x1b[0m", "").expandtabs(8)
    broken = [
        line[k : k + width] for line in text.split("\n") for k in range(0, max(1, len(line)), width)
    ]
    whole, again = parse(text, file), parse("\n".join(broken), file)
    assert again.columns == whole.columns
    assert (again.level == whole.level).all()
    assert (again.nvlinks == whole.nvlinks).all()


@st.composite
def matrices(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    """Devices in a tree of CPUs, bridges and switches, with NVLinks between some GPUs."""
    gpus, nics = draw(st.integers(1, 6)), draw(st.integers(0, 3))
    labels = [f"GPU{k}" for k in range(gpus)] + [f"NIC{k}" for k in range(nics)]
    places = [draw(st.tuples(*[st.integers(0, 1)] * 4)) for _ in labels]
    pairs = st.tuples(st.integers(0, gpus - 1), st.integers(0, gpus - 1))
    links = {
        tuple(sorted(pair)): count
        for pair, count in draw(st.dictionaries(pairs, st.integers(1, 9))).items()
    }
    return labels, [
        [
            "X"
            if row == column
            else f"NV{links[key]}"
            if (key := tuple(sorted((row, column)))) in links
            else _word(*ends)
            for column, ends in enumerate((place, far) for far in places)
        ]
        for row, place in enumerate(places)
    ]


def _word(place: tuple[int, ...], far: tuple[int, ...]) -> str:
    shared = next((level for level in range(4) if place[level] != far[level]), 4)
    return LEVELS[4 - shared]


@given(matrices(), st.sampled_from(("\t", "   ", " | ")))
def test_any_consistent_matrix_has_a_machine_that_agrees(
    matrix: tuple[list[str], list[list[str]]], separator: str
) -> None:
    labels, words = matrix
    machine = read_matrix(rendered(labels, words, separator), "topo.txt")
    for row, column in combinations(range(len(labels)), 2):
        ends = labels[row].lower(), labels[column].lower()
        assert agrees(words[row][column], *crossed(machine, *ends)), (ends, words[row][column])


@each_case(
    ("old", "new", "message"),
    [
        (
            "PIX\tPXB",
            "PIZ\tPXB",
            " line 2, column GPU1: 'PIZ' is no link: NV#, PIX, PXB, PHB, NODE, SYS, X or NS",
        ),
        ("PIX\tPXB", "NV0\tPXB", " line 2, column GPU1: 'NV0' is no link"),
        ("GPU1\tPIX", "GPU1\t" + "Q" * 99, " line 3, column GPU0: 'QQQ"),
        ("GPU1\tPIX\t X \tPXB\n", "", ": the row of GPU1 is missing"),
        ("PIX\tPXB", "\tPXB", " line 2, column GPU1: the cell is empty"),
        ("PIX\tPXB\n", "PIX\n", " line 2, column mlx5_0: the row of GPU0 ends before it"),
        ("PIX\tPXB\n", "PIX\tPXB\tPXB\n", " line 2: the row of GPU0 has more than 3 cells"),
        (
            "GPU0\t X \tPIX",
            "GPU0\t X \tPHB",
            ": PHB at line 2, column GPU1, but PIX at line 3, column GPU0",
        ),
        (
            "GPU0\t X \tPIX",
            "GPU0\tPIX\t X ",
            " line 2, column GPU0: PIX in the row of GPU0: X is right where",
        ),
        ("GPU1\tPIX\t X ", "GPU0\tPIX\t X ", " line 3: a second row of GPU0, see line 2"),
        ("GPU0\tGPU1", "GPU0\tGPU0", " line 1: column GPU0 is there twice"),
        ("GPU0\tGPU1", "GPU0\t" + "x" * 70, " line 1: 'xxx"),
        ("PXB", "NV2", " line 2, column mlx5_0: NV2: NVLinks join GPUs only"),
        ("mlx5_0", "cpu0", ": device 'cpu0' is there twice"),
        ("mlx5_0", "gpu0", ": two columns are the device gpu0"),
        ("\tGPU0\tGPU1\tmlx5_0\n", "", " line 1: a row without a heading"),
        (PAIR, "GPU0 is fast\n", ": no matrix of nvidia-smi topo -m"),
        (PAIR, "", ": no matrix of nvidia-smi topo -m"),
        (PAIR, "x" * 10**8, " is larger than 16 MiB"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, message: str) -> None:
    assert old in PAIR
    assert refused(PAIR.replace(old, new)).startswith(f"topo.txt{message}")


def test_devices_are_no_further_apart_than_by_way_of_a_third() -> None:
    words = [["X", "PIX", "SYS"], ["PIX", "X", "PIX"], ["SYS", "PIX", "X"]]
    message = refused(rendered(["GPU0", "GPU1", "GPU2"], words))
    assert message.startswith("topo.txt line 2, column GPU2: SYS, but by way of others it is PIX")


def test_more_devices_than_any_machine_has() -> None:
    labels = [f"GPU{k}" for k in range(600)]
    assert "600 columns" in refused("\t".join(labels) + "\nGPU0\tX\n")
