"""A step of a plan of parallel training as tasks: of every rank and every group by itself."""

from __future__ import annotations

import numpy as np

from experiments.traces.chakra_folder import MOST_NODES
from simulator.collectives import find
from simulator.collectives.task_graph import GroupCall, Message, Task, TaskGraph
from simulator.parallel.group_times import ALGORITHMS
from simulator.parallel.passes import COLLECTIVES, COMPUTE, COPIES, HOST, KINDS, SEND, TIED
from simulator.parallel.step import Step
from topologies.errors import InputError

MAIN, CPU, COMMUNICATION = range(3)
"""Lanes of the tasks."""
ON = {COMPUTE: MAIN, HOST: CPU, COPIES: COMMUNICATION}
"""The lanes of what streams do without peers."""
Ends = list[tuple[int, ...]]
"""The tasks with which an operation ends, by the place of a rank on its device."""


def tasks_of_step(step: Step) -> TaskGraph:
    """The computations, collectives and transfers of each rank.

    A step has a place for each device of the pipeline, and each rank of the device does what its
    place does. Collectives run the first of their algorithms, and a shift is messages round the
    group. A message leaves when its sender gets there, also where transfers are blocking. Raises
    InputError if there are more than a million tasks.
    """
    writer = _Writer(step)
    for operation in range(len(step.schedule)):
        writer.add(operation)
        if len(writer.tasks) > MOST_NODES:
            raise InputError(
                f"the ranks of the plan have more than {MOST_NODES} tasks: take fewer GPUs or "
                f"micro-batches"
            )
    return TaskGraph(step.work.times.degrees.ranks, writer.tasks, writer.calls, writer.messages)


class _Writer:
    def __init__(self, step: Step) -> None:
        self.step, self.degrees = step, step.work.times.degrees
        self.ranks = self.degrees.groups("pp").T
        """The ranks of each device."""
        self.tasks = list[Task]()
        self.calls = list[GroupCall]()
        self.messages = list[Message]()
        self._ends = dict[int, Ends]()
        self._arrivals = dict[int, Ends]()
        self._tied = dict[tuple[int, float], list[int]]()
        """The tasks of the first device of those whose second one follows."""
        self._groups = dict[str, list[list[int]]]()

    def _groups_of(self, kind: str) -> list[list[int]]:
        if kind not in self._groups:
            self._groups[kind] = self.degrees.groups(kind).tolist()
        return self._groups[kind]

    def add(self, operation: int) -> None:
        """Add what all ranks of a device do for an operation."""
        labels, schedule = self.step.labels, self.step.schedule
        place, lane = int(schedule.rank[operation]), int(schedule.lane[operation])
        nbytes = float(labels.nbytes[operation])
        after, group = self._after(operation, place), self.step.group(operation)
        if lane in ON:
            seconds, on = float(schedule.seconds[operation]), ON[lane]
            self._ends[operation] = [
                (number,) for number in self._tasks(operation, place, after, on, seconds)
            ]
        elif nbytes <= 0 or (lane not in (SEND, TIED) and self.degrees.size(group) == 1):
            self._ends[operation] = after
        elif lane == SEND:
            self._send(operation, place, after, nbytes)
        elif lane == TIED:
            self._tie(operation, place, after, nbytes)
        elif COLLECTIVES[labels.collective[operation]] == "shift":
            self._shift(operation, place, after, nbytes, group)
        else:
            self._collective(operation, place, after, nbytes, group)

    def _after(self, operation: int, place: int) -> Ends:
        """What each rank waits for: operations of its device, and what arrives there."""
        waits: list[set[int]] = [set() for _ in self.ranks[place]]
        for before in self.step.schedule.predecessors(operation).tolist():
            here = self.step.schedule.rank[before] == place
            ends = self._ends[before] if here else self._arrivals.get(before)
            if ends is None or (not here and self.step.labels.peer[before] != place):
                continue
            for wait, end in zip(waits, ends, strict=True):
                wait.update(end)
        return [tuple(sorted(wait)) for wait in waits]

    def _tasks(
        self, operation: int, place: int, after: Ends, lane: int, seconds: float = 0.0
    ) -> list[int]:
        """A task of each rank of a device; their numbers."""
        labels, first = self.step.labels, len(self.tasks)
        micro, layer = int(labels.micro[operation]), int(labels.layer[operation])
        words = [KINDS[labels.kind[operation]]]
        words += [f"layer {layer}"] if layer >= 0 else []
        words += [f"micro-batch {micro}"] if micro >= 0 else []
        name = ", ".join(words)
        self.tasks += [
            Task(name, rank, lane, wait, seconds)
            for rank, wait in zip(self.ranks[place].tolist(), after, strict=True)
        ]
        return [*range(first, len(self.tasks))]

    def _send(self, operation: int, place: int, after: Ends, nbytes: float) -> None:
        peer = int(self.step.labels.peer[operation])
        sent = self._tasks(operation, place, after, COMMUNICATION)
        arrived = self._tasks(operation, peer, [()] * len(sent), COMMUNICATION)
        self.messages += [
            Message(send, receive, nbytes) for send, receive in zip(sent, arrived, strict=True)
        ]
        self._ends[operation] = [(number,) for number in sent]
        self._arrivals[operation] = [(number,) for number in arrived]

    def _shift(self, operation: int, place: int, after: Ends, nbytes: float, kind: str) -> None:
        """Each rank sends to the next one of its group."""
        sent = self._tasks(operation, place, after, COMMUNICATION)
        arrived = self._tasks(operation, place, after, COMMUNICATION)
        for rows in self._rows(kind, place):
            for sender, receiver in zip(rows, np.roll(rows, -1).tolist(), strict=True):
                self.messages.append(Message(sent[sender], arrived[receiver], nbytes))
        self._ends[operation] = list(zip(sent, arrived, strict=True))

    def _collective(
        self, operation: int, place: int, after: Ends, nbytes: float, kind: str
    ) -> None:
        numbers = self._tasks(operation, place, after, COMMUNICATION)
        collective = COLLECTIVES[self.step.labels.collective[operation]]
        algorithm = (self.step.work.times.algorithms.get(collective) or ALGORITHMS[collective])[0]
        algorithm = find(algorithm) if isinstance(algorithm, str) else algorithm
        for rows in self._rows(kind, place):
            group = f"{kind} of rank {self.ranks[place][rows[0]]}"
            tasks = tuple(numbers[row] for row in rows)
            self.calls.append(GroupCall(tasks, algorithm, nbytes, group))
        self._ends[operation] = [(number,) for number in numbers]

    def _tie(self, operation: int, place: int, after: Ends, nbytes: float) -> None:
        """Half of an all-reduce of two devices: the second half completes it."""
        numbers = self._tasks(operation, place, after, COMMUNICATION)
        self._ends[operation] = [(number,) for number in numbers]
        key = int(self.step.labels.stage[operation]), nbytes
        first = self._tied.pop(key, None)
        if first is None:
            self._tied[key] = numbers
            return
        for pair in zip(first, numbers, strict=True):
            ranks = [self.tasks[number].rank for number in pair]
            group = f"tied {ranks[0]} and {ranks[1]}"
            self.calls.append(GroupCall(pair, find("ring"), nbytes, group))

    def _rows(self, kind: str, place: int) -> list[list[int]]:
        """The groups of a kind on a device, as places of their ranks there."""
        where = {rank: row for row, rank in enumerate(self.ranks[place].tolist())}
        return [
            [where[rank] for rank in group] for group in self._groups_of(kind) if group[0] in where
        ]
