"""All plans of a model on a number of GPUs, those that are left out, with the reason, and changes
that would make a plan fit into the memory of its devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from typing import Any

from experiments.models.accelerators import accelerator
from experiments.models.block_cut import WHOLE
from experiments.parallel.plan_keys import like_framework, plan_with
from experiments.parallel.plan_step import Training, memory_of, stage_sizes, work_of
from experiments.parallel.plan_text import Plan, clash_of, parse_values
from experiments.text_lines import bytes_cell
from simulator.parallel.group_times import GroupTimes
from topologies.errors import InputError
from topologies.topology import Topology


@dataclass(frozen=True)
class Space:
    """What a search goes through."""

    training: Training
    gpus: int
    node: int
    """GPUs of a node: tensor parallel stays within it unless the user asks."""
    wanted: Mapping[str, Any]
    """The values of the user."""
    span: str = "no nodes"
    """Whether the GPUs are on one node, as the errors of plans tell apart."""
    like: str | None = None
    """The framework whose defaults plans have; None: as their degrees say."""

    @property
    def batch(self) -> int:
        """Sequences of a step: four for each GPU, if the user does not say."""
        return int(self.wanted.get("batch", 4 * self.gpus))

    def plans(self) -> tuple[list[Plan], Counter[str]]:
        """All plans, but for those that the model or the batch do not allow, which are counted by
        the reason. Raises InputError if there is none."""
        plans, left_out = list[Plan](), Counter[str]()
        for degrees in self._degrees():
            usual = {"sp": degrees["tp"] > 1, "overlap": True}
            stated = *self.wanted, *usual, "zero"
            first = replace(
                Plan(),
                **{**usual, **self.wanted, **degrees, "batch": self.batch, "stated": stated},
            )
            divisible = self._stages(first)
            if not divisible and not {"uneven", "layers"} & self.wanted.keys():
                first = replace(first, uneven=True)
            choices = list(self._choices(first, divisible or [1]))
            if reason := self._refused(first):
                left_out[reason] += len(choices)
                continue
            device = self.training.times.device
            known = {
                (v, zero): like_framework(replace(first, v=v, zero=zero), self.like, device)[0]
                for v in (1, 2)
                for zero in {zero for _, _, zero, _ in choices}
            }
            for micro, v, zero, recompute in choices:
                base = known[min(v, 2), zero]
                # Elsewhere the key changes nothing.
                overlap = base.overlap and zero < 2 and base.dp * base.cp > 1
                plan = replace(
                    base, micro=micro, v=v, zero=zero, recompute=recompute, overlap=overlap
                )
                if reason := self._unfit(plan):
                    left_out[reason] += 1
                else:
                    plans.append(plan)
        if not plans:
            counted = [f"{count} {reason}" for reason, count in left_out.most_common(3)]
            reasons = ", ".join(counted or ["the degrees do not multiply to the GPUs"])
            fixed = [key for key in self.wanted if key != "batch"]
            # Each number of GPUs divides such a batch.
            batch = -(-self.batch // self.gpus) * self.gpus
            hints = [f"leave out {', '.join(fixed)}"] if fixed else []
            hints += [f"take batch={batch}"] if batch != self.batch else []
            raise InputError(
                f"no plan of {self.training.name} on {self.gpus} GPUs with batch={self.batch}: "
                f"{reasons}: {' or '.join(hints) or 'take another number of GPUs'}"
            )
        return plans, left_out

    def changes(self, plan: Plan) -> list[dict[str, Any]]:
        """Changes of a plan with experts that no bound covers, and that the user has not decided:
        tokens in FP8, tokens that reach half as many nodes as experts (as in DeepSeek-V3, arXiv
        2412.19437), and DualPipe."""
        experts = self.training.shape.experts
        if experts is None or plan.ep == 1:
            return []
        nodes = -(-experts.top // 2)
        return _possible(
            (plan.dispatch == "bf16" and "dispatch" not in self.wanted, {"dispatch": "fp8"}),
            (
                plan.ep > nodes * self.node and not {"imbalance", "capacity"} & self.wanted.keys(),
                {"router": "zipf:0", "nodes": nodes},
            ),
            (plan.pp % 2 == 0 and "v" not in self.wanted, {"schedule": "dual_pipe", "v": 1}),
        )

    def _values(self, key: str, usual: Sequence[Any]) -> Sequence[Any]:
        return [self.wanted[key]] if key in self.wanted else usual

    def _degrees(self) -> Iterator[dict[str, int]]:
        divisors = _divisors(self.gpus)
        for tp, pp, cp in product(*(self._values(key, divisors) for key in ("tp", "pp", "cp"))):
            dp, rest = divmod(self.gpus, tp * pp * cp)
            if rest or dp not in self._values("dp", [dp]):
                continue
            shared, rest = divmod(dp * cp * tp, self.wanted.get("etp", tp))
            usual = _divisors(shared) if self.training.shape.experts else [1]
            for ep in self._values("ep", usual):
                if rest == shared % ep == 0:
                    yield {"dp": dp, "tp": tp, "pp": pp, "cp": cp, "ep": ep}

    def _stages(self, plan: Plan) -> list[int]:
        """The numbers of stages of a device that divide the layers."""
        layers = self.training.shape.blocks
        return [
            v
            for v in range(1, max(1, layers // plan.pp) + 1)
            if (v == 1 or plan.pp > 1) and stage_sizes(layers, plan, plan.pp * v)
        ]

    def _choices(self, plan: Plan, stages: list[int]) -> Iterator[tuple[int, int, int, str]]:
        """Micro-batch, stages of a device, stage of ZeRO and recomputation."""
        most = max(1, self.batch // plan.dp)
        return product(
            self._values("micro", [2**power for power in range(most.bit_length())]),
            self._values("v", stages),
            self._values("zero", [0, 1, 2, 3] if plan.pp == 1 else [0, 1]),
            self._values("recompute", WHOLE[:3]),
        )

    def _refused(self, plan: Plan) -> str:
        if "tp" not in self.wanted and plan.tp > self.node:
            return "tp reaches beyond a node"
        if self.batch % plan.dp:
            return "dp does not divide the batch"
        try:
            plan.check(self.training.shape, self.training.seq, self.training.name)
        except InputError:
            return "tp, cp or ep does not divide heads, tokens or experts"
        return ""

    def _unfit(self, plan: Plan) -> str:
        if clash := clash_of(plan):
            return clash
        batches, rest = divmod(self.batch, plan.dp * plan.micro)
        if rest:
            return "dp x micro does not divide the batch"
        if stage_sizes(self.training.shape.blocks, plan, plan.pp * plan.v) is None:
            return "pp x v does not divide the layers"
        if plan.v > 1 and batches % plan.pp:
            return "interleaved: pp does not divide the micro-batches"
        if plan.zero and plan.dp * plan.cp == 1 and "zero" not in self.wanted:
            return "zero shares nothing among one rank"
        unasked = "recompute" not in self.wanted
        if plan.recompute == "selective" and unasked and plan.attention != "unfused":
            return "selective recomputation saves nothing with fused attention"
        return ""


def parse_space(text: str) -> dict[str, Any]:
    """The values of "auto" or "auto,KEY=VALUE,...": what all plans of a search have. Raises
    InputError for a key that a search does not take.

    >>> parse_space("auto,tp=8")
    {'tp': 8}
    """
    _, _, rest = text.partition(",")
    values = parse_values(rest)
    usual = "schedule reshard shard sync fsdp ddp router seed nodes offload"
    for key in usual.split():
        if key in values:
            raise InputError(f"plan: {key} does not go with auto: leave it out, or write a plan")
    if clash := clash_of(replace(Plan(), **values, stated=tuple(values)), [*values, "lora"]):
        raise InputError(f"plan: {clash}")
    return values


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def advice(training: Training, plan: Plan, topology: Topology) -> str:
    """Up to three changes that each make a plan fit; if none does, changes that do together."""
    capacity = accelerator(training.times.device).capacity
    changes, least = dict[str, Any](), inf
    for _ in range(16):  # more changes together are another plan
        variant = replace(plan, **changes)
        options = [changes | change for change in _changes(training, variant)]
        plans = [plan_with(plan, training.times.device, **option) for option in options]
        peaks = [_peak(training, each, topology) for each in plans]
        if min(peaks, default=least) >= least:
            break
        best = peaks.index(min(peaks))
        if peaks[best] <= capacity:
            fitting = [place for place, nbytes in enumerate(peaks) if nbytes <= capacity]
            shown = [best] if changes else fitting[:3]
            words = [f"{_text(options[place])} ({bytes_cell(peaks[place])})" for place in shown]
            return f"take {' or '.join(words)}"
        changes, least = options[best], peaks[best]
    return "take more GPUs or a smaller model"


def _peak(training: Training, plan: Plan, topology: Topology) -> float:
    try:
        work = work_of(training, plan, GroupTimes(topology, plan.degrees))
    except InputError:
        return inf
    return memory_of(training, plan, work).peak


def _changes(training: Training, plan: Plan) -> list[dict[str, Any]]:
    """Changes of a plan that take less memory, the cheapest ones first."""
    batch, even = plan.sequences, plan.dp % 2 == 0
    unfused = plan.attention == "unfused" and plan.recompute == "none"
    narrow = training.times.narrow
    fuses = narrow and training.shape.gated and not plan.eager
    casts = narrow and not plan.fp8_gather and (plan.zero in (1, 2) or plan.lora)
    # Tensor parallel stays within the 8 GPUs of a usual node.
    half, whole, within = plan.dp // 2, plan.pp == 1, plan.tp < 8
    return _possible(
        (unfused, {"recompute": "selective"}),
        (plan.tp > 1 and not plan.sp, {"sp": True}),
        (casts, {"fp8_gather": True}),
        (fuses and not plan.fp8_activations, {"fp8_activations": True}),
        (plan.zero == 0, {"zero": 1}),
        (plan.zero <= 1 and whole, {"zero": 2}),
        (plan.zero <= 2 and whole, {"zero": 3}),
        (plan.shard != 0, {"shard": 0}),
        (plan.reshard is not True, {"reshard": True}),
        (not plan.sync, {"sync": True}),
        (plan.loss != "chunked", {"loss": "chunked"}),
        (plan.micro > 1, {"micro": plan.micro // 2, "batch": batch}),
        (plan.recompute != "full", {"recompute": "full"}),
        (even and within, {"dp": half, "tp": plan.tp * 2, "sp": True, "batch": batch}),
        (even, {"dp": half, "pp": plan.pp * 2, "batch": batch}),
    )


def _possible(*changes: tuple[object, dict[str, Any]]) -> list[dict[str, Any]]:
    """The changes that are possible."""
    return [change for possible, change in changes if possible]


def _text(change: Mapping[str, object]) -> str:
    return ",".join(f"{key}={'yes' if value is True else value}" for key, value in change.items())
