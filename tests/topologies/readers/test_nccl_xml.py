"""A topology file of NCCL or RCCL: devices, links and figures as the file says them, or a refusal
naming the line."""

from collections import Counter
from pathlib import Path

import numpy as np

from grouped_cases import each_case
from nccl_machines import TWO, refused
from topologies.link import LINKS
from topologies.readers.nccl_xml import looks_like, read_nccl_xml
from topologies.topology import Topology

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.glob("nccl_*"))
MEASURED = Path(__file__).parents[4] / "shared/measured/nccl_xml"
SAMPLES = [path for path in sorted(MEASURED.glob("*.xml")) if path.name != "aws_g5_48xl_8xa10g.xml"]


def machine_of(file: str) -> Topology:
    return read_nccl_xml((DATA / file).read_text(), file)


def link(machine: Topology, start: str, end: str) -> tuple[float, float, str, bool]:
    """β, α, kind, and whether β is assumed, of a link that is the same in both directions."""
    forth, back = (machine.medium_names.index(f"{a}->{b}") for a, b in ((start, end), (end, start)))
    figures = [
        (
            float(machine.bandwidth[k]),
            float(machine.latency[k]),
            machine.link_kinds[k],
            bool(machine.assumed[k]),
        )
        for k in (forth, back)
    ]
    assert figures[0] == figures[1]
    return figures[0]


def placed(machine: Topology) -> list[str]:
    return [machine.device_names[device] for device in machine.placement]


def check_routes(machine: Topology) -> None:
    """From every rank to every other, by way of no third GPU."""
    ends = np.array(
        [(a, b) for a in range(machine.ranks) for b in range(machine.ranks) if a != b]
    ).reshape(-1, 2)
    indptr, links = machine.routes(ends[:, 0], ends[:, 1])
    inner = np.setdiff1d(np.arange(len(links)), indptr[1:] - 1)
    assert not np.isin(machine.target[links[inner]], machine.placement).any()


@each_case("path", [*FILES, *SAMPLES])
def test_every_gpu_reaches_every_other(path: Path) -> None:
    text = path.read_text()
    machine = read_nccl_xml(text, path.name)
    assert machine.name == path.name
    assert looks_like(text)
    assert machine.device_kinds.are("gpu").sum() == machine.ranks
    assert machine.device_kinds.are("port").sum() == text.count("<net ")
    assert machine.notes
    check_routes(machine)


@each_case("path", SAMPLES)
def test_real_files_have_all_their_parts(path: Path) -> None:
    text = path.read_text()
    machine = read_nccl_xml(text, path.name)
    kinds = Counter(machine.device_kinds)
    assert kinds["gpu"] == (text.count("<gpu ") or text.count('class="0x0302'))
    assert kinds["pcie switch"] == text.count('class="0x0604')
    assert machine.link_kinds.are("xgmi").sum() == text.count("<xgmi ")
    assert kinds["nic"] == text.count('class="0x02') + text.count("\n    <nic>")
    assert kinds["cpu"] == text.count("<cpu ")
    assert machine.link_kinds.are("upi").sum() == kinds["cpu"] * (kinds["cpu"] - 1)


def test_devices_without_a_class_are_no_gpus() -> None:
    """Some files that clouds hand out leave it to NCCL to look at the machine itself."""
    bare = [f'<pci busid="0000:00:{number:02x}.0"/>' for number in range(0x15, 0x1E)]
    cpus = f'<cpu numaid="0">{"".join(bare[:4])}</cpu><cpu numaid="1">{"".join(bare[4:])}</cpu>'
    assert looks_like(f"<system>{cpus}</system>")
    assert refused(f"<system>{cpus}</system>").endswith(
        ": no GPU: expected a <gpu>, or a <pci> of class 0x03 or 0x12, as in what "
        "NCCL_TOPO_DUMP_FILE writes (9 <pci> have no class)"
    )
    labelled = cpus.replace('15.0"', '15.0" class="0x030200"').replace(
        '1d.0"', '1d.0" class="0x12"'
    )
    machine = read_nccl_xml(f"<system>{labelled}</system>", "x.xml")
    assert Counter(machine.device_kinds) == {"gpu": 2, "cpu": 2}


