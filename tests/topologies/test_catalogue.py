"""NAME:key=value,... and files: what is understood, what is built, and what is said of the rest."""

import re
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest

from topologies.catalogue import BANDWIDTH, HELP, LATENCY, PARSERS, Blueprint, Figures, find
from topologies.clusters import cluster, joined
from topologies.errors import InputError
from topologies.link_kinds import LINKS
from topologies.machines import MACHINES
from topologies.readers.graph_files import to_yaml
from topologies.shapes import SHAPES, grid, leaf_spine, star
from topologies.topology import Topology

EXAMPLES: dict[str, tuple[str, object]] = {
    "nodes": ("3", 3),
    "per_node": ("4", 4),
    "network": ("leaf_spine", "leaf_spine"),
    "nics": ("4", 4),
    "port": ("hdr", "hdr"),
    "oversubscription": ("1.5", 1.5),
    "spines": ("2", 2),
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
}
LINK_KEYS = ["bandwidth", "latency", "gap"]
SHAPE_KEYS = {
    **{name: [*LINK_KEYS] for name in ("ring", "star", "full_mesh_one_port", "bus", "line", "hypercube")},
    "full_mesh": [*LINK_KEYS, "ports"],
    "tree": [*LINK_KEYS, "branching"],
    "grid": [*LINK_KEYS, "dims", "periodic"],
    "torus": [*LINK_KEYS, "dims"],
    "nodes": [*LINK_KEYS, "per_node"],
    "leaf_spine": [*LINK_KEYS, "ports_per_leaf", "spines", "oversubscription"],
    "fat_tree": [*LINK_KEYS, "k"],
    "dragonfly": [*LINK_KEYS, "hosts", "routers", "global_links", "cables"],
}
NETWORK_KEYS = ["nodes", "network", "nics", "port", "oversubscription", "spines", "sharp", "paths"]


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as refused:
        call()
    return str(refused.value)


def one_line(call: Callable[[], object]) -> str:
    message = refusal(call)
    assert "\n" not in message
    return message


def names(topology: Topology) -> list[str]:
    return [topology.device_names[device] for device in topology.placement]


def written(path: Path, topology: Topology) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_yaml(topology))
    return path


# Names.


NETWORKS = ", ".join(name for name, kind in LINKS.items() if kind.kind in ("ib", "ethernet"))


@pytest.mark.parametrize("name", [*SHAPES, *MACHINES])
def test_every_name_is_found_with_and_without_a_colon(name: str) -> None:
    kind = "shape" if name in SHAPES else "machine"
    for text in (name, f"{name}:"):
        blueprint = find(text)
        assert (blueprint.text, blueprint.name, blueprint.kind, blueprint.options) == (text, name, kind, {})


def test_no_shape_is_a_machine() -> None:
    assert not SHAPES.keys() & MACHINES.keys()
    assert list(SHAPE_KEYS) != []
    assert set(SHAPE_KEYS) == set(SHAPES)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        *(("hgx_h10", "hgx_h100"), ("HGX_H100", "hgx_h100"), ("Ring", "ring"), ("hgx_h100 ", "hgx_h100")),
        *(("rnig", "ring"), ("dgxa100", "dgx_a100"), ("hgx_h10:nodes=2", "hgx_h100"), ("ring\n", "ring")),
        *(("hgx_h10:oversubscription=1.5", "hgx_h100"), ("рing", "ring")),
    ],
)
def test_a_name_that_is_none_is_answered_with_the_nearest(text: str, near: str) -> None:
    message = one_line(lambda: find(text))
    name = text.partition(":")[0]
    assert message.startswith(f"{name!r} is no topology and no file: did you mean '{near}'? ")
    assert all(known in message for known in (*SHAPES, *MACHINES))


@pytest.mark.parametrize("text", ["zzzzzz", "?", "x\0y", "~", "42", "--", "zzz:k=1"])
def test_a_name_like_none_is_answered_with_all(text: str) -> None:
    message = one_line(lambda: find(text))
    assert "did you mean" not in message
    assert all(known in message for known in (*SHAPES, *MACHINES))


