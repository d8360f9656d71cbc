"""Keys of a plan that change nothing, and more layers to compute again than there are."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from experiments.models.model_shapes import TransformerShape
from experiments.models.recomputation import parse_recomputation
from experiments.parallel.plan_step import stage_sizes
from experiments.parallel.plan_text import Plan
from topologies.errors import InputError


def idle_keys(plan: Plan, shape: TransformerShape, *, ideal: bool = False) -> Iterator[str]:
    """Sentences about keys that the user writes and that change nothing under the others, or where
    collectives have no law of NCCL (`ideal`)."""
    if ideal or plan.links == "ideal":
        for key in ("jitter", *["links"] * ideal):
            if key in plan.stated:
                yield f"{key} changes nothing: the law of NCCL is left out"
    single, in_buckets = plan.dp * plan.cp == 1, plan.overlap or plan.overlap_gather
    cases = (
        ("tp=1", plan.tp == 1, "sp overlap_tp pieces scatter"),
        ("sp=no", plan.tp > 1 and not plan.sp, "pieces"),
        ("sp=yes", plan.tp > 1 and plan.sp, "scatter"),
        ("pp=1", plan.pp == 1, "schedule blocking synchronous scatter uneven layers"),
        ("cp=1", plan.cp == 1, "context"),
        ("lora, which counts merged matrices", plan.lora, "merged"),
        ("one rank that holds each parameter", single, "zero overlap overlap_gather bucket"),
        (f"zero={plan.zero}", plan.zero >= 2 and not single, "overlap bucket"),
        (f"zero={plan.zero}", plan.zero != 1 and not single, "overlap_gather"),
        ("overlap=no", plan.zero < 2 and not (in_buckets or single), "bucket"),
        ("ep=1", shape.experts and plan.ep == 1, "dispatch dispatcher overlap_ep router"),
        (f"capacity={plan.capacity:g}", shape.experts and plan.capacity, "imbalance"),
        ("one micro-batch", plan.ep > 1 and plan.micro_batches == 1, "overlap_ep"),
        (
            "a model without experts",
            not shape.experts,
            "imbalance capacity dispatch dispatcher overlap_ep",
        ),
    )
    for reason, holds, keys in cases:
        idle = [
            key
            for key in keys.split()
            if key in plan.stated and getattr(plan, key) != getattr(Plan, key)
        ]
        if holds and idle:
            change = "changes" if len(idle) == 1 else "change"
            yield f"{', '.join(idle)} {change} nothing with {reason}"
    parts, experts = shape.parts, shape.parts["E"]
    has = {
        "attn": parts["*"] + parts["w"],
        "mamba": parts["M"],
        "mlp": parts["-"],
        "moe_router": experts,
        "moe_preprocess": experts and not plan.capacity,
    }
    absent = [word for word in plan.graphs.split("+") if not has.get(word, True)]
    if absent:
        yield f"graphs={'+'.join(absent)} changes nothing: no layer has it"


def check_recomputation(plan: Plan, shape: TransformerShape) -> None:
    """Raise InputError if a plan computes more layers of a stage again than there are, or each of
    so many that none is."""
    again = parse_recomputation(plan.recompute)
    sizes = stage_sizes(shape.blocks, plan, plan.stages) or [0]
    number = again.every if again.first == inf else again.first
    if again.is_partial and 0 < max(sizes) < number:
        word = plan.recompute.partition("/")[0].partition(":")[0]
        raise InputError(
            f"plan: recompute={plan.recompute}: a stage has {max(sizes)} layers: take "
            f"recompute={word}{':' if again.first < inf else '/'}{max(sizes)} or less"
        )