def test_links_to_gpus_that_are_not_in_the_file_are_left_out() -> None:
    text = TWO.replace('target="0000:02:00.0"', 'target="0000:07:00.0"').replace(
        '<nvlink target="0000:01:00.0" count="4" tclass="0x030200"/>\n', ""
    )
    machine = read_nccl_xml(text, "job.xml")
    assert "nvlink" not in set(machine.link_kinds)
    assert any(
        note.startswith("4 links lead to GPUs that are not in the file") for note in machine.notes
    )


@each_case(
    ("net", "kind"),
    [
        ("mlx5_7", "roce"),
        ("bnxt_re3", "roce"),
        ("rocep24s0f1", "roce"),
        ("cxi0", "slingshot"),
        ("eno1", "ethernet"),
    ],
)
def test_names_of_nets_tell_their_network(net: str, kind: str) -> None:
    text = (DATA / "nccl_hgx.xml").read_text().replace('"eth0"', f'"{net}"')
    assert link(read_nccl_xml(text, "job.xml"), "0000:22:00.0", net)[2] == kind


def test_pcie_nvswitch_ports_and_ranks() -> None:
    machine = machine_of("nccl_hgx.xml")
    assert Counter(machine.device_kinds) == {
        "gpu": 2,
        "nic": 2,
        "cpu": 2,
        "port": 3,
        "pcie switch": 2,
        "nvswitch": 1,
    }
    assert placed(machine) == ["gpu1", "gpu0"]
    pcie = LINKS["pcie5"].link.latency
    assert link(machine, "gpu0", "0000:10:00.0") == (48e9, pcie, "pcie", False)
    assert link(machine, "0000:10:00.0", "cpu0") == (48e9, 0.0, "pcie", False)
    assert link(machine, "0000:12:00.0", "0000:10:00.0") == (8 * 1.5e9, pcie, "pcie", False)
    assert link(machine, "0000:22:00.0", "0000:20:00.0") == (4 * 0.375e9, pcie, "pcie", False)
    assert link(machine, "gpu0", "nvswitch") == (18 * 20.6e9, 0.3e-6, "nvlink", True)
    assert link(machine, "cpu0", "cpu1") == (22e9, 0.1e-6, "upi", True)
    assert link(machine, "0000:12:00.0", "mlx5_0") == (50e9, LINKS["ndr"].link.latency, "ib", False)
    assert link(machine, "0000:22:00.0", "rdmap34s0") == (25e9, 75e-6, "ethernet", False)
    assert link(machine, "0000:22:00.0", "eth0") == (
        1.25e9,
        LINKS["ethernet10"].link.latency,
        "ethernet",
        True,
    )
    assert machine.in_network[machine.device_names.index("nvswitch")]
    assert set(machine.node.tolist()) == {0}
    assert any(
        "upi3 assumed, as usual for GenuineIntel x86_64, family 6 model 143" in note
        for note in machine.notes
    )


def test_direct_links_to_gpus_and_cpus_count_once() -> None:
    machine = machine_of("nccl_direct.xml")
    assert Counter(machine.device_kinds) == {"gpu": 4, "nic": 1, "cpu": 2, "port": 2}
    assert placed(machine) == ["gpu0", "gpu1", "gpu2", "gpu3"]
    assert link(machine, "gpu0", "gpu1") == (3 * 20e9, 0.6e-6, "nvlink", True)
    assert link(machine, "gpu0", "cpu-1") == (3 * 20e9, LINKS["c2c"].link.latency, "nvlink", True)
    assert link(machine, "gpu1", "cpu-1")[0::3] == (12e9, True)
    assert link(machine, "gpu2", "cpu8")[0::3] == (12e9, True)
    assert link(machine, "gpu3", "cpu8")[0::3] == (12e9, False)
    assert link(machine, "cpu-1", "cpu8")[0] == LINKS["power"].link.bandwidth
    assert link(machine, "nic0", "mlx5_0:2")[0::3] == (12.5e9, False)
    assert "PCIe is left out where a GPU reaches the same CPU by C2C or NVLink" in machine.notes