@pytest.mark.parametrize("text", ["", ":", ":nodes=2"])
def test_no_name_is_no_folder(text: str) -> None:
    assert "'' is no topology and no file" in one_line(lambda: find(text))


@pytest.mark.parametrize("length", [300, 5000])
def test_a_name_too_long_for_a_file_is_none(length: int) -> None:
    assert len(one_line(lambda: find("a" * length))) < 600


# Options.


@pytest.mark.parametrize("name", [*SHAPES, *MACHINES])
def test_every_option_of_every_name(name: str) -> None:
    """All of them at once, and each alone; what is not given is left to the shape or machine."""
    keys = SHAPE_KEYS[name] if name in SHAPES else NETWORK_KEYS
    blueprint = find(f"{name}:{','.join(f'{key}={EXAMPLES[key][0]}' for key in keys)}")
    assert blueprint.options == {key: EXAMPLES[key][1] for key in keys}
    for key in keys:
        text, value = EXAMPLES[key]
        assert find(f"{name}:{key}={text}").options == {key: value}


@pytest.mark.parametrize("name", [*SHAPES, *MACHINES])
def test_there_are_no_other_options_than_those_of_the_function(name: str) -> None:
    """What a wrong key is answered with, in the order of the function's parameters."""
    message = refusal(lambda: find(f"{name}:zzz=1"))
    listed = [line.split()[0] for line in message.splitlines()[1:]]
    assert sorted(listed) == sorted(SHAPE_KEYS[name] if name in SHAPES else NETWORK_KEYS)
    parameters = signature(SHAPES.get(name, cluster)).parameters
    assert listed == [parameter for parameter in parameters if parameter in listed]


@pytest.mark.parametrize("name", [*SHAPES, *MACHINES])
def test_a_wrong_option_is_answered_with_all_of_them_below_each_other(name: str) -> None:
    head, *lines = refusal(lambda: find(f"{name}:zzz=1")).splitlines()
    assert head == f"{name} has no option 'zzz': write {name}:key=value,... with"
    helps = [re.fullmatch(r"  (\w+) *( .*)", f"{line} ") for line in lines]
    assert all(helps)
    starts = {line.index(HELP[line.split()[0]]) for line in lines if line.split()[0] in HELP}
    assert len(starts) == 1


@pytest.mark.parametrize(
    ("text", "near"),
    [
        *(("hgx_h100:node=2", "nodes"), ("hgx_h100: nodes=2", "nodes"), ("hgx_h100:NICS=1", "nics")),
        *(("torus:dim=2x2", "dims"), ("leaf_spine:spine=2", "spines"), ("star:latnecy=1us", "latency")),
    ],
)
def test_a_misspelt_option_is_answered_with_the_nearest(text: str, near: str) -> None:
    name, _, option = text.partition(":")
    head = refusal(lambda: find(text)).splitlines()[0]
    if near == "nics":  # nothing in common but for the case
        assert head.startswith(f"{name} has no option 'NICS': ")
    else:
        assert head.startswith(f"{name} has no option {option.partition('=')[0]!r}: did you mean {near!r}? ")


@pytest.mark.parametrize("text", ["hgx_h100:nodes", "star:latency", "torus:dims,gap=1us"])
def test_an_option_without_a_value_is_told_so(text: str) -> None:
    key = text.partition(":")[2].partition(",")[0]
    assert f"no option {key!r}" not in refusal(lambda: find(text))


@pytest.mark.parametrize("text", ["hgx_h100:machine=dgx1", "hgx_h100:node=1", "star:ranks=3", "tree:name=oak"])
def test_parameters_that_are_no_options_are_none(text: str) -> None:
    assert "has no option" in refusal(lambda: find(text))


