"""Hosts of `topology.conf` and of `nvidia-smi -q`."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refusal
from topologies.columns import places_in_groups
from topologies.errors import InputError
from topologies.readers.placements import MOST_HOSTS, host_names, read_hosts

TREE = """# two leaves
SwitchName=leaf1 Nodes=n[01-03] LinkSpeed=100
switchname=leaf2 \\
    nodes=n[10,12-13],m1   # the second
SwitchName=spine Switches=leaf[1-2]
SwitchName=core Switches=spine
"""
UUID = "b1c2d3e4-0000-4000-8000-00000000000"


def written(folder: Path, text: str) -> str:
    path = folder / "hosts.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


def log(uuid: str, clique: int = 32766, gpus: int = 4) -> str:
    """`nvidia-smi -q` of a host, as driver 570 prints it, without what nobody reads."""
    fabric = (
        f"GPU 00000008:01:00.0\n    Product Name              : NVIDIA GB200\n    Fabric\n"
        f"        State                 : Completed\n        Status                : Success\n"
        f"        CliqueId              : {clique}\n        ClusterUUID           : {uuid}\n"
        f"        Health\n            Bandwidth         : N/A\n"
    )
    head = f"\n==============NVSMI LOG==============\n\nAttached GPUs             : {gpus}\n"
    return head + fabric * gpus


def test_a_tree_tells_leaves_and_levels(tmp_path: Path) -> None:
    hosts = read_hosts(written(tmp_path, TREE))
    assert hosts.names == ("n01", "n02", "n03", "n10", "n12", "n13", "m1")
    assert hosts.group.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert (hosts.size, hosts.noun, hosts.gpus, hosts.levels) == (4, "leaf", None, 3)


def test_chosen_hosts_keep_their_order(tmp_path: Path) -> None:
    hosts = read_hosts(written(tmp_path, TREE), "m1,n[02-03]")
    assert hosts.names == ("m1", "n02", "n03")
    assert hosts.group.tolist() == [1, 0, 0]
    assert hosts.grouped().names == ("n02", "n03", "m1")
    assert hosts.packed(4).group.tolist() == [0, 0, 0]
    assert places_in_groups(hosts.group).tolist() == [0, 0, 1]


def test_blocks_are_groups(tmp_path: Path) -> None:
    text = "BlockName=b1 Nodes=g[1-2]\nBlockName=b2 Nodes=g3\nBlockSizes=2\n"
    hosts = read_hosts(written(tmp_path, text))
    assert (hosts.noun, hosts.group.tolist()) == ("block", [0, 0, 1])


@pytest.mark.parametrize("labelled", [False, True])
def test_cluster_and_clique_are_a_rack(tmp_path: Path, labelled: bool) -> None:
    logs = [log(UUID + "1"), log(UUID + "2"), log(UUID + "1"), log(UUID + "1", clique=7)]
    if labelled:  # srun --label, whose lines come as they please
        rows = [
            [f"{task:2d}: {line}" for line in text.splitlines()] for task, text in enumerate(logs)
        ]
        logs = ["\n".join(line for lines in zip(*rows, strict=True) for line in lines)]
    hosts = read_hosts(written(tmp_path, "".join(logs)))
    assert hosts.group.tolist() == [0, 1, 0, 2]
    assert (hosts.size, hosts.noun, hosts.gpus) == (2, "rack", 4)


def test_a_host_without_a_cluster_is_alone(tmp_path: Path) -> None:
    none = log("00000000-0000-0000-0000-000000000000", clique=0)
    hosts = read_hosts(written(tmp_path, none + log(UUID + "1") * 2 + none))
    assert hosts.group.tolist() == [0, 1, 1, 2]


def test_a_large_file_is_read_by_what_counts(tmp_path: Path) -> None:
    padded = log(UUID + "1") + "    Clocks : 1 MHz\n" * 2**18
    assert len(padded) * 8 > 2**24
    assert read_hosts(written(tmp_path, padded * 8)).size == 8


@given(
    st.text("abc-", min_size=1, max_size=4),
    st.lists(st.integers(0, 9999), min_size=1, max_size=9, unique=True),
    st.integers(1, 6),
)
def test_host_lists_name_what_they_were_made_of(stem: str, numbers: list[int], width: int) -> None:
    names = [f"{stem}{number:0{width}}" for number in numbers]
    text = f"{stem}[{','.join(f'{number:0{width}}' for number in numbers)}]"
    assert [*host_names(text)] == names
    assert [*host_names(",".join(names))] == names


def test_host_lists_have_several_brackets() -> None:
    assert [*host_names("r[1-2]n[08-09],x")] == ["r1n08", "r1n09", "r2n08", "r2n09", "x"]


@pytest.mark.parametrize(
    "text", ["", "n[", "n[]", "n[1-]", "n[3-1]", "n[a]", "(null)", ",", "n 1", "n[0-999999999]"]
)
def test_other_lists_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"no (list|range) of hosts"):
        [*host_names(text)]


@pytest.mark.parametrize(
    ("text", "chosen", "message"),
    [
        ("", "", "is empty"),
        ("hello\n", "", "expected topology.conf of SLURM"),
        ("\0\0", "", "is not text"),
        ("SwitchName=s1 Switches=s[2-3]\n", "", "no switch has hosts"),
        ("SwitchName=s1 Nodes=n[1-\n", "", r"line 1: .* no list of hosts"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n[1-2]\n", "", "line 2: n1 is on a already"),
        ("SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Switches=a\n", "", "is above itself"),
        (TREE, "n04", r"no host 'n04': did you mean"),
        (TREE, "n[01,01]", "host n01 is named twice"),
        (log(UUID + "1"), "n1", "names no hosts"),
        (log(UUID + "1")[:-150], "", "host 0 has 4 GPUs, and a rack of 3: is the file whole"),
        (log(UUID + "1") + log(UUID + "1", gpus=8), "", "hosts with 4, 8 GPUs"),
        (log("N/A", clique=0), "", "no host has a ClusterUUID"),
        (
            log(UUID + "1").replace(UUID + "1", UUID + "2", 1),
            "",
            "host 0: its GPUs are in 2 cliques",
        ),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, chosen: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_hosts(written(tmp_path, text), chosen)


def test_too_many_hosts_are_refused(tmp_path: Path) -> None:
    rows = "".join(f"SwitchName=s{leaf} Nodes=h{leaf}x[1-{MOST_HOSTS // 2}]\n" for leaf in range(3))
    assert f"over {MOST_HOSTS} hosts" in refusal(read_hosts, written(tmp_path, rows))


def test_no_file() -> None:
    assert "no such file" in refusal(read_hosts, "nowhere/topology.conf")
