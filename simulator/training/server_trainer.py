"""Writes the steps of workers and parameter servers, whose data are served in the order of their
arrival."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.kernels.records import Csr
from simulator.schedules.schedule import COMPUTE as COMPUTATION
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.steps.kinds import Label
from simulator.steps.step_graph import MESSAGE, Call, step_graph
from simulator.training.model import Model
from simulator.training.plan import COMMUNICATION, Setting
from simulator.training.step_lowering import Memory
from simulator.training.trainer import Trainer
from topologies.topology import Floats, Ints


class ServerTrainer(Trainer):
    """A trainer that writes operations at once: what waits for what is in their slots, and from
    slots in no fixed order nothing can be derived. Its tasks to wait for are operations, and its
    graph has no waits.
    """

    def __init__(
        self,
        model: Model,
        setting: Setting,
        builder: ScheduleBuilder,
        lanes: tuple[str, ...],
        *,
        together: bool = True,
    ) -> None:
        """Strategies write further operations on `builder`."""
        super().__init__(model, setting, lanes, together=together)
        self.builder = builder
        self._labels: dict[str, Label] = {}
        self._messages = [np.zeros((3, 0), dtype=np.int32)]
        """Rank, first and last operation of messages. The phase of the first one names them."""

    def phase(self, label: Label) -> None:
        """Say what the operations that follow are."""
        self._labels[label.text] = label
        self.builder.phase(label.text)

    def note(self, rank: npt.NDArray[np.integer], first: Ints, last: Ints) -> None:
        """Note that messages of each `rank` are on their way from `first` to `last`."""
        self._messages.append(np.stack((rank.astype(np.int32), first, last)))

    def _add(
        self,
        label: Label,
        ranks: npt.NDArray[np.integer],
        seconds: float | Floats,
        after: Ints,
        lane: int,
        call: Call | None = None,
        collective: tuple[Schedule | None, Memory] = (None, "used"),
    ) -> Ints:
        self.phase(label)
        return self.builder.compute(ranks, seconds, lane=lane, after=after)

    def _check(self) -> None:
        """Strategies know the size of a run before they write it."""

    def _written(self) -> dict[str, Any]:
        schedule = self.builder.build()
        rank, first, last = np.concatenate(self._messages, axis=1)
        computed = np.flatnonzero(schedule.kind == COMPUTATION).astype(np.int32)
        sizes, call = np.unique(schedule.nbytes[last], return_inverse=True)
        starts = np.concatenate((computed, first))
        order = np.argsort(starts, kind="stable")
        lane = np.full(len(rank), COMMUNICATION)
        columns = {
            "place": np.concatenate((schedule.rank[computed], rank)),
            "lane": np.concatenate((schedule.lane[computed], lane)),
            "call": np.concatenate((np.full(len(computed), -1), call.ravel())),
            "seconds": schedule.seconds[starts],
        }
        labels = [self._labels[phase] for phase in schedule.phases]
        phase = schedule.phase[starts[order]]
        graph = step_graph(
            np.arange(schedule.ranks),
            self.lanes,
            {
                **{name: column[order] for name, column in columns.items()},
                "kind": np.array([label.kind for label in labels], dtype=np.int32)[phase],
                "layer": np.array([label.layer for label in labels], dtype=np.int32)[phase],
            },
            Csr(np.zeros(len(starts) + 1, dtype=np.int32), np.zeros(0, dtype=np.int32)),
            calls=[Call("", MESSAGE, nbytes) for nbytes in sizes.tolist()],
            names=np.array(schedule.phases, dtype=object)[phase],
        )
        ends = np.concatenate((computed, last))[order]
        written = {"schedule": schedule, "first": starts[order], "last": ends, "graph": graph}
        return written | {"ends": np.array(self._ends, dtype=np.int32)}
