"""The keys of a plan from the facts of a job of Megatron or torchtitan."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.frameworks.facts import JobFacts, is_off, plan_keys
from experiments.frameworks.settings import FileSetting
from experiments.models.model_shapes import TransformerShape
from experiments.parallel.plan_text import BY_FRAMEWORK, KEYS, Plan, parse_values
from experiments.pipeline_files import find_order
from topologies.errors import InputError

_PRECISIONS = {
    "bf16_with_fp8_delayed_scaling_mixed": "fp8",
    "bf16_with_fp8_current_scaling_mixed": "current",
    "bf16_with_fp8_subchannel_scaling_mixed": "fp8_block",
    "bf16_with_mxfp8_mixed": "mxfp8",
    "bf16_with_nvfp4_mixed": "nvfp4",
    "32-true": "fp32",
}
"""The precisions of Megatron-Bridge's recipes that are not bf16."""
_SINGLE = ("1f1b", "gpipe")
"""Schedules in which torchtitan gives each device one stage, and others two."""
_SOURCES = {
    "precision": ("fp4", "fp8", "precision_recipe", "converters", "bf16"),
    "compiled": ("is_compiled",),
    "dispatcher": ("dispatcher_kind",),
    "adapters": ("adapted",),
    "recompute": ("recompute_modules", "recompute_layers", "selective_option", "recompute_mode"),
}
"""The facts that say what a key is."""


def plan_of(
    facts: JobFacts, shape: TransformerShape | None, gpus: int | None, stated: Mapping[str, str]
) -> str:
    """The plan of a job as text, for a model and a number of GPUs, if they are known. Keys that the
    user `stated` count more than those of the file.

    What no key says is remarked. Raises InputError, with the place, for a value that makes no
    sense.
    """
    write = _megatron if facts.framework == "megatron" else _torchtitan
    facts.known |= {key: FileSetting(key, value, "plan") for key, value in stated.items()}
    if shape is not None and not shape.experts:
        facts.known.pop("etp", None)
    known = plan_keys(facts.framework) & facts.known.keys()
    direct = {key: _value(facts, key) for key in known}
    keys = {**direct, **write(facts, shape.blocks if shape else 0, gpus), **stated}
    keys = {key: value for key, value in keys.items() if value}
    return ",".join(
        f"{key}={keys[key]}"
        for key in [*KEYS, *(keys.keys() - set(KEYS))]
        if key in keys and (key in stated or _is_said(facts, key, keys[key]))
    )


def _value(facts: JobFacts, key: str) -> str:
    return {"true": "yes", "false": "no"}.get(facts.word(key), facts.word(key))


def _is_said(facts: JobFacts, key: str, value: str) -> bool:
    """Whether a plan says that a key has a value; a value that no key has is remarked. Raises
    InputError, with the place, for a fact that simctl cannot read."""
    source = next((name for name in (*_SOURCES.get(key, ()), key) if name in facts), "")
    try:
        parsed = parse_values(f"{key}={value}")[key]
    except InputError as error:
        if source == key and key in KEYS:
            raise InputError(f"{facts.known[key]}: {error}") from None
        if source:
            facts.say(source, "no key of a plan says this")
        return False
    written = key in ("micro", "batch", *BY_FRAMEWORK)
    return written or bool(parsed != getattr(Plan, key))