def test_xgmi_and_a_speed_beyond_belief() -> None:
    machine = machine_of("nccl_xgmi.xml")
    assert placed(machine) == ["gpu1", "gpu3"]
    assert link(machine, "gpu1", "gpu3") == (48e9, 0.6e-6, "xgmi", True)
    assert link(machine, "cpu0", "cpu1")[0] == LINKS["fabric"].link.bandwidth
    assert link(machine, "0000:01:00.0", "cxi0")[0] == 25e12
    assert any(
        note.startswith("cxi0: 200000000 Mbit/s is what the file says") for note in machine.notes
    )


def test_classes_alone_describe_a_machine_without_nvlinks() -> None:
    machine = machine_of("nccl_classes.xml")
    assert Counter(machine.device_kinds) == {"gpu": 2, "nic": 1, "cpu": 2, "pcie switch": 1}
    assert link(machine, "gpu1", "ffff:ff:01.0")[0::3] == (24e9, False)
    assert any("says nothing of NVLinks" in note for note in machine.notes)
    assert any("no <net>" in note for note in machine.notes)
    assert machine.route(0, 1) == (
        machine.medium_names.index("gpu0->ffff:ff:01.0"),
        machine.medium_names.index("ffff:ff:01.0->gpu1"),
    )


def test_several_hosts_share_nvswitches() -> None:
    machine = machine_of("nccl_rack.xml")
    assert placed(machine) == ["node0.gpu0", "node1.gpu0"]
    assert link(machine, "node0.gpu0", "node0.cpu0") == (
        5 * 44.712e9,
        LINKS["c2c"].link.latency,
        "c2c",
        False,
    )
    assert link(machine, "node1.gpu0", "node1.0008:05:00.0")[0] == 16 * 6e9
    assert link(machine, "node1.gpu0", "nvswitch")[0] == 18 * LINKS["nvlink5"].link.bandwidth
    assert dict(zip(machine.device_names, machine.node.tolist(), strict=True)) | {
        "nvswitch": -1
    } == {
        "node0.gpu0": 0,
        "node1.gpu0": 1,
        "node1.0008:05:00.0": 1,
        "node0.cpu0": 0,
        "node1.cpu0": 1,
        "nvswitch": -1,
    }


@each_case(
    ("sm", "kind"),
    [
        (60, "nvlink1"),
        (70, "nvlink2"),
        (80, "nvlink3"),
        (86, "nvlink3"),
        (90, "nvlink4"),
        (103, "nvlink5"),
    ],
)
def test_the_nvlinks_of_a_gpu(sm: int, kind: str) -> None:
    machine = read_nccl_xml(TWO.replace('sm="80"', f'sm="{sm}"'), "topo.xml")
    assert link(machine, "gpu0", "gpu1") == (
        4 * LINKS[kind].link.bandwidth,
        LINKS[kind].link.latency,
        "nvlink",
        True,
    )
    assert any(
        note.startswith(f"NVLink: {kind} assumed, as usual for sm {sm}") for note in machine.notes
    )


@each_case(
    ("gcn", "kind"),
    [
        ("906", "xgmi1"),
        ("gfx908", "xgmi1"),
        ("gfx90a:xnack-", "xgmi2"),
        ("910", "xgmi2"),
        ("940", "xgmi3"),
        ("x", "xgmi3"),
    ],
)
def test_the_xgmi_of_a_gpu(gcn: str, kind: str) -> None:
    machine = read_nccl_xml(
        TWO.replace("nvlink", "xgmi").replace('sm="80"', f'gcn="{gcn}"'), "topo.xml"
    )
    assert link(machine, "gpu0", "gpu1")[0] == 4 * LINKS[kind].link.bandwidth


