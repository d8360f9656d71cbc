"""Machines with the ranks of a job on their hosts."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.catalogue import find
from topologies.errors import InputError
from topologies.host_machines import on_hosts
from topologies.readers.placements import Hosts


def hosts(group: Sequence[int], size: int, noun: str = "leaf", gpus: int | None = None) -> Hosts:
    names = tuple(f"n{number}" for number in range(len(group)))
    return Hosts(names, np.array(group, dtype=np.int32), size, noun, gpus, 2)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_ranks_are_on_the_leaves_of_their_hosts(group: list[int]) -> None:
    size = max(group.count(leaf) for leaf in group)
    machine = on_hosts(find("hgx_h100:network=leaf_spine,nics=1"), hosts(group, size))
    topology = machine.whole()
    assert topology.ranks == 8 * len(group)
    node = topology.node[topology.placement].reshape(-1, 8)
    assert (node == node[:, :1]).all()
    assert len({*node[:, 0].tolist()}) == len(group)
    order = {leaf: number for number, leaf in enumerate(sorted({*group}))}
    assert (node[:, 0] // size).tolist() == [order[leaf] for leaf in group]


def test_hosts_of_a_leaf_reach_each_other_without_a_spine() -> None:
    machine = on_hosts(find("hgx_h100:network=leaf_spine"), hosts([0, 1, 0], 2)).build(24)

    def switches(first: int, second: int) -> list[str]:
        links = machine.route(first, second)
        names = [machine.device_names[machine.target[link]] for link in links]
        return [name for name in names if name.startswith(("leaf", "spine"))]

    assert switches(0, 16) == ["leaf0"]
    assert len(switches(0, 8)) == 3


def test_fewer_ranks_take_the_first_hosts() -> None:
    machine = on_hosts(find("hgx_h100"), hosts([1, 0, 1], 2))
    assert machine.size == 24
    few, all_ranks = machine.build(8), machine.build(24)
    assert (few.placement[:8] == all_ranks.placement[:8]).all()


def test_hosts_of_racks_are_trays() -> None:
    machine = on_hosts(find("nvl72"), hosts([0, 1, 0], 2, "rack", 4)).build(12)
    node = machine.node[machine.placement[:12]]
    assert node.tolist() == [0] * 4 + [1] * 4 + [0] * 4


@pytest.mark.parametrize(
    ("machine", "group", "noun", "message"),
    [
        ("star", [0], "leaf", "star is a shape"),
        ("hgx_h100", [0, 0], "rack", "take a machine like nvl72"),
        ("nvl72", [0] * 19, "rack", "19 hosts of 4 GPUs are in one rack: nvl72 has room for 18"),
        ("hgx_h100:network=fat_tree", [0, 1], "leaf", "no nodes_per_leaf"),
    ],
)
def test_hosts_that_a_machine_cannot_have(
    machine: str, group: list[int], noun: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        on_hosts(find(machine), hosts(group, 2, noun, 4 if noun == "rack" else None)).whole()