@pytest.mark.parametrize("shape", SHAPES)
def test_merging_is_no_option_of_a_links(shape: str) -> None:
    assert "has no option 'reduction'" in refusal(lambda: find(f"{shape}:reduction=1"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hgx_h100:nodes=", "hgx_h100:nodes: '' is not a whole number: write it like 4"),
        ("hgx_h100:nodes=two", "hgx_h100:nodes: 'two' is not a whole number: write it like 4"),
        ("hgx_h100:nodes=-1", "hgx_h100:nodes: '-1' is not a whole number: write it like 4"),
        ("hgx_h100:nodes=1.5", "hgx_h100:nodes: '1.5' is not a whole number: write it like 4"),
        ("hgx_h100:nodes=1e3", "hgx_h100:nodes: '1e3' is not a whole number: write it like 4"),
        ("hgx_h100:nodes=٣", "hgx_h100:nodes: '٣' is not a whole number: write it like 4"),
        ("hgx_h100:nodes=²", "hgx_h100:nodes: '²' is not a whole number: write it like 4"),
        ("hgx_h100:nodes=2\n", "hgx_h100:nodes: '2\\n' is not a whole number: write it like 4"),
        ("hgx_h100:nodes=2=3", "hgx_h100:nodes: '2=3' is not a whole number: write it like 4"),
        ("hgx_h100:nodes=1000000000", "hgx_h100:nodes: '1000000000' is not a whole number: write it like 4"),
        (f"hgx_h100:nodes={'9' * 5000}", f"hgx_h100:nodes: '{'9' * 40}' is not a whole number: write it like 4"),
        ("hgx_h100:oversubscription=nan", "hgx_h100:oversubscription: 'nan' is not a number: write it like 2 or 1.5"),
        ("hgx_h100:oversubscription=-2", "hgx_h100:oversubscription: '-2' is not a number: write it like 2 or 1.5"),
        ("hgx_h100:oversubscription=٢", "hgx_h100:oversubscription: '٢' is not a number: write it like 2 or 1.5"),
        ("hgx_h100:sharp=1", "hgx_h100:sharp: '1' is neither yes nor no"),
        ("hgx_h100:sharp=", "hgx_h100:sharp: '' is neither yes nor no"),
        ("grid:periodic=1", "grid:periodic: '1' is neither yes nor no"),
        ("hgx_h100:sharp=Yes", "hgx_h100:sharp: 'Yes' is neither yes nor no"),
        ("torus:dims=", "torus:dims: '' is no list of sizes: write it like 4x4x4"),
        ("torus:dims=4X4", "torus:dims: '4X4' is no list of sizes: write it like 4x4x4"),
        ("torus:dims=4x", "torus:dims: '4x' is no list of sizes: write it like 4x4x4"),
        ("torus:dims=-4x4", "torus:dims: '-4x4' is no list of sizes: write it like 4x4x4"),
        ("star:bandwidth=50", "star:bandwidth: '50' has no unit: write 50B/s or 50MB/s"),
        ("star:bandwidth=0GB/s", "star:bandwidth: '0GB/s' is not positive: write a value from 1B/s to 1EB/s"),
        ("star:latency=-1us", "star:latency: '-1us' is negative: a time is 0s or more"),
        ("star:gap=", "star:gap: '' is not a time: write it like 25us"),
        ("star:gap=inf", "star:gap: 'inf' is not finite: write a time like 25us"),
        ("hgx_h100:nodes=2,nodes=3", "hgx_h100:nodes=2,nodes=3: nodes is given twice"),
        ("star:gap=1us,latency=1us,gap=1us", "star:gap=1us,latency=1us,gap=1us: gap is given twice"),
    ],
)
def test_a_wrong_value_is_named_with_its_option(text: str, message: str) -> None:
    assert one_line(lambda: find(text)) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hgx_h100:nodes=0", "nodes is 0: hgx_h100 comes 1 to 729444 times"),
        ("hgx_h100:nodes=999999999", "nodes is 999999999: hgx_h100 comes 1 to 729444 times"),
        ("hgx_h100:network=ring", "network is 'ring': it is one of rails, leaf_spine, fat_tree, dragonfly"),
        ("hgx_h100:port=nvlink4", "port is 'nvlink4': it is one of " + NETWORKS),
        ("hgx_h100:paths=best", "paths is 'best': it is one of first, link, hash, rail"),
        ("hgx_h100:paths=", "paths is '': it is one of first, link, hash, rail"),
        ("hgx_h100:nics=0,nodes=2", "hgx_h100 has no NIC to join 2 nodes by: give nics=1, or add one to a file"),
        ("hgx_h100:nodes=2,oversubscription=0", "oversubscription must be above 0, got 0.0"),
        ("full_mesh:ports=", "ports is '': it is 'peer' or 'one'"),
        ("torus:dims=3x3", "dims must multiply to 8 ranks, got 3 x 3"),
        ("torus:dims=999999999x999999999", "a dimension must be at most 16777216, got 999999999"),
        ("tree:branching=0", "branching is 0: it is at least 1"),
        ("fat_tree:k=3", "a fat tree of 8 ports takes an even k of at least 4, got 3"),
    ],
)
def test_a_value_that_the_machine_refuses(text: str, message: str) -> None:
    assert one_line(lambda: find(text).build(8)) == message


