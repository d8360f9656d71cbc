"""A Chakra workload as a graph of tasks.

- A node on the CPU, and a node that computes on the GPU, takes its duration; else the time that
  its operations and bytes take on a device.
- The k-th collective of a group is the same call on all of its ranks. It begins on each rank when
  the nodes are done that it waits for there, and the calls of the group before it.
- A send and the receive with the same ranks and tag are a message.
- Nodes of a GPU stream follow each other: files keep no edges between them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.traces.chakra_folder import Folder, read_folder
from experiments.traces.chakra_nodes import COLLECTIVE, COMPUTE, LOAD, SEND, STORE, ChakraNode
from experiments.traces.chakra_nodes import RECEIVE as RECEIVED
from simulator.collectives.collective import Algorithm
from simulator.steps.group_meetings import topological_order
from simulator.steps.kinds import CALL, COMPUTATION, RECEIVE, TRANSFER
from simulator.steps.kinds import CPU as ON_CPU
from simulator.steps.step_graph import MESSAGE, Call, StepGraph, step_graph
from topologies.errors import InputError, shown
from topologies.topology import Ints

GPU, CPU, COMMUNICATION, STREAMS = 0, 1, 2, 3
"""Lanes of a rank. Computations on stream number k of a trace are on lane `STREAMS` + k."""
COLLECTIVES = (
    "all_reduce",
    "reduce",
    "all_gather",
    "gather",
    "scatter",
    "broadcast",
    "all_to_all",
    "reduce_scatter",
    "reduce_scatter",
    "barrier",
)
"""The collective of each `comm_type`."""
USUAL_ALGORITHMS = {
    "all_reduce": "ring",
    "reduce": "chain_reduce",
    "all_gather": "ring_all_gather",
    "gather": "linear_gather",
    "scatter": "linear_scatter",
    "broadcast": "chain_broadcast",
    "all_to_all": "pairwise",
    "reduce_scatter": "ring_reduce_scatter",
    "barrier": "dissemination_barrier",
}
"""The algorithm of each collective, unless the user names another."""
OF_INPUT = ("all_gather", "gather")
"""Collectives whose V is the input of all ranks together: traces have the input of a rank."""
SECONDS = "duration_seconds"
"""simctl's attribute of a node that computes: its duration is whole microseconds."""
Roofline = Callable[[float, float], float]
"""From operations and bytes to seconds."""


def read_workload(
    folder: Path, algorithms: Mapping[str, Algorithm], roofline: Roofline | None
) -> tuple[StepGraph, Sequence[str]]:
    """The tasks of the traces in a folder, and what the reader left out, in words; `algorithms` are
    by collective.

    Raises InputError for files that are damaged, nodes that wait for each other in a circle, and
    communication that not all of its ranks take part in.
    """
    return _Builder(read_folder(folder), algorithms, roofline).workload()


