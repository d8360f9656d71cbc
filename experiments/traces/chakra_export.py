"""Tasks of ranks as Chakra traces, a file a rank, and the ranks of their groups."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping

from experiments.traces.chakra_nodes import (
    COLLECTIVE,
    COMPUTE,
    RECEIVE,
    SEND,
    Attribute,
    Node,
    write,
)
from experiments.traces.chakra_workload import COLLECTIVES, GPU, OF_INPUT, SECONDS
from simulator.collectives.task_graph import TaskGraph
from topologies.errors import InputError

GROUPS = "groups.json"
"""The file that says which ranks a group has."""


def file_name(rank: int) -> str:
    """The name of a rank's file."""
    return f"simctl.{rank}.et"


def file_names(ranks: int) -> set[str]:
    """The names of all files of a workload."""
    return {GROUPS, *map(file_name, range(ranks))}


def chakra_files(graph: TaskGraph) -> dict[str, bytes | str]:
    """The files of a workload by name, as :mod:`experiments.traces.chakra_workload` reads them.

    Durations of Chakra are whole microseconds. An attribute of simctl has the seconds of every
    computation. What is not on the main lane runs on the CPU. Bytes are whole numbers, and groups
    have numbers from 1 on, as ASTRA-sim needs them. Raises InputError for a collective that Chakra
    does not know.
    """
    names = {
        group: str(number)
        for number, group in enumerate(dict.fromkeys(call.group for call in graph.calls), 1)
    }
    communications = _communications(graph, names)
    nodes: list[list[Node]] = [[] for _ in range(graph.ranks)]
    for number, task in enumerate(graph.tasks):
        about, waits = communications.get(number), tuple(sorted(task.after))
        if about is None:
            on_cpu = int(task.lane != GPU)
            length: dict[str, Attribute] = {"is_cpu_op": on_cpu, SECONDS: task.seconds}
            microseconds = round(task.seconds * 1e6)
            node = Node(number, task.name, COMPUTE, waits, microseconds, length)
        else:
            kind, attributes = about
            node = Node(number, task.name, kind, waits, 0, attributes)
        nodes[task.rank].append(node)
    ranks = {
        call.group: sorted(graph.tasks[task].rank for task in call.tasks) for call in graph.calls
    }
    groups = {name: ranks[group] for group, name in names.items()}
    files: dict[str, bytes | str] = {
        file_name(rank): write(each) for rank, each in enumerate(nodes)
    }
    return files | {GROUPS: json.dumps(groups)}


def _communications(
    graph: TaskGraph, names: Mapping[str, str]
) -> dict[int, tuple[int, dict[str, Attribute]]]:
    """The type and the attributes of the nodes of tasks that communicate."""
    nodes = dict[int, tuple[int, dict[str, Attribute]]]()
    for call in graph.calls:
        collective = call.algorithm.collective.family
        if collective not in COLLECTIVES:
            raise InputError(
                f"Chakra has no collective {collective}: it has {', '.join(COLLECTIVES)}"
            )
        size = call.nbytes / (len(call.tasks) if collective in OF_INPUT else 1)
        for task in call.tasks:
            nodes[task] = (
                COLLECTIVE,
                {
                    "is_cpu_op": 0,
                    "comm_type": COLLECTIVES.index(collective),
                    "comm_size": max(1, round(size)),
                    "pg_name": names[call.group],
                    "root": graph.tasks[call.tasks[0]].rank,
                },
            )
    tags = defaultdict[tuple[int, int], int](int)
    for message in graph.messages:
        ends = graph.tasks[message.send].rank, graph.tasks[message.receive].rank
        about = {"comm_src": ends[0], "comm_dst": ends[1], "comm_size": round(message.nbytes)}
        for task, kind in ((message.send, SEND), (message.receive, RECEIVE)):
            nodes[task] = kind, {"is_cpu_op": 0, **about, "comm_tag": tags[ends]}
        tags[ends] += 1
    return nodes
