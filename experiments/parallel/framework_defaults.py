"""What a framework does where a plan does not say.

The table of this module has the values of keys by framework: for plans with `plans`, on `devices`.
Those of Megatron are of megatron/core/model_parallel_config.py and of Megatron-Bridge's recipes.
Those of torchtitan are of torchtitan/config/job_config.py, models/attention.py (cuDNN comes first),
models/llama3/model.py (a matrix each for queries, keys, values and both in front of the gate),
models/llama3/infra/parallelize.py (collectives of sequence parallelism wait, but for async TP) and
torch.distributed.pipelining (the last micro-batch reduces gradients). Those of DeepSpeed are
recalled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from experiments.parallel.plan_text import BY_FRAMEWORK, Plan, parse_values
from experiments.shipped_tables import rows_of
from topologies.errors import InputError, did_you_mean


@cache
def _rows(framework: str, device: str) -> list[Mapping[str, Any]]:
    """The defaults of a framework on a device. Raises InputError for an unknown framework."""
    rows = rows_of(Path(__file__).with_suffix(".csv"))
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
