"""Parameters that are gathered beside the first forward of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from simulator.parallel.passes import HOST, STREAMS, Pass, PassTask, Rows
from simulator.parallel.sharded_units import elements
from simulator.parallel.sharding import Sharding
from simulator.steps.kinds import GATHER, LAUNCH
from simulator.steps.step_graph import Call


@dataclass(eq=False, kw_only=True)
class GatherPass(Pass):
    """A first forward beside which parameters are gathered, bucket by bucket: a bucket begins with
    the block that waits for it. Megatron-Core issues all of them when a step begins, or, if CPU and
    device wait for transfers between stages, when the input is there."""

    sharding: Sharding

    def __post_init__(self) -> None:
        self.ready = dict[int, Rows]()
        self.buckets = list[tuple[int, dict[str, float]]]()
        for layer, block in enumerate(self.stage):
            last = self.buckets[-1][1] if self.buckets else {}
            if not last or max(last.values()) * self.sharding.nbytes >= self.sharding.bucket:
                self.buckets.append((layer, last := {}))
            for group, count in elements([block]).items():
                last[group] = last.get(group, 0.0) + count

    @property
    def calls(self) -> list[Call]:
        return [call for _, bucket in self.buckets for call in self.sharding.gathering(bucket)]

    def written(self) -> Self:
        # The CPU issues them when it comes to the pass, which may wait for its input.
        self.launched = self.row(PassTask(HOST, 0.0, LAUNCH))
        for layer, bucket in self.buckets:
            self.ready[layer] = tuple(
                self._gather(layer, call) for call in self.sharding.gathering(bucket)
            )
        return super().written()

    def begin(self, layer: int) -> None:
        if rows := self.ready.get(layer):
            if not self.tails:
                self.compute(0.0, GATHER, (), layer)
            self.compute(0.0, GATHER, (*self.tails, *rows), layer)

    def _gather(self, layer: int, call: Call) -> int:
        lane, seconds = STREAMS.index(call.group), self.times.seconds(*call[:3])
        return self.row(PassTask(lane, seconds, GATHER, (self.launched,), layer, call=call))