@pytest.mark.parametrize("text", ["hgx_h100:network=,nodes=2", "hgx_h100:port=,nodes=2"])
def test_an_empty_name_is_none_of_them(text: str) -> None:
    one_line(lambda: find(text).build(8))


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


# Shapes.


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ranks", [2, 8, 16])
def test_a_shape_has_as_many_ranks_as_are_asked_for(shape: str, ranks: int) -> None:
    topology = find(shape).build(ranks)
    wanted = SHAPES[shape](ranks, bandwidth=BANDWIDTH, latency=LATENCY)
    assert topology.ranks == ranks
    assert topology.device_names == wanted.device_names
    assert topology.medium_bandwidth.tolist() == wanted.medium_bandwidth.tolist()
    assert topology.latency.tolist() == wanted.latency.tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_figures_are_those_of_all_links(shape: str) -> None:
    figures = Figures(bandwidth=3e9, latency=4e-6, gap=5e-6, reduction=6e-12)
    topology = find(shape).build(8, figures=figures)
    wanted = SHAPES[shape](8, bandwidth=3e9, latency=4e-6, gap=5e-6, reduction=6e-12)
    for column in ("medium_bandwidth", "latency", "medium_gap", "reduction"):
        assert getattr(topology, column).tolist() == getattr(wanted, column).tolist()


def test_figures_may_be_zero() -> None:
    topology = find("star").build(4, figures=Figures(latency=0.0, gap=0.0, reduction=0.0))
    assert not topology.latency.any()
    assert set(topology.bandwidth.tolist()) == {BANDWIDTH}


@pytest.mark.parametrize("shape", SHAPES)
def test_options_are_figures_too(shape: str) -> None:
    topology = find(f"{shape}:bandwidth=3GB/s,latency=4us,gap=5us").build(8)
    wanted = find(shape).build(8, figures=Figures(bandwidth=3e9, latency=4e-6, gap=5e-6))
    for column in ("medium_bandwidth", "latency", "medium_gap"):
        assert getattr(topology, column).tolist() == getattr(wanted, column).tolist()


@pytest.mark.parametrize("option", ["bandwidth=3GB/s", "latency=4us", "gap=5us"])
def test_a_figure_is_not_given_twice(option: str) -> None:
    figures = Figures(bandwidth=1e9, latency=1e-6, gap=1e-6)
    assert option.partition("=")[0] in one_line(lambda: find(f"star:{option}").build(4, figures=figures))


def test_servers_of_a_shape_are_further_ranks() -> None:
    topology = find("star").build(8, 2)
    assert names(topology) == [f"gpu{rank}" for rank in range(10)]
    assert names(find("ring").build(4, 1, placement="3,2,1,0")) == ["gpu3", "gpu2", "gpu1", "gpu0", "gpu4"]


