"""A damaged or doubtful topology file of NCCL is read, or refused in one line with the place."""

from pathlib import Path

import pytest

from grouped_cases import each_case
from nccl_machines import TWO, refused
from refusals import changes_of, refusal
from topologies.link import LINKS
from topologies.readers.files import check_connected
from topologies.readers.nccl_xml import read_nccl_xml
from topologies.topology import Topology


@each_case(
    ("old", "new", "message"),
    [
        *changes_of("topology of NCCL"),
        (TWO, "", " is empty"),
        (TWO, "<graphs version='1'/>", " line 1: the root is <graphs>: expected <system>"),
        (TWO, "<system/>", ": no GPU"),
        (TWO, "<a>" * 100_000, " line 1: more than 256 elements within each other"),
        (TWO, "<a>" + "<b/>" * 50_000 + "</a>", " line 1: more than 20000 elements"),
        (TWO, "x" * 10**8, " is larger than 16 MiB"),
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


def test_a_machine_that_cannot_be_built_names_its_file() -> None:
    """A damaged file has two GPUs at one place, each linked to what is there."""
    link = '<nvlink target="0001:00:00.0" count="12" tclass="0x030200"/>'
    one, two = (f'<gpu dev="{k}" sm="80" rank="{k}">{link}</gpu>' for k in (0, 1))
    pci = '<pci busid="0001:00:00.0" class="0x030200">'
    text = f'<system><cpu numaid="0">{pci}{pci}{one}</pci>{two}</pci></cpu></system>'
    assert refused(text).startswith("topo.xml: link gpu0->gpu1 is there twice")


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
