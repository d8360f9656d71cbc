"""A damaged or doubtful topology file of NCCL is read, or refused in one line with the place."""

from pathlib import Path

import pytest

from grouped_cases import each_case
from nccl_machines import TWO, refused
from refusals import refusal
from topologies.link import LINKS
from topologies.readers.files import check_connected
from topologies.readers.nccl_xml import read_nccl_xml
from topologies.topology import Topology


@each_case(
    ("old", "new", "message"),
    [
        (
            "<system",
            "<!DOCTYPE system [<!ENTITY a 'b'>]><system",
            " line 1: a document type or an entity",
        ),
        (
            "<system",
            "<!DOCTYPE system SYSTEM 'http://localhost/x'><system",
            " line 1: a document type",
        ),
        ("<system", "<!DOCTYPE system><system", " line 1: a document type"),
        ("<system", "\n\n<system rank='0' rank='0' ", " line 3: duplicate attribute"),
        (
            '<system version="1">\n<cpu numaid="0"',
            "\n\n<system>\n<cpu numaid='?'",
            " line 4: numaid of <cpu>",
        ),
        ("<nic>", "<nic>&lol;", " line 14: undefined entity"),
        ("</system>", "", " line 21: no element found"),
        ("</cpu>", "</cpus>", " line 19: mismatched tag"),
        ("<nic>", "<nic" + "\x07>", " line 14: the character '\\x07' is not text"),
        ("</system>\n", "</system>\n<system/>", " line 21: junk after document element"),
        (TWO, "", " is empty"),
        (TWO, "<graphs version='1'/>", " line 1: the root is <graphs>: expected <system>"),
        (TWO, "<system/>", ": no GPU"),
        (TWO, "<a>" * 100_000, " line 1: more than 256 elements within each other"),
        (TWO, "<a>" + "<b/>" * 50_000 + "</a>", " line 1: more than 20000 elements"),
        (TWO, "x" * 10**8, " is larger than 16 MiB"),
        ("<nic>", "<nic><gpu/>", " line 14: a <gpu> in <nic>: it belongs in <pci>"),
        (
            "<cpu",
            "<pci busid='0:0'/><cpu",
            " line 2: a <pci> in <system>: it belongs in <cpu> or <pci>",
        ),
        ("</gpu>", "</gpu><gpu dev='7'/>", " line 6: a second <gpu> in one <pci>"),
        (
            'numaid="0" ',
            "",
            " line 2: numaid of <cpu> is missing: it is a whole number from -1 to 9999",
        ),
        ('numaid="0"', 'numaid="-2"', " line 2: numaid of <cpu> is '-2'"),
        ('modelid="85"', 'modelid="8x"', " line 2: modelid of <cpu> is '8x'"),
        ('vendor="GenuineIntel"', 'vendor="a&#10;b"', " line 2: vendor of <cpu> is 'a\\nb'"),
        ('busid="0000:01:00.0" ', "", " line 3: busid of <pci> is missing: it is a PCI bus id"),
        ('busid="0000:01:00.0"', 'busid="gpu"', " line 3: busid of <pci> is 'gpu'"),
        ('class="0x020700"', 'class="nic"', " line 13: class of <pci> is 'nic'"),
        (
            'link_speed="8 GT/s"',
            'link_speed="fast"',
            " line 3: link_speed of <pci> is 'fast': it is a rate",
        ),
        ('link_speed="8 GT/s"', 'link_speed="7 GT/s"', " line 3: link_speed of <pci> is '7 GT/s'"),
        ('link_width="16"', 'link_width="-4"', " line 3: link_width of <pci> is '-4'"),
        ('link_width="16"', 'link_width="99"', " line 3: link_width of <pci> is '99'"),
        ('dev="1" sm', 'dev="0" sm', " line 9: dev of <gpu> is '0': line 4 has it already"),
        ('rank="1"', 'rank="0"', " line 9: rank of <gpu> is '0': line 4 has it already"),
        ('rank="1"', 'rank="-1"', " line 9: rank of <gpu> is '-1'"),
        ('dev="1" sm', 'dev="9e9" sm', " line 9: dev of <gpu> is '9e9'"),
        (' sm="80" rank="0"', ' rank="0"', " line 4: sm of <gpu> is missing"),
        (
            'target="0000:02:00.0"',
            'target="0000:07:00.0"',
            " line 10: count of <nvlink> is '4': 4 to gpu0 in all, which has none back",
        ),
        (
            'target="0000:02:00.0"',
            'target="0000:03:00.0"',
            " line 5: target of <nvlink> is '0000:03:00.0'",
        ),
        ('target="0000:02:00.0" ', "", " line 5: target of <nvlink> is missing"),
        ('tclass="0x030200"', 'tclass="0x0200"', " line 5: tclass of <nvlink> is '0x0200'"),
        ('00.0" count="4"', '00.0" count="0"', " line 5: count of <nvlink> is '0'"),
        (
            '02:00.0" count="4"',
            '02:00.0" count="5"',
            " line 5: count of <nvlink> is '5': 5 to gpu1 in all, which",
        ),
        (
            '<nvlink target="0000:01:00.0" count="4" tclass="0x030200"/>\n',
            "",
            " line 5: count of <nvlink> is '4'",
        ),
        ("</gpu>", "<c2c bw='-3' count='5'/></gpu>", " line 6: bw of <c2c> is '-3'"),
        ("</gpu>", "<c2c bw='3'/></gpu>", " line 6: count of <c2c> is missing"),
        ('name="mlx5_1" ', "", " line 16: name of <net> is missing"),
        ('name="mlx5_1"', 'name=""', " line 16: name of <net> is ''"),
        (
            'name="mlx5_1"',
            'name="gpu1"',
            " line 16: name of <net> is 'gpu1': line 9 has it already",
        ),
        ('speed="100000"', 'speed="fast"', " line 15: speed of <net> is 'fast'"),
        ('speed="100000"', 'speed="-2"', " line 15: speed of <net> is '-2'"),
        ('latency="0"', 'latency="-1"', " line 15: latency of <net> is '-1'"),
        ('latency="0"', 'latency="nan"', " line 15: latency of <net> is 'nan'"),
        ('latency="0"', 'latency="soon"', " line 15: latency of <net> is 'soon'"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, message: str) -> None:
    assert old in TWO
    assert refused(TWO.replace(old, new)).startswith(f"topo.xml{message}")


def test_more_cpus_than_any_machine_has() -> None:
    cpus = "".join(f'\n<cpu numaid="{number}"/>' for number in range(300))
    assert refused(f"<system>{cpus}</system>").startswith(
        "topo.xml line 258: numaid of <cpu> is '256'"
    )


DATA = Path(__file__).parent / "data"
SELF_LINK, REPEATED = (
    (DATA / f"nccl_{name}.xml").read_text() for name in ("self_link", "repeated")
)


def read(text: str) -> Topology:
    machine = read_nccl_xml(text, "topo.xml")
    check_connected(machine, "topo.xml")
    return machine


def bandwidth(machine: Topology, source: str, target: str) -> float:
    return float(machine.bandwidth[machine.medium_names.index(f"{source}->{target}")])


def test_links_to_itself_are_those_to_the_gpu_that_has_as_many_to_it() -> None:
    machine = read(SELF_LINK)
    total = 12 * LINKS["nvlink3"].link.bandwidth
    assert bandwidth(machine, "gpu0", "gpu1") == bandwidth(machine, "gpu1", "gpu0") == total
    assert machine.link_kinds.are("nvlink").sum() == 2
    note = (
        "gpu0 has 12 links to itself: taken for those to gpu1, which has as many to it (and 1 more)"
    )
    assert note in machine.notes


@pytest.mark.parametrize("tag", ["nvlink", "xgmi"])
def test_links_to_itself_without_such_a_gpu_are_left_out(tag: str) -> None:
    lines = SELF_LINK.replace("nvlink", tag).replace('sm="80"', 'sm="80" gcn="908"').splitlines()
    machine = read("\n".join(line for line in lines if '0001:00:00.0" count' not in line))
    assert not machine.link_kinds.are("nvlink", "xgmi").any()
    assert "gpu2 has 4 links to itself: left out" in machine.notes


def test_links_to_itself_are_not_taken_for_others_than_as_many() -> None:
    text = SELF_LINK.replace('count="12"', 'count="6"', 1)
    assert refusal(read, text).startswith(
        "topo.xml line 10: count of <nvlink> is '12': 12 to gpu0 in all, which has none"
    )


def test_a_bus_id_and_a_net_device_that_are_given_twice() -> None:
    machine = read(REPEATED)
    assert machine.device_names == (
        "gpu0", "gpu1", "0000:11:00.0", "0000:13:00.0", "0000:15:00.0", "0000:13:00.0#2",
        "cpu0", "mlx5_0:1", "mlx5_0:1#2",
    )  # fmt: skip
    assert (
        bandwidth(machine, "0000:13:00.0", "mlx5_0:1")
        == bandwidth(machine, "0000:13:00.0#2", "mlx5_0:1#2")
        == 25e9
    )
    assert bandwidth(machine, "gpu0", "gpu1") == LINKS["xgmi1"].link.bandwidth, (
        "a GPU's bus id before that of a switch"
    )
    twice = (
        "bus id 0000:15:00.0 is on line 15 and again on line 16: taken for two devices (and 1 more)"
    )
    net = "net device mlx5_0:1 is on line 11 and again on line 23: the second is called mlx5_0:1#2"
    dev = "dev 0 of a net device is on line 11 and again on line 23: taken for two devices"
    assert [note for note in machine.notes if "again" in note] == [twice, net, dev]


def test_a_bus_id_of_two_gpus() -> None:
    """Which of them a link means nobody knows, unless their numbers of links tell."""
    machine = read(SELF_LINK.replace("0002:00:00.0", "0001:00:00.0"))
    assert bandwidth(machine, "gpu0", "gpu1") == 12 * LINKS["nvlink3"].link.bandwidth
    assert (
        "bus id 0001:00:00.0 is on line 3 and again on line 8: taken for two devices"
        in machine.notes
    )


def test_links_to_a_bus_id_of_two_gpus_that_do_not_match_are_left_out() -> None:
    third = '<nvlink target="0003:00:00.0" count="{}" tclass="0x030200"/>'
    two_of_one_id = SELF_LINK.replace("0004:00:00.0", "0003:00:00.0")
    machine = read(two_of_one_id.replace('rank="1">', f'rank="1">{third.format(4)}'))
    assert machine.link_kinds.are("nvlink").sum() == 4, (
        "gpu2's links to itself are taken for those to gpu1"
    )
    machine = read(two_of_one_id.replace('rank="1">', f'rank="1">{third.format(3)}'))
    assert machine.link_kinds.are("nvlink").sum() == 2
    assert (
        "links from gpu1 to gpu2, of which several GPUs have the bus id, are left out"
        in machine.notes
    )


def test_hosts_of_one_file_may_have_the_same_bus_ids() -> None:
    text = (DATA / "nccl_rack.xml").read_text()
    assert not any("again" in note for note in read(text).notes)


def test_many_repetitions_make_one_note() -> None:
    nets = "".join(f'<net name="mlx5_0" dev="{k}" speed="200000" port="1"/>' for k in range(2, 40))
    notes = read(REPEATED.replace("<nic>", f"<nic>{nets}", 1)).notes
    assert sum("net device" in note and "called" in note for note in notes) == 1
    assert any(note.endswith("the second is called mlx5_0:1#2 (and 38 more)") for note in notes)
