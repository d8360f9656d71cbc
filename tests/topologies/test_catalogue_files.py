"""Files by their path, where a name may stand."""

from pathlib import Path

import pytest

from catalogue_entries import NETWORK_KEYS
from refusals import message_of, refusal
from topologies.catalogue import Blueprint, find
from topologies.clusters import cluster, joined
from topologies.readers.files import to_yaml
from topologies.shapes import grid, leaf_spine, star
from topologies.topology import Topology


def names(topology: Topology) -> list[str]:
    return [topology.device_names[device] for device in topology.placement]


def written(path: Path, topology: Topology) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_yaml(topology))
    return path


# Files.


def test_a_file_is_found_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "box.yaml", cluster("leonardo"))
    blueprint = find(str(path))
    assert (blueprint.kind, blueprint.name) == ("file", "box.yaml")
    assert names(blueprint.build(4)) == ["gpu0", "gpu1", "gpu2", "gpu3"]
    assert blueprint.whole().ranks == 4
    monkeypatch.chdir(tmp_path)
    assert find("box.yaml").build(2).ranks == 2
    (tmp_path / "plain").write_text(path.read_text())
    assert find("plain").kind == "file"


def test_a_name_is_not_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "star", cluster("leonardo"))
    monkeypatch.chdir(tmp_path)
    assert find("star").kind == "shape"
    assert find("./star").kind == "file"


@pytest.mark.parametrize("folder", ["a:b", "a:b:c", "x=1,y=2", "two words", "ünï"])
def test_a_path_may_have_colons(tmp_path: Path, folder: str) -> None:
    path = written(tmp_path / folder / "box.yaml", cluster("leonardo"))
    assert find(str(path)).build(4).ranks == 4
    assert find(f"{path}:nodes=2").build(8).ranks == 8
    odd = written(tmp_path / folder / "box:nodes=2", cluster("leonardo"))
    assert find(str(odd)).build(4).ranks == 4


def test_the_nodes_of_a_file_are_joined_as_they_are_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path / "box.yaml", cluster("leonardo"))
    topology = find(f"{path}:nodes=3,network=rails,port=hdr,oversubscription=3,paths=hash").build(
        12
    )
    wanted = joined(cluster("leonardo"), 3, network="rails", port="hdr", oversubscription=3.0)
    assert topology.device_names == wanted.device_names
    assert topology.bandwidth.tolist() == wanted.bandwidth.tolist()
    assert topology.paths == "hash"


def test_a_file_has_the_ranks_that_it_has(tmp_path: Path) -> None:
    path = written(tmp_path / "box.yaml", cluster("leonardo"))
    message = refusal(lambda: find(str(path)).build(5))
    assert message == f"{path} has 4 GPUs, not 5: take fewer ranks or more nodes"
    assert names(find(f"{path}:nodes=2").build(5))[-1] == "node1.gpu0"
    assert "box.yaml has links of its own" in refusal(lambda: find(str(path)).with_links(gap=0.0))


def test_a_file_without_nics_is_one_node(tmp_path: Path) -> None:
    path = written(tmp_path / "star.yaml", star(4, bandwidth=1e9))
    assert find(f"{path}:nodes=1").build(4).ranks == 4
    message = refusal(lambda: find(f"{path}:nodes=2").build(4))
    assert message == (
        "star has no NIC to join 2 nodes by: add a nic and its link to the file (simctl topo "
        "import writes YAML)"
    )


def test_a_port_that_nobody_names_is_marked_as_assumed(tmp_path: Path) -> None:
    path = written(tmp_path / "box.yaml", cluster("leonardo"))
    for options, assumed in (("nodes=2", {True}), ("nodes=2,port=ndr", {False})):
        topology = find(f"{path}:{options}").build(4)
        network = topology.link_kinds.are("ib") & (topology.latency > 0)
        assert set(topology.assumed[network].tolist()) == assumed
        assert any(
            note.startswith("ndr assumed for the network's links") for note in topology.notes
        ) is (True in assumed)
    assert not find("leonardo:nodes=2").build(4).assumed.any()


def test_a_file_has_the_options_of_a_network(tmp_path: Path) -> None:
    path = written(tmp_path / "box.yaml", cluster("leonardo"))
    listed = [
        line.split()[0] for line in message_of(lambda: find(f"{path}:nics=2")).splitlines()[1:]
    ]
    assert listed == [key for key in NETWORK_KEYS if key != "nics"]


@pytest.mark.parametrize(
    "topology", [grid(6, bandwidth=1e9), leaf_spine(8, bandwidth=1e9), star(4, bandwidth=1e9)]
)
def test_a_file_has_the_paths_that_it_says(tmp_path: Path, topology: Topology) -> None:
    path = written(tmp_path / "machine.yaml", topology)
    assert find(str(path)).build(4).paths == topology.paths
    assert find(f"{path}:paths=hash").build(4).paths == "hash"


@pytest.mark.parametrize(
    "text", ["no.yaml", "no/where", "./box", "no.yaml:nodes=2", "/", "..", "a:b/no.txt:nodes=2"]
)
def test_a_path_to_nothing_is_no_file(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert " is no file: name one, or a machine of simctl list machines" in refusal(
        lambda: find(text)
    )


def test_a_blueprint_is_found_once_and_built_often() -> None:
    blueprint = find("dgx1")
    assert isinstance(blueprint, Blueprint)
    sizes = [len(blueprint.build(ranks).device_names) for ranks in (2, 8, 9, 2)]
    assert sizes == [sizes[0], sizes[0], len(cluster("dgx1", 2).device_names), sizes[0]]
