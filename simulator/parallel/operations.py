"""Tasks of a step, collected as columns of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import STREAMS, WIDTH
from simulator.steps.step_graph import COLUMNS, Call, StepGraph, padded, step_graph, waits_of
from topologies.topology import Ints


class Columns:
    """Columns of tasks, in which some are filled before others."""

    def __init__(self, times: GroupTimes) -> None:
        self.times = times
        self.values: dict[str, list[npt.NDArray[Any]]] = {}
        self.before: list[Ints] = []
        self.size = 0
        self._calls: dict[Call, int] = {}

    def call(self, call: Call | None) -> int:
        """The number of a call; -1 if there is none, or if it has no bytes or no peers."""
        if call is None or call.nbytes <= 0 or self.times.size(call.group) == 1:
            return -1
        return self._calls.setdefault(call, len(self._calls))

    def add(self, count: int, **values: float) -> None:
        """Tasks behind all others."""
        for name, kind in COLUMNS.items():
            column: npt.NDArray[Any] = np.full(count, values.get(name, -1), dtype=kind)
            self.values.setdefault(name, []).append(column)
        self.before.append(np.full((count, WIDTH), -1, dtype=np.int32))
        self.size += count

    def fill(self, name: str, rows: Ints, values: Any) -> None:
        """Fill in a column of the tasks that were added last."""
        self.values[name][-1][rows] = values

    def last(self, name: str) -> Any:
        """A column of the tasks that were added last."""
        return self.values[name][-1]

    def one(self, before: Sequence[int], **values: float) -> int:
        """A task that waits for `before`."""
        self.add(1, **values)
        self.before[-1] = padded([before], WIDTH)
        return self.size - 1

    def built(self) -> StepGraph:
        """The graph of all tasks."""
        return step_graph(
            np.ascontiguousarray(self.times.degrees.groups("pp").T),
            STREAMS,
            {name: np.concatenate(values) for name, values in self.values.items()},
            waits_of(self.before),
            calls=tuple(self._calls),
            groups={call.group: self.times.groups(call.group) for call in self._calls},
        )