# Machines.


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_has_as_many_nodes_as_the_ranks_need(name: str) -> None:
    """And no more ranks than are asked for."""
    gpus = MACHINES[name].node().ranks
    for ranks, nodes in ((2, 1), (gpus - 1, 1), (gpus, 1), (gpus + 1, 2), (2 * gpus, 2), (2 * gpus + 1, 3)):
        topology = find(name).build(ranks)
        assert len({node for node in topology.node.tolist() if node >= 0}) == nodes
        gpu_names = (f"node{rank // gpus}.gpu{rank % gpus}" for rank in range(ranks))
        assert names(topology) == [gpu if nodes > 1 else gpu.removeprefix("node0.") for gpu in gpu_names]


def test_a_machine_has_as_many_nodes_as_it_says() -> None:
    for nodes in (1, 2, 3):
        for ranks in (2, 8 * nodes):
            topology = find(f"dgx1:nodes={nodes}").build(ranks)
            assert (topology.ranks, topology.device_kinds.are("gpu").sum()) == (ranks, 8 * nodes)
        message = one_line(lambda nodes=nodes: find(f"dgx1:nodes={nodes}").build(8 * nodes + 1))  # type: ignore[misc]
        assert message == (
            f"dgx1:nodes={nodes} has {8 * nodes} GPUs, not {8 * nodes + 1}: take fewer ranks or more nodes"
        )


def test_options_reach_the_machine() -> None:
    topology = find("hgx_h100:nodes=3,network=leaf_spine,nics=2,port=hdr,spines=1,sharp=yes,paths=hash").build(8)
    wanted = cluster("hgx_h100", 3, network="leaf_spine", nics=2, port="hdr", spines=1, sharp=True, paths="hash")
    assert topology.device_names == wanted.device_names
    assert topology.bandwidth.tolist() == wanted.bandwidth.tolist()
    assert topology.in_network.tolist() == wanted.in_network.tolist()
    assert topology.paths == "hash"


@pytest.mark.parametrize("figures", [Figures(bandwidth=1e9), Figures(latency=0.0), Figures(gap=0.0)])
def test_a_machine_has_links_of_its_own(figures: Figures) -> None:
    message = one_line(lambda: find("dgx1").build(8, figures=figures))
    assert message == "dgx1 has links of its own: leave out --bandwidth, --latency and --gap"


def test_gpus_merge_as_fast_as_is_said() -> None:
    topology = find("dgx1").build(12, figures=Figures(reduction=1e-12))
    assert set(topology.reduction[topology.placement].tolist()) == {1e-12}
    assert not topology.reduction[~topology.device_kinds.are("gpu")].any()


def test_a_server_on_a_cpu_merges_as_fast_as_is_said() -> None:
    """Or it would reduce in no time what eight workers send: a shape's server has the γ of all."""
    topology = find("dgx1").build(8, 1, Figures(reduction=1e-12))
    assert topology.reduction[topology.placement].tolist() == [1e-12] * 9


