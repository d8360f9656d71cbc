"""Keys of a plan: what a framework does where a plan does not say, and keys that change nothing.

`framework_defaults.csv` has the values of keys by framework: for plans with `plans`, on `devices`.
Those of Megatron are of megatron/core/model_parallel_config.py and of Megatron-Bridge's recipes.
Those of torchtitan are of torchtitan/config/job_config.py, models/attention.py (cuDNN comes first),
models/llama3/model.py (a matrix each for queries, keys, values and both in front of the gate),
models/llama3/infra/parallelize.py (collectives of sequence parallelism wait, but for async TP) and
torch.distributed.pipelining (the last micro-batch reduces gradients). Those of DeepSpeed are
recalled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from experiments.models.block_cut import parse_recomputation
from experiments.models.model_shapes import TransformerShape
from experiments.parallel.plan_step import stage_sizes
from experiments.parallel.plan_text import BY_FRAMEWORK, Plan, parse_values
from experiments.shipped_tables import rows_of
from topologies.errors import InputError, did_you_mean


@cache
def _rows(framework: str, device: str) -> list[Mapping[str, Any]]:
    """The defaults of a framework on a device. Raises InputError for an unknown framework."""
    rows = rows_of(Path(__file__).with_name("framework_defaults.csv"))
    names = list(dict.fromkeys(row["framework"] for row in rows))
    if framework not in names:
        hint = did_you_mean(framework, names)
        raise InputError(f"--like {framework[:40]!r}: {hint}there are {', '.join(names)}")
    return [
        {**row, **parse_values(f"{row['key']}={row['value']}")}
        for row in rows
        if row["framework"] == framework
        and any(fnmatchcase(device, each) for each in (row["devices"] or "*").split())
    ]


def like_framework(plan: Plan, like: str | None, device: str) -> tuple[Plan, str]:
    """The plan where keys that the user leaves out have the values of a framework, and these values
    in words: "megatron: attention=flash3".

    Without `like`, plans with tp or pp above 1 are those of Megatron, and others those of
    torchtitan. They then take only what says how kernels and transfers run, and share the work as
    the plan says. Raises InputError for an unknown framework.
    """
    usual = "megatron" if plan.tp > 1 or plan.pp > 1 else "torchtitan"
    framework = usual if like is None else like
    words = list[str]()
    for row in _rows(framework, device):
        key = row["key"]
        if key in plan.stated or not (like or row["implied"] == "yes"):
            continue
        holds = all(_holds(plan, each) for each in row["plans"].split())
        if holds and row[key] != getattr(plan, key):
            implied = plan.implied if like else (*plan.implied, key)
            plan = replace(plan, **{key: row[key]}, implied=implied)
            words.append(f"{key}={row['value']}")
    return plan, f"{framework}: {', '.join(words)}" if words else ""


def plain(plan: Plan) -> Plan:
    """The plan without the defaults that it takes when no framework is named."""
    usual = {key: getattr(Plan, key) for key in BY_FRAMEWORK if key not in plan.stated}
    return replace(plan, **usual)


def plan_with(plan: Plan, device: str, **values: Any) -> Plan:
    """The plan with other values of keys, and with the defaults that it then takes."""
    variant = replace(plan, **values)
    if not plan.implied:
        return variant
    return like_framework(replace(plain(variant), implied=()), None, device)[0]


def _holds(plan: Plan, condition: str) -> bool:
    """Whether a condition like tp>1 or zero=3 holds for a plan."""
    key, sign, value = re.split("([>=])", condition)
    number = getattr(plan, key)
    return bool(number > int(value)) if sign == ">" else str(number) == value


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
