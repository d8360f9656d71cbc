"""What it costs the collectives of a plan that its hosts are on several leaves or racks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.profile import Profile
from simulator.steps.step_graph import MESSAGE
from topologies.catalogue import Blueprint
from topologies.host_machines import on_hosts, room
from topologies.readers.placements import Hosts
from topologies.topology import Ints


class PlacementCost(NamedTuple):
    """A collective of all groups of a kind at once. Units are in the names."""

    group: str
    collective: str
    ranks: int
    """The ranks of a group."""
    size_B: float
    shared: int
    """The leaves or racks that the ranks of a group are on, at most."""
    fewest: int
    """The same on as few leaves or racks as the job needs."""
    time_s: float
    in_order_s: float
    """With the same hosts, one leaf or rack after the other."""
    packed_s: float
    """With the job on as few leaves or racks as it needs."""

    @property
    def cost(self) -> float:
        """How many times as long as on the fewest leaves or racks."""
        return self.time_s / self.packed_s


def placement_costs(
    machine: Blueprint,
    hosts: Hosts,
    degrees: Degrees,
    sizes: Sequence[float],
    profile: Profile | None = None,
) -> Iterator[PlacementCost]:
    """The collectives of a plan of these degrees by kind of group and by size, on hosts of a
    machine. Raises InputError for hosts that the machine cannot have, or too few of them."""
    every = hosts, hosts.grouped(), hosts.packed(room(machine, hosts).hosts)
    built = [on_hosts(machine, each).build(degrees.ranks) for each in every]
    times = [GroupTimes(topology, degrees, profile=profile) for topology in built]
    places = [np.repeat(each.group, degrees.ranks // len(hosts.names)) for each in every]
    for name, (kinds, collective) in _kinds(degrees).items():
        shared, _, fewest = (max(_most(degrees, kind, each) for kind in kinds) for each in places)
        for nbytes in sizes:
            seconds = (max(each.seconds(k, collective, nbytes) for k in kinds) for each in times)
            ranks = degrees.size(kinds[0])
            yield PlacementCost(name, collective, ranks, nbytes, shared, fewest, *seconds)


def _kinds(degrees: Degrees) -> dict[str, tuple[list[str], str]]:
    """The kinds of groups of a plan and what they run, by the parallelism. The ranks of dp and cp
    hold the same parameters. Of a pipeline each rank sends to its peer of the next stage."""
    kinds = {
        "tp": (["tp"], "all_reduce"),
        "cp": (["cp"], "all_gather"),
        "dp": (["data"], "all_reduce"),
        "ep": (["ep"], "all_to_all"),
    }
    known = {name: each for name, each in kinds.items() if degrees.size(each[0][0]) > 1}
    stages = [f"{stage} to {stage + 1}" for stage in range(degrees.pp - 1)]
    return known | ({"pp": (stages, MESSAGE)} if stages else {})


def _most(degrees: Degrees, kind: str, groups: Ints) -> int:
    """The most leaves or racks that the ranks of one group are on."""
    of_groups = np.sort(groups[degrees.groups(kind)], axis=1)
    return 1 + int((np.diff(of_groups, axis=1) > 0).sum(axis=1).max())
