"""The result of a schedule: it runs on integers, and the check compares them with the collective's
postcondition."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from simulator.kernels import execution
from simulator.schedules.causes import absent
from simulator.schedules.schedule import Schedule
from topologies.jit import kernel
from topologies.topology import Ints

Data = npt.NDArray[np.uint64]


class SlotSelection(NamedTuple):
    """Some slots of a buffer."""

    number: Ints
    """The slots."""
    total: int
    """The number of all slots of the buffer."""


Chosen = SlotSelection | None
"""Some slots, or all."""
Promise = tuple[npt.NDArray[np.bool_], Data]
"""Which slots a collective promises, and their values; both of shape (workers, slots)."""


class Contract(Protocol):
    """The promise of a schedule: a :class:`simulator.collectives.collective.Collective`."""

    @property
    def name(self) -> str: ...
    @property
    def postcondition(self) -> Callable[[Data, Chosen], Promise]: ...
    @property
    def causal(self) -> bool: ...


class WrongResult(Exception):
    """A schedule leaves other values in the buffers than its collective promises."""


def inputs(schedule: Schedule, seed: int = 0) -> Data:
    """Random integers for every slot, shape (ranks, slots).

    Sums are modulo 2^64, so a missing or doubled contribution changes the result. Scratch and
    servers start with garbage, as real memory does. Switches start with zeros.
    """
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 2**64, size=(schedule.ranks, schedule.slots), dtype=np.uint64)
    data[schedule.ranks - schedule.switches :] = 0
    return data


def run(schedule: Schedule, data: Data, order: Ints | None = None) -> Data:
    """The slots after all transfers. `order` is any topological order; the default is that of the
    schedule."""
    result = data.copy()
    if order is None:
        order = np.arange(len(schedule), dtype=np.int32)
    with np.errstate(over="ignore"):
        kernel(execution.execute, len(schedule))(order, schedule.operations, result)
    return result


def check(
    schedule: Schedule, collective: Contract, seed: int = 0, order: Ints | None = None
) -> None:
    """Raise :class:`WrongResult` unless the schedule computes what the collective promises.

    A folded schedule is run at all ranks, on slots that stand for all (:func:`follow`). A barrier
    is checked by causes (:func:`simulator.schedules.causes.absent`).
    """
    if collective.causal:
        for rank, missing in enumerate(absent(schedule, order)):
            if len(missing):
                raise WrongResult(
                    f"{collective.name}: rank {rank} may leave before rank {missing[0]} has entered"
                )
        return
    if schedule.fold is not None:
        before, after, chosen = _followed(schedule, seed)
    else:
        data = inputs(schedule, seed)
        after = run(schedule, data, order)[: schedule.workers, : schedule.buffer]
        before, chosen = data[: schedule.workers, : schedule.buffer], None
    promised, expected = collective.postcondition(before, chosen)
    wrong = promised & (after != expected)
    if wrong.any():
        rank, slot = np.argwhere(wrong)[0]
        slot = slot if chosen is None else chosen.number[slot]
        raise WrongResult(
            f"{collective.name}: {wrong.sum()} of {promised.sum()} results are wrong, first slot "
            f"{slot} of rank {rank}"
        )


def _followed(schedule: Schedule, seed: int) -> tuple[Data, Data, SlotSelection]:
    """What the followed slots of the buffers hold before and after a folded schedule."""
    followed = schedule.followed
    rng = np.random.default_rng(seed)
    shape = schedule.ranks, len(followed.slots)
    before = rng.integers(0, 2**64, size=shape, dtype=np.uint64)
    after, order = before.copy(), np.arange(len(followed.operation), dtype=np.int32)
    with np.errstate(over="ignore"):
        kernel(execution.execute, len(order))(order, followed.operations, after)
    buffer = followed.slots < schedule.buffer
    slots = SlotSelection(followed.slots[buffer], schedule.buffer)
    return before[:, buffer], after[:, buffer], slots
