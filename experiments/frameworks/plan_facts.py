"""The keys of a plan from the facts of a job of Megatron or torchtitan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.frameworks.facts import JobFacts, is_off, rows_by_name
from experiments.frameworks.settings import FileSetting, words_of
from experiments.models.accelerators import NARROW
from experiments.models.block_cut import GRAPHS, parse_recomputation
from experiments.models.model_shapes import TransformerShape
from experiments.parallel.plan_text import (
    BY_FRAMEWORK,
    KEYS,
    LEAST_ZERO,
    Plan,
    layer_numbers,
    parse_values,
)
from experiments.pipeline_files import find_order
from topologies.errors import InputError

_SINGLE = ("1f1b", "gpipe")
"""Schedules in which torchtitan gives each device one stage, and others two."""
_RECOMPUTATION = "recompute_modules", "recompute_layers", "selective_option", "recompute_mode"
"""The facts that say what is computed again."""
_LONGEST = 4096
"""Letters of the longest layout of stages."""


def plan_of(
    facts: JobFacts, shape: TransformerShape | None, gpus: int | None, user_keys: Mapping[str, str]
) -> str:
    """The plan of a job as text, for a model and a number of GPUs, if they are known. `user_keys`
    count more than those of the file.

    What no key says is remarked. Raises InputError, with the place, for a value that makes no
    sense.
    """
    write = _megatron if facts.framework == "megatron" else _torchtitan
    facts.settings |= {key: FileSetting(key, value, "plan") for key, value in user_keys.items()}
    if shape is not None and not shape.experts:
        facts.settings.pop("etp", None)
    direct = {
        key: facts.settings[key].value
        for key in rows_by_name(facts.framework, "key")
        if key in facts.settings
    }
    keys = {**direct, **write(facts, shape.blocks if shape else 0, gpus)}
    for key in _conflicts(parse_values(",".join("=".join(pair) for pair in user_keys.items()))):
        keys.pop(key, None)
    keys |= user_keys
    texts = {
        key: {"true": "yes", "false": "no"}.get(word := words_of(value), word)
        for key, value in keys.items()
    }
    return ",".join(
        f"{key}={texts[key]}"
        for key in KEYS
        if texts.get(key) and (key in user_keys or _is_written(facts, key, texts[key]))
    )


def _conflicts(values: Mapping[str, Any]) -> Iterator[str]:
    """The keys of a file that do not go with values of the user."""
    zero, precision = values.get("zero"), values.get("precision", "fp8")
    yield from (key for key, least in LEAST_ZERO.items() if zero is not None and zero < least)
    if zero:
        yield "ddp"
    if precision != "fp8":
        yield "scaling"
    if precision not in NARROW:
        yield from ("bf16_layers", "fp8_gather")
    if parse_recomputation(values.get("recompute", "full")).words != ("full",):
        yield "stops"
    if values.get("lora") == 0:
        yield "adapters"


def _is_written(facts: JobFacts, key: str, value: str) -> bool:
    """Whether the text of a plan has a value, since it is not the usual one. A value that no key
    has is remarked. Raises InputError, with the place, for a fact that simctl cannot read."""
    try:
        parsed = parse_values(f"{key}={value}")[key]
    except InputError as error:
        if key in facts:
            raise InputError(f"{facts.settings[key]}: {error}") from None
        for name in [name for name in _RECOMPUTATION if name in facts][:1]:
            facts.say(name, "no key of a plan says this")
        return False
    return key in ("micro", "batch", *BY_FRAMEWORK) or bool(parsed != getattr(Plan, key))


def _megatron(facts: JobFacts, blocks: int, gpus: int | None) -> dict[str, Any]:
    tp, pp, v = facts["tp"], facts["pp"], facts["v"]
    layout = _stages_of(facts["layout"]) if "layout" in facts and pp > 1 else []
    if layout:
        v = max(1, len(layout) // pp)
    elif (chunk := facts["chunk_layers"]) and "v" not in facts:
        v = max(1, blocks // (pp * chunk))
    shares = _layout(facts, layout, blocks) or _uneven_stages(facts, blocks, pp, v)
    most_layers = max(layer_numbers(shares)) if shares else -(-blocks // (pp * v))
    zero = int(facts["distributed_optimizer"])
    if facts["torch_fsdp"]:
        zero = 3
    elif facts["megatron_fsdp"]:
        zero = facts["sharding"]
    if str(zero) == "2" and facts["gathers_early"]:
        facts.say("gathers_early", "with zero=2 parameters are gathered behind the optimizer")
    dropouts = (facts[f"{of}_dropout"] for of in ("hidden", "attention"))
    layers = [word for word in ("embedding", "loss") if facts[f"counts_{word}"]]
    adapts_mlps = any(word in facts["adapted"] for word in ("fc", "mlp"))
    return {
        "sp": tp > 1 and facts["sequence_parallel"],
        "pieces": tp > 1 and facts["pieces"],
        # Other plans have Megatron's loss anyway.
        "loss": "fused" if tp == pp == 1 else "",
        "zero": zero,
        "overlap_gather": str(zero) == "1" and facts["gathers_early"],
        "v": v if pp > 1 else 1,
        "dropout": any(facts.is_arguments if drop is None else drop for drop in dropouts),
        "synchronous": facts["waits"] if v > 1 and pp > 1 else "",
        "layers": shares or "+".join(layers),
        "adapters": "all" if "lora" in facts and adapts_mlps else "",
        "offload": facts["offloaded_layers"] if facts["is_offloading"] else "",
        "recompute": _recomputation(facts, most_layers),
        "graphs": _graphs(facts) if "graphs" in facts else "",
        **_precision(facts, zero),
    }


def _stages_of(layout: str) -> list[str]:
    """The stages of a layout like Et*3|(tt|)*6mL of Megatron-LM
    (megatron/core/transformer/pipeline_parallel_layer_layout.py): E is the embedding, t a layer, m
    an MTP block, L the loss. In nested files these are words."""
    for word, letter in (("embedding", "E"), ("decoder", "t"), ("mtp", "m"), ("loss", "L")):
        layout = layout.replace(word, letter)
    layout = layout.replace(",", "")
    for pattern in (r"\(([^()]{1,99})\)\*(\d{1,3})", r"(.)\*(\d{1,3})"):
        layout = re.sub(pattern, lambda each: each[1] * int(each[2]), layout[:_LONGEST])
    return layout[:_LONGEST].split("|")


def _layout(facts: JobFacts, stages: Sequence[str], blocks: int) -> str:
    """The layers of each stage of a layout. Raises InputError for more or fewer than the model and
    its pipeline have."""
    text = "|".join(stages)
    if stages and not re.fullmatch(r"E[t|]*m*L", text):
        facts.say("layout", "the embedding comes first, MTP blocks and the loss last")
        return ""
    counts = [stage.count("t") for stage in stages]
    if stages and "layers" not in facts:
        if len(stages) % (pp := facts["pp"]):
            wrong = f"{len(stages)} stages are not a multiple of pp={pp}"
            raise InputError(f"{facts.settings['layout']}: {wrong}")
        if blocks and sum(counts) != blocks:
            wrong = f"{sum(counts)} layers, and the model has {blocks}"
            raise InputError(f"{facts.settings['layout']}: {wrong}")
    return "+".join(map(str, counts)) if len(set(counts)) > 1 else ""


def _uneven_stages(facts: JobFacts, blocks: int, pp: int, v: int) -> str:
    """The layers of each stage, if the first or the last one has a number of its own."""
    ends = [facts["first_layers"], facts["last_layers"]]
    if pp == 1 or not any(ends):
        return ""
    if v > 1 or not blocks:
        reason = "write layers=10+6x12+10" if blocks else "the file does not say the model"
        facts.say("first_layers" if ends[0] else "last_layers", reason)
        return ""
    size = max(0, blocks - sum(ends)) // max(1, pp - sum(end > 0 for end in ends))
    sizes = [ends[0] or size, *[size] * (pp - 2), ends[1] or size]
    return "+".join(map(str, sizes))


def _recomputation(facts: JobFacts, most_layers: int) -> str:
    """What is computed again. The largest stage has `most_layers`; 0: unknown. Raises
    InputError for more."""
    granularity = facts["recompute_granularity"]
    if facts["recompute_experts"]:
        return "moe"
    if facts["recompute_activations"] or granularity == "selective":
        modules = facts["recompute_modules"].replace(",", "+")
        return "selective" if modules == "core_attn" else str(modules)
    if granularity == "full" and facts["recompute_method"] == "block":
        if 0 < most_layers < facts["recompute_layers"] and "recompute" not in facts:
            raise InputError(
                f"{facts.settings['recompute_layers']}: a stage has {most_layers} layers"
            )
        return f"full:{facts['recompute_layers']}"
    # With the method uniform, a number of layers is that of a chunk whose input is kept.
    if granularity == "full" and facts["recompute_layers"] > 1:
        facts.say("recompute_layers", "each layer keeps its input")
    return str(granularity)


def _graphs(facts: JobFacts) -> str:
    """The modules that have a CUDA graph. Without a scope, whole layers have."""
    scope = facts["graph_scope"]
    modules = re.findall(r"\w+", scope)
    if is_off(scope) or {"full", "full_iteration"} & {*modules}:
        return "yes"
    if outsiders := [module for module in modules if module not in GRAPHS]:
        facts.say("graph_scope", f"graphs hold {', '.join(GRAPHS)}, not {', '.join(outsiders)}")
    return "+".join(module for module in GRAPHS if module in modules)


def _precision(facts: JobFacts, zero: object) -> dict[str, Any]:
    narrow = facts["fp4"] or (facts["fp8"] and facts["fp8_recipe"]) or facts["precision_recipe"]
    if not narrow and facts["fp16"]:
        facts.say("fp16", "simctl takes the times and bytes of bf16")
    elif not narrow and facts.is_arguments and not facts["bf16"]:
        return {"precision": "fp32"}
    if narrow in ("", "fp32"):
        return {"precision": narrow}
    return {
        # Tensors that are scaled as they are now are fp8 too.
        "precision": "fp8" if narrow == "current" else narrow,
        "scaling": "current" if narrow == "current" else "",
        "bf16_layers": f"{facts['start_bf16']}+{facts['end_bf16']}"
        if facts["has_bf16_ends"]
        else "",
        "fp8_gather": (zero not in (0, "0") or "lora" in facts) and facts["narrow_gather"],
    }


def _stages(facts: JobFacts, blocks: int, pp: int) -> dict[str, Any]:
    """The stages of torchtitan's pipelines: the embedding and the head count as layers, and the
    first stages have a layer more (torchtitan/distributed/pipeline_parallel.py)."""
    ends, schedule = [facts["first_fewer"], facts["last_fewer"]], facts["schedule"]
    total, v = blocks + sum(ends), 1 if schedule in _SINGLE else 2
    if chunk := facts["chunk_layers"]:
        v = max(1, -(-total // chunk) // pp)
    if pp * v > total:
        return {"v": v}
    size, more = divmod(total, pp * v)
    sizes = [size + (stage < more) for stage in range(pp * v)]
    sizes[0] -= ends[0]
    sizes[-1] -= ends[1]
    return {
        # Others, like zb_v, always have two stages a device.
        "v": v if "chunks" in find_order(schedule).options else "",
        "layers": "+".join(map(str, sizes)) if len(set(sizes)) > 1 else "",
    }


def _torchtitan(facts: JobFacts, blocks: int, gpus: int | None) -> dict[str, Any]:
    tp, pp, cp, replicas = (facts[key] for key in ("tp", "pp", "cp", "replicas"))
    shards, local = facts["shards"], facts["local_batch"]
    if shards < 1 and gpus is not None:
        shards = max(1, gpus // (tp * pp * cp * replicas))
    keys = {
        "dp": replicas * shards if shards > 0 else "",
        "sp": tp > 1,
        "pieces": tp > 1 and facts["async_tp"],
        "overlap_tp": tp == 1 or facts["async_tp"],
        "merged": False,
        "micro": facts["micro"] if pp > 1 else local,
    }
    if shards * cp == 1 and replicas > 1:
        keys["ddp"] = "yes"
    elif shards * cp != 1:
        keys |= {"zero": 3, "reshard": facts["reshard_after"] or pp == 1}
        # Under a pipeline, only the last micro-batch reduces gradients.
        keys["sync"] = pp == 1
        if replicas > 1 and shards > 0:
            keys["shard"] = shards * cp
        elif replicas > 1:
            facts.say("replicas", "say on how many GPUs, like --gpus 64")
    if facts["batch"] == "-1":
        keys["batch"] = local * replicas * shards if shards > 0 else ""
        if pp > 1 and shards < 1:
            facts.remarks.append("the batch grows with the GPUs: say how many, like --gpus 64")
    if pp == 1:
        keys["schedule"] = ""
    else:
        keys |= {"synchronous": False} | (_stages(facts, blocks, pp) if blocks else {})
    mode, option = facts["recompute_mode"], facts["selective_option"]
    if mode == "selective":
        mode = "op" if option == "op" else "full" if option == "1" else f"full/{option}"
    compiled = facts["components"] if facts["compiled"] else ""
    keys |= {
        "recompute": mode,
        "stops": mode.startswith("full") and facts["early_stop"],
        "compiled": "model" in compiled,
        "eager": "model" not in compiled,
        "loss": "compiled" if "loss" in compiled else "eager",
    }
    if facts["is_float8"] or "float8" in facts["converters"]:
        keys |= {"precision": "fp8", "scaling": facts["float8_recipe"]}
        rowwise = facts["float8_recipe"] == "rowwise"
        keys["fp8_gather"] = keys.get("zero") == 3 and facts["narrow_gather"] and not rowwise
        if rowwise and facts["narrow_gather"]:
            facts.say("narrow_gather", "with scales of rows parameters are gathered in bf16")
    elif "mx" in facts["converters"]:
        keys["precision"] = "mxfp8"
    return keys
