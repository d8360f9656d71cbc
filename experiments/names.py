"""What ranks and links are called in reports, pictures and traces."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from simulator.analysis.critical_path import QueueWait
from simulator.schedules.schedule import Schedule
from simulator.steps.step_graph import StepGraph

_ON_NODE = re.compile(r"node(\d+)\.(.+)")


def rank_name(schedule: Schedule, rank: int) -> str:
    """What a rank is called: "rank 3", "server", "switch 1"."""
    servers = schedule.ranks - schedule.workers - schedule.switches
    if rank < schedule.workers:
        return f"rank {rank}"
    if rank < schedule.workers + servers:
        return "server" if servers == 1 else f"server {rank - schedule.workers}"
    return f"switch {rank - schedule.workers - servers}"


def members_name(graph: StepGraph, place: int) -> str:
    """What a place is called by its ranks.

    >>> from simulator.steps.step_graph import step_graph
    >>> graph = step_graph(np.array([0, 1, 1]), ("compute",), {"place": [0, 1]}, [[], []])
    >>> members_name(graph, 0), members_name(graph, 1)
    ('rank 0', '2 ranks like 1')
    """
    ranks = np.flatnonzero(graph.place_of == place)
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks like {ranks[0]}"


def standing(shown: int, ranks: int) -> str:
    """A sentence that says that some ranks stand for others."""
    stand = f"{shown} of {ranks} ranks stand{'s' * (shown == 1)} for all"
    return f"{stand}: the others do the same at the same time."


def link_name(medium: str) -> str:
    """What a link or port is called in a sentence: by its NIC, or by the node of its ends.

    >>> link_name("node3.nic0->leaf0"), link_name("node0.gpu1->node0.pcie0")
    ('nic0 of node 3', 'gpu1->pcie0 of node 0')
    >>> link_name("switch->gpu2")
    'switch->gpu2'
    """
    ends = medium.split("->")
    on_node = [_ON_NODE.fullmatch(end) for end in ends]
    for end in on_node:
        if end and end[2].startswith("nic"):
            return f"{end[2]} of node {end[1]}"
    if all(on_node) and len({end[1] for end in on_node if end}) == 1:
        devices = "->".join(end[2] for end in on_node if end)
        return f"{devices} of node {next(end[1] for end in on_node if end)}"
    return medium


def wait_records(waits: Sequence[QueueWait], schedule: Schedule) -> list[dict[str, object]]:
    """The waits on a critical path: who waits on which link, behind whom, and how long."""
    return [
        {
            "where": wait.where,
            "waits": rank_name(schedule, wait.waiter),
            "behind": [rank_name(schedule, rank) for rank in wait.behind],
            "seconds": wait.seconds,
        }
        for wait in waits
    ]
