"""Operations that another tool has put into an order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.kernels.records import Csr
from simulator.schedules.schedule import TRANSFER, Schedule
from simulator.schedules.schedule_builder import LANES, ScheduleBuilder
from simulator.schedules.whole_numbers import whole_numbers
from topologies.errors import InputError
from topologies.topology import Numbers


def sequence(
    builder: ScheduleBuilder,
    columns: Mapping[str, npt.NDArray[Any]],
    waits: tuple[Numbers, Numbers],
) -> Schedule:
    """The schedule of operations in an order, each of which sees the state after the one before.

    `columns` are those of a schedule. Without slots (-1), a transfer has its `nbytes`. `waits` are
    pairs of operations of which the first waits for the second, besides what the slots imply.
    """
    size = len(columns["rank"])
    usual = {"kind": TRANSFER, "source": -1, "target": -1}
    usual |= dict.fromkeys(("rank", "peer", "count", "reduces", "lane", "phase"), 0)
    whole = {
        name: np.broadcast_to(whole_numbers(name, columns.get(name, value)), (size,))
        for name, value in usual.items()
    }
    rank, source, count, lane = (whole[name] for name in ("rank", "source", "count", "lane"))
    builder.slots.check(source, whole["target"], np.maximum(count, 1))
    if size and not 0 <= lane.min() <= lane.max() <= LANES:
        raise InputError(f"lanes {lane.min()} to {lane.max()}: lanes run from 0 to {LANES}")
    none = np.zeros(size)
    sized = builder.slots.bytes_of(rank, np.maximum(source, 0), np.where(source < 0, 0, count))
    indptr, indices = Csr.of(*waits, size)
    typed: dict[str, Any] = {name: column.astype(np.int32) for name, column in whole.items()}
    builder.inline(
        Schedule(
            ranks=builder.ranks,
            workers=builder.workers,
            switches=builder.switches,
            nbytes_total=builder.slots.nbytes,
            buffer=builder.slots.buffer,
            shares=builder.slots.shares,
            phases=("transfer",),
            lanes=int(lane.max(initial=0)) + 1,
            nbytes=np.where(source < 0, columns.get("nbytes", none), sized),
            seconds=np.asarray(columns.get("seconds", none), dtype=np.float64),
            indptr=indptr,
            indices=indices,
            **typed,
        )
    )
    return builder.build()