class _Builder:
    def __init__(
        self, folder: Folder, algorithms: Mapping[str, Algorithm], roofline: Roofline | None
    ) -> None:
        self.folder, self.algorithms, self.roofline = folder, algorithms, roofline
        self.tasks = list[tuple[int, int, int, float]]()
        """The rank, the lane, the kind and the seconds of each task."""
        self.nodes = list[tuple[int, ChakraNode]]()
        """The rank and the node of each task."""
        self.after, self.remarks = list[list[int]](), list[str]()
        self.rows, self.row_of = dict[Call, int](), dict[int, int]()
        """The number of each call, and the call of each task that has one."""
        self.groups = dict[str, Ints]()
        self.calls = defaultdict[str, list[list[int]]](lambda: [[] for _ in folder.ranks])
        """The tasks that call collectives of a group, by rank."""
        self.ends = defaultdict[tuple[int, int, int], tuple[list[int], list[int]]](lambda: ([], []))
        """The tasks that send and that receive, by source, target and tag."""
        streams = {
            node.attributes["stream"]
            for nodes in folder.ranks
            for node in nodes
            if "stream" in node.attributes
        }
        self.lanes = {stream: STREAMS + k for k, stream in enumerate(sorted(streams, key=str))}

    def workload(self) -> tuple[StepGraph, Sequence[str]]:
        for rank, (every, file) in enumerate(
            zip(self.folder.ranks, self.folder.files, strict=True)
        ):
            lost = self._add_rank(rank, in_order(every, file))
            if lost:
                self.remarks.append(
                    f"{file}: left out {lost} waits for nodes that it does not hold"
                )
        for group in self.calls:
            self._add_calls(group)
        for key in self.ends:
            self._add_messages(*key)
        columns: dict[str, Any] = dict(
            zip(("place", "lane", "kind", "seconds"), zip(*self.tasks, strict=True), strict=True)
        )
        columns["call"] = np.full(len(self.tasks), -1, dtype=np.int32)
        columns["call"][[*self.row_of]] = [*self.row_of.values()]
        graph = step_graph(
            np.arange(len(self.folder.ranks)),
            ("GPU", "CPU", "communication", *(f"stream {stream}" for stream in self.lanes)),
            columns,
            self.after,
            calls=tuple(self.rows),
            groups=self.groups,
            names=[node.name or f"node {node.id}" for _, node in self.nodes],
        )
        return graph, self.remarks

    def _add_rank(self, rank: int, nodes: Sequence[ChakraNode]) -> int:
        """Add the nodes of a rank. Returns how many of their waits are for nodes not there."""
        number, latest, lost = dict[int, int](), dict[int, int](), 0
        for node in nodes:
            task = number[node.id] = len(self.nodes)
            self.nodes.append((rank, node))
            after = [number[wait] for wait in node.waits if wait in number]
            lost += len(node.waits) - len(after)
            on_cpu = bool(node.attributes.get("is_cpu_op", 0)) or node.type < LOAD
            lane = CPU if on_cpu else self.lanes.get(node.attributes.get("stream", ""), GPU)
            if lane >= STREAMS:
                if lane in latest:
                    after.append(latest[lane])
                latest[lane] = task
            kind, seconds = ON_CPU if on_cpu else COMPUTATION, 0.0
            if on_cpu or node.type in (COMPUTE, LOAD, STORE):
                seconds = self._seconds(task, on_cpu)
            else:
                lane, kind = COMMUNICATION, self._communication(task)
            self.tasks.append((rank, lane, kind, seconds))
            self.after.append(after)
        return lost

    def _where(self, task: int) -> str:
        rank, node = self.nodes[task]
        return f"{self.folder.files[rank]}: node {node.id}, {node.name[:40]!r}"

    def _seconds(self, task: int, on_cpu: bool) -> float:
        _, node = self.nodes[task]
        exact = node.attributes.get(SECONDS)
        if isinstance(exact, float) and 0 <= exact < math.inf:
            return exact
        if node.microseconds or on_cpu:
            return node.microseconds / 1e6
        work = (
            float(self._whole(task, "num_ops", 0)),
            float(self._whole(task, "tensor_size", 0)),
        )
        if not any(work):
            return 0.0
        if self.roofline is None:
            raise InputError(
                f"{self._where(task)}, has operations and no duration: name a machine whose "
                f"GPU is known, like --topology hgx_h100"
            )
        return self.roofline(*work)

    def _whole(self, task: int, key: str, usual: int | None = None) -> int:
        _, node = self.nodes[task]
        value = node.attributes.get(key, usual)
        if value is None:
            raise InputError(f"{self._where(task)}, has no {key}")
        if not isinstance(value, int) or value < 0:
            raise InputError(
                f"{self._where(task)}, has the {key} {shown(value)}: expected a whole "
                f"number, 0 or more"
            )
        return value

    def _communication(self, task: int) -> int:
        rank, node = self.nodes[task]
        if node.type == COLLECTIVE:
            kind = self._whole(task, "comm_type")
            if kind >= len(COLLECTIVES):
                raise InputError(
                    f"{self._where(task)}, has the comm_type {kind}: collectives are 0 to "
                    f"{len(COLLECTIVES) - 1}"
                )
            group = str(node.attributes.get("pg_name", ""))
            members = self.folder.group(group)
            if members is None:
                raise InputError(
                    f"{self._where(task)}, is of group {group[:40]!r}, whose ranks are "
                    f'unknown: put a file groups.json into the folder, like {{"1": [0, 1]}}'
                )
            if rank not in members:
                raise InputError(
                    f"{self._where(task)}, is of group {group[:40]!r}, which has no rank {rank}"
                )
            self.calls[group][rank].append(task)
            return CALL
        here, peer = ("comm_src", "comm_dst") if node.type == SEND else ("comm_dst", "comm_src")
        ends = {here: self._whole(task, here, rank), peer: self._whole(task, peer)}
        if ends[here] != rank or ends[peer] == rank or ends[peer] >= len(self.folder.ranks):
            raise InputError(
                f"{self._where(task)}, is from rank {ends['comm_src']} to "
                f"{ends['comm_dst']}: rank {rank} sends to or receives from another of "
                f"{len(self.folder.ranks)}"
            )
        key = ends["comm_src"], ends["comm_dst"], self._whole(task, "comm_tag", 0)
        self.ends[key][node.type == RECEIVED].append(task)
        return RECEIVE if node.type == RECEIVED else TRANSFER

    def _add_calls(self, group: str) -> None:
        """The k-th calls of the ranks of a group."""
        members = self.folder.group(group) or ()
        rows = [self.calls[group][rank] for rank in members]
        for rank, row in zip(members, rows, strict=True):
            if len(row) != len(rows[0]):
                raise InputError(
                    f"{self.folder.files[rank]}: rank {rank} calls {len(row)} collectives of group "
                    f"{group[:40]!r}, and rank {members[0]} {len(rows[0])}"
                )
        for tasks in zip(*rows, strict=True):
            self._add_call(group, members, tasks)

    def _add_call(self, group: str, members: tuple[int, ...], tasks: Sequence[int]) -> None:
        first, node = self.nodes[tasks[0]]
        kinds = [COLLECTIVES[self._whole(task, "comm_type")] for task in tasks]
        sizes = [self._whole(task, "comm_size", 0) for task in tasks]
        for task, kind, size in zip(tasks, kinds, sizes, strict=True):
            if kind != kinds[0] or (size != sizes[0] and kind != "all_to_all"):
                raise InputError(
                    f"{self._where(task)}, is {kind} of {size} bytes, and rank "
                    f"{first} calls {kinds[0]} of {sizes[0]} bytes in group {group[:40]!r}"
                )
        nbytes = float(max(sizes)) * (len(tasks) if kinds[0] in OF_INPUT else 1)
        nbytes = 1.0 if kinds[0] == "barrier" else nbytes
        if len(tasks) < 2 or not nbytes:
            return
        root = node.attributes.get("root", first)
        turn = members.index(root) if root in members else 0
        call = Call(f"group {group}", kinds[0], nbytes, self.algorithms[kinds[0]], turn)
        self._call(call, members, tasks)

    def _add_messages(self, source: int, target: int, tag: int) -> None:
        sends, receives = self.ends[source, target, tag]
        if len(sends) != len(receives):
            raise InputError(
                f"rank {source} sends {len(sends)} messages with tag {tag} to rank {target}, "
                f"which receives {len(receives)}"
            )
        for send, receive in zip(sends, receives, strict=True):
            size = float(self._whole(send, "comm_size"))
            call = Call(f"send from {source} to {target} with tag {tag}", MESSAGE, size)
            self._call(call, (source, target), (send, receive))

    def _call(self, call: Call, members: tuple[int, ...], tasks: Sequence[int]) -> None:
        """Let tasks make a call."""
        self.groups.setdefault(call.group, np.array([members], dtype=np.int32))
        row = self.rows.setdefault(call, len(self.rows))
        self.row_of |= dict.fromkeys(tasks, row)


def in_order(nodes: Sequence[ChakraNode], name: str) -> Sequence[ChakraNode]:
    """The nodes, each after those that it waits for, else as in the file `name`.

    Waits for nodes that are not there do not count: PyTorch's converter leaves such waits behind.
    Raises InputError for two nodes of one id, and for nodes that wait for each other in a circle.
    """
    place = {node.id: k for k, node in enumerate(nodes)}
    if len(place) < len(nodes):
        twice = next(node.id for k, node in enumerate(nodes) if place[node.id] != k)
        raise InputError(f"{name} has two nodes with the id {twice}")
    waits = [
        (place[wait], k) for k, node in enumerate(nodes) for wait in node.waits if wait in place
    ]
    if all(earlier < later for earlier, later in waits):
        return nodes
    every = np.arange(len(nodes))
    order = topological_order(np.array(waits).T, every, every).tolist()
    if len(order) < len(nodes):
        stuck = [nodes[k].id for k in np.setdiff1d(every, order).tolist()]
        raise InputError(
            f"{name}: {len(stuck)} nodes wait for each other in a circle, like node {stuck[0]}"
        )
    return [nodes[k] for k in order]
