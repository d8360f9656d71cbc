"""Operations of a step, collected as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.parallel.passes import COMPUTE, KINDS, STREAMS, WIDTH, padded
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.topology import Floats, Ints

NAMES: dict[str, type] = {
    **dict.fromkeys(("place", "peer", "lane", "kind", "stage", "layer"), np.int32),
    **dict.fromkeys(("micro", "collective", "group"), np.int32),
    **dict.fromkeys(("seconds", "nbytes"), np.float64),
}
"""The columns and their types."""


class Labels(NamedTuple):
    """What each operation is, a row each."""

    kind: Ints
    """A place in :data:`simulator.parallel.passes.KINDS`."""
    stage: Ints
    """The stage of the model; -1 for none."""
    layer: Ints
    """The block within its stage; -1 for none."""
    micro: Ints
    """The micro-batch; -1 for none."""
    collective: Ints
    """A place in :data:`simulator.parallel.passes.COLLECTIVES`; 0 for a computation."""
    nbytes: Floats
    """V of the collective, or the bytes that a rank sends."""
    peer: Ints
    """The place that receives a transfer; -1 for none."""
    group: Ints
    """The place of the kind of group in :attr:`simulator.parallel.sharding.Sharding.kinds`; -1: it
    is called like the stream."""


class Columns:
    """Columns of operations, in which some are filled before others."""

    def __init__(self) -> None:
        self.values: dict[str, list[npt.NDArray[Any]]] = {}
        self.before: list[Ints] = []
        self.size = 0

    def add(self, count: int, **values: float) -> None:
        """Operations behind all others."""
        for name in NAMES:
            column: npt.NDArray[Any] = np.full(count, values.get(name, -1), dtype=NAMES[name])
            self.values.setdefault(name, []).append(column)
        self.before.append(np.full((count, WIDTH), -1, dtype=np.int32))
        self.size += count

    def fill(self, name: str, rows: Ints, values: Any) -> None:
        """Fill in a column of the operations that were added last."""
        self.values[name][-1][rows] = values

    def last(self, name: str) -> Any:
        """A column of the operations that were added last."""
        return self.values[name][-1]

    def one(self, before: Sequence[int], **values: float) -> int:
        """An operation that waits for `before`."""
        self.add(1, **values)
        self.before[-1] = padded([before], max(WIDTH, len(before)))
        return self.size - 1

    def built(self, places: int) -> tuple[Schedule, Labels]:
        """The schedule on so many places."""
        column: dict[str, Any] = {
            name: np.concatenate(values) for name, values in self.values.items()
        }
        rows = [np.repeat(np.arange(len(each)), (each >= 0).sum(axis=1)) for each in self.before]
        starts = np.cumsum([0, *map(len, self.before)])
        waiting = np.concatenate(
            [row + start for row, start in zip(rows, starts[:-1], strict=True)]
        )
        indices = np.concatenate([each[each >= 0] for each in self.before])
        indptr = np.zeros(self.size + 1, dtype=np.int32)
        np.cumsum(np.bincount(waiting, minlength=self.size), out=indptr[1:])
        empty, none = ScheduleBuilder(places, 1.0).build(), np.full(self.size, -1, dtype=np.int32)
        zero = np.zeros(self.size, dtype=np.int32)
        name = np.where(column["lane"] == COMPUTE, column["kind"], len(KINDS) + column["lane"])
        used, phase = np.unique(name, return_inverse=True)
        names = [*KINDS, *STREAMS]
        schedule = replace(
            empty,
            phases=tuple(names[each] for each in used.tolist()),
            lanes=len(STREAMS),
            kind=zero.astype(np.int8),
            rank=column["place"].astype(np.int32),
            peer=column["place"].astype(np.int32),
            source=none,
            target=none,
            count=zero,
            reduces=zero.astype(np.int8),
            nbytes=np.zeros(self.size),
            seconds=column["seconds"],
            lane=column["lane"].astype(np.int16),
            phase=phase.astype(np.int16),
            indptr=indptr,
            indices=indices.astype(np.int32),
        )
        return schedule, Labels(*(column[name] for name in Labels._fields))
