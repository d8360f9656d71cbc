"""Options after a name, and files by their path where a name may stand."""

import re
from dataclasses import replace
from inspect import signature
from pathlib import Path

import pytest

from catalogue_entries import NETWORK_KEYS, SHAPE_KEYS
from grouped_cases import each_case
from refusals import message_of, refusal
from topologies.catalogue import HELP, PARSERS, find
from topologies.clusters import MACHINES, cluster, joined
from topologies.readers.files import to_yaml
from topologies.shapes import SHAPES, grid, leaf_spine, star
from topologies.topology import Topology

EXAMPLES: dict[str, tuple[str, object]] = {
    "nodes": ("3", 3),
    "per_node": ("4", 4),
    "multicast": ("yes", True),
    "network": ("leaf_spine", "leaf_spine"),
    "nics": ("4", 4),
    "p2p": ("no", False),
    "port": ("hdr", "hdr"),
    "oversubscription": ("1.5", 1.5),
    "spines": ("2", 2),
    "nodes_per_leaf": ("4", 4),
    "sharp": ("yes", True),
    "paths": ("hash", "hash"),
    "bandwidth": ("400Gbit/s", 50e9),
    "latency": ("2us", 2e-6),
    "gap": ("3us", 3e-6),
    "branching": ("3", 3),
    "ports": ("one", "one"),
    "dims": ("2x4", (2, 4)),
    "ports_per_leaf": ("4", 4),
    "k": ("4", 4),
    "hosts": ("2", 2),
    "routers": ("4", 4),
    "global_links": ("2", 2),
    "cables": ("1", 1),
    "periodic": ("yes", True),
    "used": ("3", 3),
}


# Options.


@each_case("name", [*SHAPES, *MACHINES])
def test_every_option_of_every_name(name: str) -> None:
    """All of them at once, and each alone; what is not given is left to the shape or machine."""
    keys = SHAPE_KEYS[name] if name in SHAPES else NETWORK_KEYS
    blueprint = find(f"{name}:{','.join(f'{key}={EXAMPLES[key][0]}' for key in keys)}")
    assert blueprint.options == {key: EXAMPLES[key][1] for key in keys}
    for key in keys:
        text, value = EXAMPLES[key]
        assert find(f"{name}:{key}={text}").options == {key: value}


@each_case("name", [*SHAPES, *MACHINES])
def test_there_are_no_other_options_than_those_of_the_function(name: str) -> None:
    """What a wrong key is answered with, in the order of the function's parameters."""
    message = message_of(lambda: find(f"{name}:zzz=1"))
    listed = [line.split()[0] for line in message.splitlines()[1:]]
    assert sorted(listed) == sorted(SHAPE_KEYS[name] if name in SHAPES else NETWORK_KEYS)
    parameters = [*signature(SHAPES.get(name, cluster)).parameters]
    parameters += signature(joined).parameters if name in MACHINES else ()
    assert [name for name in listed if name not in ("paths", "used")] == [
        parameter for parameter in dict.fromkeys(parameters) if parameter in listed
    ]


@each_case("name", [*SHAPES, *MACHINES])
def test_a_wrong_option_is_answered_with_all_of_them_below_each_other(name: str) -> None:
    head, *lines = message_of(lambda: find(f"{name}:zzz=1")).splitlines()
    assert head == f"{name} has no option 'zzz': write {name}:key=value,... with"
    helps = [re.fullmatch(r"  (\w+) *( .*)", f"{line} ") for line in lines]
    assert all(helps)
    starts = {line.index(HELP[line.split()[0]]) for line in lines if line.split()[0] in HELP}
    assert len(starts) == 1


@each_case(
    ("text", "near"),
    [
        *(
            ("hgx_h100:node=2", "nodes"),
            ("hgx_h100: nodes=2", "nodes"),
            ("hgx_h100:NICS=1", "nics"),
        ),
        *(
            ("torus:dim=2x2", "dims"),
            ("leaf_spine:spine=2", "spines"),
            ("star:latnecy=1us", "latency"),
        ),
    ],
)
def test_a_misspelt_option_is_answered_with_the_nearest(text: str, near: str) -> None:
    name, _, option = text.partition(":")
    head = message_of(lambda: find(text)).splitlines()[0]
    if near == "nics":  # nothing in common but for the case
        assert head.startswith(f"{name} has no option 'NICS': ")
    else:
        assert head.startswith(
            f"{name} has no option {option.partition('=')[0]!r}: did you mean {near!r}? "
        )


def test_more_nodes_than_there_may_be_are_refused_by_number_or_memory() -> None:
    blueprint = find("hgx_h100:nodes=999999999")
    assert "take fewer, or go on with --force" in refusal(lambda: blueprint.build(8))
    forced = replace(blueprint, force=True)
    message = "nodes is 999999999: hgx_h100 comes 1 to 729444 times"
    assert refusal(lambda: forced.build(8)) == message


@pytest.mark.parametrize("text", ["hgx_h100:nodes=2,", "hgx_h100:,nodes=2", "hgx_h100:,,nodes=2,,"])
def test_commas_too_many_do_no_harm(text: str) -> None:
    assert find(text).options == {"nodes": 2}


@pytest.mark.parametrize(("text", "links"), [("yes", 24), ("no", 20)])
def test_a_grid_may_be_periodic(text: str, links: int) -> None:
    """2 x 4: ten wires, and two more from end to end."""
    assert find(f"grid:periodic={text},dims=2x4").build(8).links == links


def test_every_option_has_help_and_no_other() -> None:
    keys = {*NETWORK_KEYS, *(key for keys in SHAPE_KEYS.values() for key in keys)}
    assert set(HELP) == keys
    assert set(PARSERS) <= keys


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
    assert listed == [key for key in NETWORK_KEYS if key not in ("nics", "p2p")]


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
