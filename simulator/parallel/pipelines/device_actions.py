"""The actions of a device, written one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from simulator.parallel.pipelines.pipeline import Actions, Pipeline, assemble
from simulator.steps.kinds import FORWARD, INPUTS, WEIGHTS


class DeviceActions:
    """The actions of a device so far. Each stage takes its micro-batches one after the other."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        """Kind, stage, micro-batch and turn."""
        self._counts: Counter[tuple[bool, int]] = Counter()
        self._waiting: list[tuple[int, int]] = []
        """Stage and micro-batch of the backwards for weights that wait."""

    def forwards(self, stage: int) -> int:
        """Forwards of a stage so far."""
        return self._counts[True, stage]

    def add(self, kind: int, stage: int) -> None:
        """Run the next micro-batch of this stage forward, backward, or backward for inputs."""
        counted = kind == FORWARD, stage
        self.rows.append((kind, stage, self._counts[counted], len(self.rows)))
        if kind == INPUTS:
            self._waiting.append((stage, self._counts[counted]))
        self._counts[counted] += 1

    def add_weights(self, stage: int | None = None) -> None:
        """Run the backward for weights, of this stage or of any, that waits for the longest
        time."""
        number = next(n for n, row in enumerate(self._waiting) if stage in (None, row[0]))
        self.rows.append((WEIGHTS, *self._waiting.pop(number), len(self.rows)))

    def add_all_weights(self) -> None:
        """Run all backwards for weights that wait."""
        while self._waiting:
            self.add_weights()

    def add_pair(self, kind: int, stage: int, backward_stage: int) -> None:
        """Run a forward together with a backward of this kind of another stage."""
        self.add(FORWARD, stage)
        self.add(kind, backward_stage)
        kind, stage, micro, turn = self.rows[-1]
        self.rows[-1] = kind, stage, micro, turn - 1


def join(
    name: str,
    place: Sequence[Sequence[int]],
    micro_batches: int,
    rows: Sequence[tuple[int, int, int, int]],
) -> Pipeline:
    """The pipeline of the actions of all devices. Micro-batches behind `micro_batches` are left
    out."""
    table = np.array(rows)
    table = table[table[:, 2] < micro_batches]
    actions = [
        Actions(kind, *table[table[:, 0] == kind][:, 1:].T)
        for kind in np.unique(table[:, 0]).tolist()
    ]
    return assemble(name, place, micro_batches, actions)