def _megatron(facts: JobFacts, blocks: int, gpus: int | None) -> dict[str, str]:
    (tp, pp), keys = (facts.whole(key, 1, 1) for key in ("tp", "pp")), dict[str, str]()
    if tp > 1 and facts.yes("sequence_parallel"):
        keys["sp"] = "yes"
    elif tp == 1:
        keys["pieces"] = "no"
    if tp == pp == 1:
        # Other plans have Megatron's loss anyway.
        keys["loss"] = "fused"
    keys["zero"] = "1" if facts.yes("distributed_optimizer") else "0"
    if facts.yes("torch_fsdp"):
        keys["zero"] = "3"
    elif facts.yes("megatron_fsdp"):
        keys["zero"] = facts.word("sharding", "0")
    if chunk := facts.whole("chunk_layers", 0, 0):
        keys["v"] = str(max(1, blocks // (pp * chunk)))
    if facts.yes("bf16_gradients") or not facts.yes("fp32_gradients", True):
        keys["grads"] = "bf16"
    if facts.word("attention_backend") == "unfused":
        keys["attention"] = "unfused"
    drops = (f"{of}_dropout" for of in ("hidden", "attention"))
    if any(facts.is_positive(name, facts.is_arguments) for name in drops):
        keys["dropout"] = "yes"
    v = facts.whole("v", int(keys.get("v", "1")), 1)
    if v > 1 and pp > 1:
        waits = facts.yes("no_overlap_p2p") or not facts.yes("overlap_p2p", True)
        keys["synchronous"] = "yes" if waits else "no"
    counted = [word for word in ("embedding", "loss") if facts.yes(f"counts_{word}")]
    keys["layers"] = "+".join(counted)
    if sizes := _uneven_stages(facts, blocks, pp, v):
        keys["layers"] = sizes
    adapted = facts.word("adapted", "linear_qkv,linear_proj")
    if "lora" in facts and ("fc" in adapted or "mlp" in adapted):
        keys["adapters"] = "all"
    keys |= _recomputation(facts) | _precision(facts)
    narrow = keys.get("precision", "fp32") not in ("fp32", "bf16")
    if narrow and keys["zero"] != "0" and facts.yes("narrow_gather"):
        keys["fp8_gather"] = "yes"
    if facts.word("dispatcher_kind") == "flex":
        keys["dispatcher"] = "deepep"
    if any(facts.yes(f"{kind}_graphs") for kind in ("local", "external", "kind")):
        keys["graphs"] = "yes"
    if facts.yes("is_offloading"):
        keys["offload"] = str(facts.whole("offloaded_layers", 0))
    return keys


def _uneven_stages(facts: JobFacts, blocks: int, pp: int, v: int) -> str:
    """The layers of each stage, if the first or the last one has a number of its own."""
    ends = [facts.whole(f"{end}_layers", 0, 0) for end in ("first", "last")]
    if pp == 1 or not any(ends):
        return ""
    if v > 1 or not blocks:
        reason = "write layers=10+6x12+10" if blocks else "the file does not say the model"
        facts.say("first_layers" if ends[0] else "last_layers", reason)
        return ""
    size = max(0, blocks - sum(ends)) // max(1, pp - sum(end > 0 for end in ends))
    sizes = [ends[0] or size, *[size] * (pp - 2), ends[1] or size]
    return "+".join(map(str, sizes))


def _recomputation(facts: JobFacts) -> dict[str, str]:
    granularity = facts.word("recompute_granularity", "null")
    if facts.yes("recompute_activations"):
        granularity = "selective"
    if facts.yes("recompute_experts"):
        return {"recompute": "moe"}
    if granularity == "selective":
        modules = facts.word("recompute_modules", "core_attn").replace(",", "+")
        return {"recompute": "selective" if modules == "core_attn" else modules}
    if granularity != "full":
        if not is_off(granularity):
            facts.say("recompute_granularity", "simctl knows full and selective")
        return {}
    # With the method uniform, a number of layers is that of a chunk whose input is kept.
    count = facts.whole("recompute_layers", 1)
    if facts.word("recompute_method") == "block":
        return {"recompute": f"full:{count}"}
    if count > 1:
        facts.say("recompute_layers", "each layer keeps its input")
    return {"recompute": "full"}


def _precision(facts: JobFacts) -> dict[str, str]:
    off = ("null", "none", "false", "")
    precision = _PRECISIONS.get(facts.word("precision_recipe"), "")
    if facts.word("fp4", "null").lower() not in off:
        precision = "nvfp4"
    elif facts.word("fp8", "null").lower() not in off:
        precision = facts.word("fp8_recipe", "fp8")
    if precision not in ("", "fp32"):
        ends = "+".join(str(facts.whole(f"{end}_bf16", 1, 0)) for end in ("start", "end"))
        bf16 = {"bf16_layers": ends} if facts.yes("has_bf16_ends") else {}
        # Tensors that are scaled as they are now are fp8 too.
        scaling = {"scaling": "current"} if precision == "current" else {}
        return {"precision": "fp8" if scaling else precision, **scaling, **bf16}
    if precision:
        return {"precision": precision}
    if facts.yes("fp16"):
        facts.say("fp16", "simctl takes the times and bytes of bf16")
    if facts.is_arguments and not facts.yes("bf16") and not facts.yes("fp16"):
        return {"precision": "fp32"}
    return {}


def _stages(facts: JobFacts, blocks: int, pp: int) -> dict[str, str]:
    """The stages of torchtitan's pipelines: the embedding and the head count as layers, and the
    first stages have a layer more (torchtitan/distributed/pipeline_parallel.py)."""
    ends = [facts.whole(f"{end}_fewer", 1) for end in ("first", "last")]
    total, v = blocks + sum(ends), 1 if facts.word("schedule", "1f1b") in _SINGLE else 2
    if chunk := facts.whole("chunk_layers", 0, 0):
        v = max(1, -(-total // chunk) // pp)
    if pp * v > total:
        return {"v": str(v)}
    # Others, like zb_v, always have two stages a device.
    chosen = "chunks" in find_order(facts.word("schedule", "1f1b")).options
    size, more = divmod(total, pp * v)
    sizes = [size + (stage < more) for stage in range(pp * v)]
    sizes[0] -= ends[0]
    sizes[-1] -= ends[1]
    return {
        "v": str(v) if chosen else "",
        "layers": "+".join(map(str, sizes)) if len(set(sizes)) > 1 else "",
    }


def _torchtitan(facts: JobFacts, blocks: int, gpus: int | None) -> dict[str, str]:
    tp, pp, cp, replicas = (facts.whole(key, 1, 1) for key in ("tp", "pp", "cp", "replicas"))
    shards = facts.whole("shards", -1, -1)
    if shards < 1 and gpus is not None:
        shards = max(1, gpus // (tp * pp * cp * replicas))
    keys = {"sp": "yes" if tp > 1 else "no"}
    if shards > 0:
        keys["dp"] = str(replicas * shards)
    if shards * cp == 1 and replicas > 1:
        keys["ddp"] = "yes"
    elif shards * cp != 1:
        keys |= {"zero": "3", "reshard": "yes" if pp == 1 else "no"}
        if facts.word("reshard_after", "default") != "default":
            keys["reshard"] = facts.word("reshard_after")
        # Under a pipeline, only the last micro-batch reduces gradients.
        keys["sync"] = "yes" if pp == 1 else "no"
        if replicas > 1 and shards > 0:
            keys["shard"] = str(shards * cp)
        elif replicas > 1:
            facts.say("replicas", "say on how many GPUs, like --gpus 64")
    if facts.yes("async_tp") and tp > 1:
        keys["pieces"] = "yes"
    local = facts.whole("local_batch", 8, 1)
    keys["micro"] = facts.word("micro", "1") if pp > 1 else str(local)
    if facts.word("batch", "-1") == "-1":
        keys["batch"] = str(local * replicas * shards) if shards > 0 else ""
        if pp > 1 and shards < 1:
            facts.remarks.append("the batch grows with the GPUs: say how many, like --gpus 64")
    if pp == 1:
        keys["schedule"] = ""
    else:
        keys |= {"synchronous": "no"} | (_stages(facts, blocks, pp) if blocks else {})
    mode, option = facts.word("recompute_mode", "selective"), facts.word("selective_option", "2")
    if mode == "selective":
        mode = "op" if option == "op" else "full" if option == "1" else f"full/{option}"
    keys |= {"recompute": mode, "stops": "yes" if facts.yes("early_stop") else "no"}
    converters = facts.word("converters") + " float8" * facts.yes("is_float8")
    if "float8" in converters:
        keys |= {"precision": "fp8", "scaling": "current"}
    elif "mx" in converters:
        keys["precision"] = "mxfp8"
    if "float8" in converters and keys.get("zero") == "3" and facts.yes("narrow_gather"):
        keys["fp8_gather"] = "yes"
    compiled = facts.word("components", "model,loss") if facts.yes("is_compiled") else ""
    keys["compiled"] = "yes" if "model" in compiled else ""
    keys["loss"] = "compiled" if "loss" in compiled else "eager"
    return keys
