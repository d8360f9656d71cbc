"""All plans of a model on a number of GPUs, and those that are left out, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from experiments.parallel.plan_step import Training, stage_sizes
from experiments.parallel.plan_text import Plan, parse_values
from simulator.parallel.degrees import Degrees
from topologies.errors import InputError

SEQUENCES = 4
"""Sequences of a step for each GPU, if the user does not say."""
SEARCHED = ("dp", "tp", "pp", "cp", "ep", "micro", "v", "zero", "recompute")
"""What plans of a search differ in."""
FIXED = ("schedule", "reshard", "shard", "sync", "fsdp", "router", "seed", "nodes")
"""Keys of a plan that a search does not take."""


@dataclass(frozen=True)
class Space:
    """What a search goes through."""

    training: Training
    """The model on a device."""
    gpus: int
    """The GPUs of the job."""
    node: int
    """GPUs of a node: tensor parallel stays within it unless the user asks."""
    wanted: Mapping[str, object]
    """The values of the user."""
    span: str = "no nodes"
    """Whether the GPUs are on one node, as the errors of plans tell apart."""

    @property
    def batch(self) -> int:
        """Sequences of a step."""
        return int(str(self.wanted.get("batch", SEQUENCES * self.gpus)))

    def plans(self) -> tuple[list[Plan], Counter[str]]:
        """All plans, but for those that the model or the batch do not allow, which are counted by
        the reason. Raises InputError if there is none."""
        plans, left_out = list[Plan](), Counter[str]()
        for degrees in self._degrees():
            rest = list(self._rest(degrees))
            if reason := self._refused(degrees):
                left_out[reason] += len(rest)
                continue
            for micro, v, zero, recompute in rest:
                reason = self._unfit(degrees, micro, v, zero, recompute)
                if reason:
                    left_out[reason] += 1
                    continue
                plans.append(self._plan(degrees, micro, v, zero, recompute))
        if not plans:
            reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.most_common(3))
            raise InputError(
                f"no plan of {self.training.name} on {self.gpus} GPUs with batch={self.batch}: "
                f"{reasons}: take another number of GPUs or another batch"
            )
        return plans, left_out

    def _values(self, key: str, usual: list[int]) -> list[int]:
        return [int(str(self.wanted[key]))] if key in self.wanted else usual

    def _degrees(self) -> Iterator[Degrees]:
        """All degrees that multiply to the GPUs."""
        experts = self.training.shape.experts
        order = str(self.wanted.get("order", Plan().order))
        for tp in self._values("tp", _divisors(self.gpus)):
            for pp in self._values("pp", _divisors(self.gpus)):
                for cp in self._values("cp", _divisors(self.gpus)):
                    dp, rest = divmod(self.gpus, tp * pp * cp)
                    if rest or dp not in self._values("dp", [dp]):
                        continue
                    usual = _divisors(dp * cp) if experts else [1]
                    for ep in self._values("ep", usual):
                        if dp * cp % ep == 0:
                            yield Degrees(dp, tp, pp, cp, ep, order)

    def _rest(self, degrees: Degrees) -> Iterator[tuple[int, int, int, str]]:
        """Micro-batch, stages of a device, stage of ZeRO and recomputation."""
        layers = self.training.shape.blocks
        plan = self._plan(degrees, 1, 1, 0, "none")
        divisible = [
            v
            for v in range(1, max(1, layers // degrees.pp) + 1)
            if (v == 1 or degrees.pp > 1) and stage_sizes(layers, plan, degrees.pp * v)
        ]
        most = max(1, self.batch // degrees.dp)
        return product(
            self._values("micro", [2**power for power in range(most.bit_length())]),
            self._values("v", divisible or [1]),
            self._values("zero", [0, 1, 2, 3] if degrees.pp == 1 else [0, 1]),
            [str(self.wanted["recompute"])]
            if "recompute" in self.wanted
            else ["none", "selective", "full"],
        )

    def _refused(self, degrees: Degrees) -> str:
        """Why no plan has these degrees; empty if some may have."""
        if "tp" not in self.wanted and degrees.tp > self.node:
            return "tp reaches beyond a node"
        if self.batch % degrees.dp:
            return "dp does not divide the batch"
        try:
            self._plan(degrees, 1, 1, 0, "none").cut(self.training.seq).check(
                self.training.shape, self.training.name
            )
        except InputError:
            return "tp, cp or ep does not divide heads, tokens or experts"
        return ""

    def _unfit(self, degrees: Degrees, micro: int, v: int, zero: int, recompute: str) -> str:
        """Why a plan is left out; empty if it is not."""
        batches, rest = divmod(self.batch, degrees.dp * micro)
        if rest:
            return "dp x micro does not divide the batch"
        plan = self._plan(degrees, micro, v, zero, recompute)
        if stage_sizes(self.training.shape.blocks, plan, degrees.pp * v) is None:
            return "pp x v does not divide the layers"
        if v > 1 and batches % degrees.pp:
            return "interleaved: pp does not divide the micro-batches"
        if zero and degrees.dp * degrees.cp == 1 and "zero" not in self.wanted:
            return "zero shares nothing among one rank"
        unasked = "recompute" not in self.wanted
        if recompute == "selective" and unasked and plan.attention != "unfused":
            return "selective recomputation saves nothing with fused attention"
        return ""

    def _plan(self, degrees: Degrees, micro: int, v: int, zero: int, recompute: str) -> Plan:
        usual = {"sp": degrees.tp > 1, "overlap": True}
        searched = {
            **{name: getattr(degrees, name) for name in ("dp", "tp", "pp", "cp", "ep")},
            **{"micro": micro, "v": v, "zero": zero, "recompute": recompute, "batch": self.batch},
        }
        return replace(Plan(), **{**usual, **self.wanted, **searched})


def parse_space(text: str) -> dict[str, object]:
    """The values of "auto" or "auto,KEY=VALUE,...": what all plans of a search have.

    >>> parse_space("auto,tp=8")
    {'tp': 8}
    """
    _, _, rest = text.partition(",")
    values = parse_values(rest)
    for key in FIXED:
        if key in values:
            raise InputError(f"plan: {key} does not go with auto: leave it out, or write a plan")
    return values


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