@each_case(
    ("cpu", "kind"),
    [
        ('vendor="GenuineIntel" familyid="6" modelid="79"', "qpi"),
        ('vendor="GenuineIntel" familyid="6" modelid="85"', "upi2"),
        ('vendor="GenuineIntel" familyid="6" modelid="143"', "upi3"),
        ('vendor="GenuineIntel" familyid="6" modelid="207"', "upi4"),
        ('vendor="AuthenticAMD" familyid="175" modelid="1"', "fabric"),
        ('arch="ppc64le"', "power"),
        ('arch="arm64"', "arm"),
        ("", "qpi"),
    ],
)
def test_the_link_between_cpus(cpu: str, kind: str) -> None:
    text = (
        f'<system><cpu numaid="0" {cpu}><pci busid="01:00.0" class="0x03"/></cpu><cpu numaid="1" '
        f"{cpu}/></system>"
    )
    machine = read_nccl_xml(text, "topo.xml")
    assert link(machine, "cpu0", "cpu1") == (
        LINKS[kind].link.bandwidth,
        LINKS[kind].link.latency,
        "upi",
        True,
    )
    assert link(read_nccl_xml(text, "topo.xml", socket="upi4"), "cpu0", "cpu1")[0] == 40e9


@each_case(
    ("speed", "width", "bandwidth"),
    [
        ("2.5 GT/s PCIe", "16", 3e9),
        ("5.0 GT/s PCIe", "16", 6e9),
        ("8.0 GT/s PCIe", "16", 12e9),
        ("16 GT/s", "16", 24e9),
        ("32.0 GT/s PCIe", "8", 24e9),
        ("64.0 GT/s PCIe", "16", 96e9),
    ],
)
def test_pcie_as_nccl_counts_it(speed: str, width: str, bandwidth: float) -> None:
    text = TWO.replace('"8 GT/s" link_width="16"', f'"{speed}" link_width="{width}"')
    assert link(read_nccl_xml(text, "topo.xml"), "gpu0", "cpu0")[0::3] == (bandwidth, False)


@each_case(
    ("attributes", "bandwidth"),
    [
        ("", 24e9),
        ('link_speed="" link_width="0"', 24e9),
        ('link_speed="Unknown" link_width="255"', 24e9),
        ('link_width="8"', 12e9),
        ('link_speed="32.0 GT/s PCIe"', 48e9),
    ],
)
def test_pcie_of_which_the_file_says_too_little_is_assumed(
    attributes: str, bandwidth: float
) -> None:
    text = TWO.replace('link_speed="8 GT/s" link_width="16"', attributes)
    machine = read_nccl_xml(text, "topo.xml", pcie="pcie4")
    assert link(machine, "gpu0", "cpu0")[0::3] == (bandwidth, True)
    assert any("pcie4 assumed, on 3 links" in note for note in machine.notes)


def test_kinds_can_be_given() -> None:
    assert link(read_nccl_xml(TWO, "topo.xml", nvlink="nvlink4"), "gpu0", "gpu1")[0] == 4 * 20.6e9
    assert "there are nvlink1, nvlink2" in refused(TWO, nvlink="pcie4")
    assert "'warp' is no kind of link" in refused(TWO, pcie="warp")


@each_case(
    ("old", "new"),
    [
        (
            '<system version="1">',
            '\ufeff\n\n<?xml version="1.0" encoding="utf-16"?>\n<system lang="ü">',
        ),
        ('tclass="0x030200"', ""),
        ("0000:02:00.0", "0000:AB:00.0"),
        (' rank="0"', ""),
        (' rank="1"', ' rank=""'),
        ("<nic>", "<nic><gin dev='0'><net/></gin></nic><nic>"),
        ('port="1"', 'port="1" keep="1"'),
        ("</cpu>", "<pci busid='0000:09:00.0' class='0x010802'/></cpu>"),
    ],
)
def test_the_same_machine_in_other_words(old: str, new: str) -> None:
    assert old in TWO
    as_dumped, reworded = (
        read_nccl_xml(TWO, "topo.xml"),
        read_nccl_xml(TWO.replace(old, new), "topo.xml"),
    )
    assert reworded.device_names == as_dumped.device_names
    assert (reworded.bandwidth == as_dumped.bandwidth).all()
    assert placed(reworded) == placed(as_dumped)


def test_what_looks_like_a_topology_file() -> None:
    assert looks_like(" \n<?xml version='1.0'?><!-- a --><system version='1'>")
    assert looks_like("<graphs version='1'>")
    assert not looks_like(
        "<graphml xmlns='http://graphml.graphdrawing.org/xmlns'><graph/></graphml>"
    )
    assert not looks_like("the <system> is down")
    assert not looks_like("")