@pytest.mark.parametrize(
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
    spread = names(find("dgx1:nodes=2").build(3, 1, placement="round-robin"))
    assert spread == ["node0.gpu0", "node1.gpu0", "node0.gpu1", "node1.gpu1"]


def test_too_many_servers_are_refused() -> None:
    message = one_line(lambda: find("dgx1").build(8, 3))
    assert message == "dgx1 has no device left for 3 servers besides 8 ranks"


@pytest.mark.parametrize(
    ("placement", "wanted"),
    [
        ("node", ["node0.gpu0", "node0.gpu1", "node0.gpu2"]),
        ("round-robin", ["node0.gpu0", "node1.gpu0", "node0.gpu1"]),
        ("8,0,15", ["node1.gpu0", "node0.gpu0", "node1.gpu7"]),
    ],
)
def test_ranks_are_placed(placement: str, wanted: list[str]) -> None:
    assert names(find("dgx1:nodes=2").build(3, placement=placement)) == wanted


def test_a_placement_lists_workers_only() -> None:
    message = one_line(lambda: find("dgx1").build(3, 1, placement="0,1,2,3"))
    assert message == "placement '0,1,2,3': name 3 different places, 0 to 7, for 3 ranks"
    assert names(find("dgx1").build(3, 1, placement="7,6,5")) == ["gpu7", "gpu6", "gpu5", "gpu0"]


def test_a_hundred_million_ranks_are_too_many() -> None:
    assert "nodes is 125000000: dgx1 comes 1 to" in one_line(lambda: find("dgx1").build(10**9))


# All of it.


@pytest.mark.parametrize("name", [*SHAPES, *MACHINES])
def test_the_whole_of_it(name: str) -> None:
    whole = find(name).whole()
    assert whole.ranks == (8 if name in SHAPES else MACHINES[name].node().ranks)


def test_the_whole_has_its_options() -> None:
    assert find("dgx1:nodes=3").whole().ranks == 24
    assert find("torus:dims=2x2x2").whole().links == 24
    assert find("leaf_spine:spines=3").whole().ranks == 8


@pytest.mark.parametrize("option", ["bandwidth=3GB/s", "latency=4us"])
def test_the_whole_has_the_figures_it_says(option: str) -> None:
    whole = find(f"star:{option}").whole()
    assert set(whole.bandwidth.tolist()) == {3e9 if "bandwidth" in option else BANDWIDTH}
    assert set(whole.latency.tolist()) == {4e-6 if "latency" in option else LATENCY}


def test_the_whole_of_a_torus_has_as_many_ranks_as_its_dimensions_say() -> None:
    assert find("torus:dims=4x4").whole().ranks == 16


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
    topology = find(f"{path}:nodes=3,network=rails,port=hdr,oversubscription=3,paths=hash").build(12)
    wanted = joined(cluster("leonardo"), 3, network="rails", port="hdr", oversubscription=3.0, paths="hash")
    assert topology.device_names == wanted.device_names
    assert topology.bandwidth.tolist() == wanted.bandwidth.tolist()
    assert topology.paths == "hash"


def test_a_file_has_the_ranks_that_it_has(tmp_path: Path) -> None:
    path = written(tmp_path / "box.yaml", cluster("leonardo"))
    message = one_line(lambda: find(str(path)).build(5))
    assert message == f"{path} has 4 GPUs, not 5: take fewer ranks or more nodes"
    assert names(find(f"{path}:nodes=2").build(5))[-1] == "node1.gpu0"
    assert "box.yaml has links of its own" in one_line(lambda: find(str(path)).build(4, figures=Figures(gap=0.0)))


def test_a_file_without_nics_is_one_node(tmp_path: Path) -> None:
    path = written(tmp_path / "star.yaml", star(4, bandwidth=1e9))
    assert find(f"{path}:nodes=1").build(4).ranks == 4
    assert "star has no NIC" in one_line(lambda: find(f"{path}:nodes=2").build(4))


def test_a_file_has_the_options_of_a_network(tmp_path: Path) -> None:
    path = written(tmp_path / "box.yaml", cluster("leonardo"))
    listed = [line.split()[0] for line in refusal(lambda: find(f"{path}:nics=2")).splitlines()[1:]]
    assert listed == [key for key in NETWORK_KEYS if key != "nics"]


@pytest.mark.parametrize("topology", [grid(6, bandwidth=1e9), leaf_spine(8, bandwidth=1e9), star(4, bandwidth=1e9)])
def test_a_file_has_the_paths_that_it_says(tmp_path: Path, topology: Topology) -> None:
    path = written(tmp_path / "machine.yaml", topology)
    assert find(str(path)).build(4).paths == topology.paths
    assert find(f"{path}:paths=hash").build(4).paths == "hash"


@pytest.mark.parametrize("text", ["no.yaml", "no/where", "./box", "no.yaml:nodes=2", "/", "..", "a:b/no.txt:nodes=2"])
def test_a_path_to_nothing_is_no_file(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert " is no file: name one, or a machine of simctl topo list" in one_line(lambda: find(text))


def test_a_blueprint_is_found_once_and_built_often() -> None:
    blueprint = find("dgx1")
    assert isinstance(blueprint, Blueprint)
    sizes = [len(blueprint.build(ranks).device_names) for ranks in (2, 8, 9, 2)]
    assert sizes == [sizes[0], sizes[0], len(cluster("dgx1", 2).device_names), sizes[0]]
