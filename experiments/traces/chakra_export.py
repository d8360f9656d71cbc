"""Tasks of ranks as Chakra traces, a file a rank, and the ranks of their groups."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from experiments.traces.chakra_folder import MOST_NODES
from experiments.traces.chakra_nodes import (
    COLLECTIVE,
    COMPUTE,
    RECEIVE,
    SEND,
    Attribute,
    ChakraNode,
    write,
)
from experiments.traces.chakra_workload import COLLECTIVES, GPU, OF_INPUT, SECONDS
from simulator.steps.group_meetings import Meeting, meetings
from simulator.steps.kinds import RESTART, UPDATE
from simulator.steps.step_graph import StepGraph
from topologies.errors import InputError

GROUPS = "groups.json"
"""The file that says which ranks a group has."""


def file_name(rank: int) -> str:
    """The name of a rank's file."""
    return f"simctl.{rank}.et"


def file_names(ranks: int) -> set[str]:
    """The names of all files of a workload."""
    return {GROUPS, *map(file_name, range(ranks))}


def chakra_files(graph: StepGraph) -> dict[str, bytes | str]:
    """The files of a workload by name, as :mod:`experiments.traces.chakra_workload` reads them.
    Each place of the graph is a rank.

    Durations of Chakra are whole microseconds. An attribute of simctl has the seconds of every
    computation. What is not on the main lane runs on the CPU. Bytes are whole numbers, and groups
    have numbers from 1 on, as ASTRA-sim needs them. A shift is messages round the group. What it
    takes to enter a collective is a computation before it. Waits for tasks of other ranks are left
    out. Raises InputError for a collective that Chakra does not know,
    and for more than a million nodes.
    """
    lonely = [number for number, call in enumerate(graph.calls) if not call.group]
    unbound = np.isin(graph.call, lonely) | np.isin(graph.kind, (RESTART, UPDATE))
    if unbound.any() and graph.ranks == 1:
        raise InputError("a Chakra workload of a strategy has 2 ranks or more: this run has 1")
    if unbound.any():
        task = int(unbound.argmax())
        raise InputError(
            f"ranks wait for each other outside of collectives, in "
            f"{graph.name(task)[:40]!r}: Chakra traces are of --strategy ddp, fsdp or local_sgd"
        )
    met = meetings(graph)
    shifts = sum(len(each.tasks) for each in met if each.call.collective == "shift")
    if len(graph) + shifts > MOST_NODES:
        raise InputError(
            f"the traces have {len(graph) + shifts} nodes, at most {MOST_NODES}: take fewer ranks, "
            f"steps or micro-batches"
        )
    groups = {
        key: str(number)
        for number, key in enumerate(dict.fromkeys(map(_group, filter(_is_collective, met))), 1)
    }
    about = _communications(graph, met, groups)
    received = {task: len(graph) + task for task, nodes in about.items() if len(nodes) > 1}
    files: list[list[ChakraNode]] = [[] for _ in range(graph.ranks)]
    for task, rank in enumerate(graph.place.tolist()):
        before = graph.predecessors(task)
        waits = sorted(before[graph.place[before] == rank].tolist())
        waits += [received[wait] for wait in waits if wait in received]
        name, seconds = graph.name(task), float(graph.seconds[task])
        length: dict[str, Attribute] = {"is_cpu_op": int(graph.lane[task] != GPU), SECONDS: seconds}
        microseconds = round(seconds * 1e6)
        if task not in about:
            files[rank].append(ChakraNode(task, name, COMPUTE, tuple(waits), microseconds, length))
            continue
        if seconds:
            enter = ChakraNode(
                len(graph) + task, f"enter {name}", COMPUTE, tuple(waits), microseconds, length
            )
            files[rank].append(enter)
            waits = [enter.id]
        for number, (kind, attributes) in zip(
            (task, received.get(task, 0)), about[task], strict=False
        ):
            files[rank].append(ChakraNode(number, name, kind, tuple(waits), 0, attributes))
    ranks = {number: [*members] for (_, members), number in groups.items()}
    written: dict[str, bytes | str] = {
        file_name(rank): write(nodes) for rank, nodes in enumerate(files)
    }
    return written | {GROUPS: json.dumps(ranks)}


def _is_collective(meeting: Meeting) -> bool:
    return not meeting.call.is_message and meeting.call.collective != "shift"


def _group(meeting: Meeting) -> tuple[str, tuple[int, ...]]:
    return meeting.call.group, tuple(sorted(meeting.ranks.tolist()))


def _communications(
    graph: StepGraph, met: Sequence[Meeting], groups: dict[tuple[str, tuple[int, ...]], str]
) -> dict[int, list[tuple[int, dict[str, Attribute]]]]:
    """The types and the attributes of the nodes of tasks that communicate."""
    nodes = defaultdict[int, list[tuple[int, dict[str, Attribute]]]](list)
    tags = defaultdict[tuple[int, int], int](int)
    for meeting in met:
        call, ranks, tasks = meeting
        if not _is_collective(meeting):
            receivers = np.roll(tasks, -1)[: 1 if call.is_message else None]
            for send, receive in zip(tasks.tolist(), receivers.tolist(), strict=False):
                ends = int(graph.place[send]), int(graph.place[receive])
                about = {"comm_src": ends[0], "comm_dst": ends[1], "comm_size": round(call.nbytes)}
                for task, kind in ((send, SEND), (receive, RECEIVE)):
                    attributes: dict[str, Attribute] = {
                        "is_cpu_op": 0,
                        **about,
                        "comm_tag": tags[ends],
                    }
                    nodes[task].append((kind, attributes))
                tags[ends] += 1
            continue
        collective = call.algorithm.collective.family if call.algorithm else call.collective
        if collective not in COLLECTIVES:
            raise InputError(
                f"Chakra has no collective {collective}: it has {', '.join(COLLECTIVES)}"
            )
        size = call.nbytes / (len(tasks) if collective in OF_INPUT else 1)
        attributes = {
            "is_cpu_op": 0,
            "comm_type": COLLECTIVES.index(collective),
            "comm_size": max(1, round(size)),
            "pg_name": groups[_group(meeting)],
            "root": int(ranks[0]),
        }
        for task in tasks.tolist():
            nodes[task].append((COLLECTIVE, attributes))
    return nodes
