"""A plan of parallel training as the user writes it: dp=8,tp=4,pp=2,micro=1,batch=512,zero=1."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from experiments.models.accelerators import PRECISIONS
from experiments.models.block_cut import BlockCut, Degree, parse_recomputation
from experiments.pipeline_files import find_order
from simulator.collectives.routers import parse_zipf
from simulator.parallel.degrees import ORDER, Degrees
from simulator.parallel.pipelines import PipelineOrder
from simulator.training.buckets import DEFAULT
from topologies.errors import InputError, nearest_name
from topologies.option_text import PARSERS, Parser, parse_at_least, parse_pairs
from topologies.units import format_bytes, parse_bytes, parse_yes

LAYER_WORDS = "embedding", "loss", "embedding+loss"
"""What counts as a layer when stages share them, as with Megatron-LM's
`--account-for-embedding-in-pipeline-split` and `--account-for-loss-in-pipeline-split`."""


def _parse_reshard(text: str) -> bool | int:
    if not text.isdecimal():
        return parse_yes(text)
    if int(text) < 2:
        raise InputError("yes, no, or a number of 2 or more")
    return int(text)


def layer_numbers(text: str) -> list[int]:
    """The layers of each stage.

    >>> layer_numbers("10+2x12+9")
    [10, 12, 12, 9]
    """
    parts = [part.rpartition("x")[::2] for part in text.split("+")]
    return [int(size) for times, size in parts for _ in range(int(times or 1))]


def _parse_layers(text: str) -> str:
    number = r"(?:[1-9]\d{0,2}x)?\d{1,4}"
    if text in LAYER_WORDS or re.fullmatch(rf"{number}(?:\+{number}){{0,511}}", text, re.ASCII):
        return text
    raise InputError(f"{', '.join(LAYER_WORDS)}, or the layers of each stage, like 10+6x12+10")


def _parse_router(text: str) -> str:
    parse_zipf(text)
    return text


def _parse_choice(known: Sequence[object], text: str) -> object:
    names = {str(value): value for value in known}
    if text not in names:
        *first, last = names
        value = "" if isinstance(known[0], int) else f"{text[:40]!r}: "
        raise InputError(f"{value}{', '.join(first)} or {last}")
    return names[text]


@dataclass(frozen=True)
class Plan(BlockCut):
    """A plan. Its fields are the keys that the user writes, and their types say what reads them."""

    dp: Degree = 0
    """Data parallel: copies of the model. By default all GPUs that are left."""
    pp: Degree = 1
    """Pipeline parallel: devices of a pipeline."""
    batch: Degree = 0
    """Sequences of a step. By default 4 micro-batches for each device of a pipeline."""
    precision: Annotated[str, partial(_parse_choice, [*PRECISIONS])] = ""
    """What the layers multiply in, a name of PRECISIONS. By default the dtype of the model."""
    fp8_gather: bool = False
    """Below 16 bits, with zero=1 to 3 or lora: whether parameters are held and gathered cast,
    without a copy in 16 bits."""
    zero: Annotated[int, partial(_parse_choice, range(4))] = 0
    """What data-parallel ranks share: 1 the optimizer, 2 gradients too, 3 parameters too (FSDP);
    0: nothing."""
    moments: Literal["fp32", "bf16"] = "fp32"
    """The dtype of the two moments of Adam."""
    reshard: Annotated[bool | int, _parse_reshard] = True
    """With zero=3: yes frees parameters behind the forward and gathers them again, no keeps them, a
    number keeps them in runs of so many ranks."""
    shard: int = 0
    """With zero=2 or 3: ranks that share gradients and parameters. Others sum up (hybrid sharding).
    0: all."""
    sync: bool = True
    """With zero=2 or 3: whether each micro-batch reduces gradients, or only the last one."""
    fsdp: int = 2
    """With zero=3: the version of PyTorch's FSDP, 1 or 2."""
    schedule: str = ""
    """The order of the pipeline, like gpipe, or FILE.csv. By default 1f1b, or interleaved if v is
    above 1."""
    v: Degree = 1
    """Stages of each device."""
    overlap: bool = False
    """Whether gradients are reduced beside the last backward."""
    overlap_gather: bool = False
    """With zero=1: whether parameters are gathered beside the first forward of the next step."""
    bucket: Annotated[float, parse_bytes] = 160 * 2.0**20
    """Bytes of gradients that are reduced together, with `overlap`, and of those whose parameters
    are gathered together, with `overlap_gather`."""
    ddp: Literal["no", "yes", "view"] = "no"
    """With zero=0: whether gradients are reduced by PyTorch's DDP, which copies them into buckets
    and back. view: gradients are views of buckets. `overlap` is then yes, and `bucket` 25MiB,
    unless the plan says otherwise."""
    blocking: bool = False
    """Whether both ends of a transfer between stages wait for its end."""
    synchronous: bool = True
    """Whether CPU and device wait for the end of transfers that they send between stages."""
    scatter: bool = False
    """Whether each rank of tensor parallel sends its share to the next stage, which gathers it."""
    slowdown: float = 0.0
    """By which share a computation takes longer while its device communicates."""
    links: Literal["nccl", "ideal"] = "nccl"
    """What collectives take on a machine of GPUs: what NCCL was measured to take, or what links
    take alone."""
    jitter: bool = True
    """Whether ranks enter collectives at different moments, so that each waits for the last one.
    On links alone they never do."""
    uneven: bool = False
    """Whether stages may differ by a layer."""
    layers: Annotated[str, _parse_layers] = ""
    """How stages share the layers: the number of each stage, like 10+6x12+10, or what counts as a
    layer: embedding, loss or embedding+loss. By default evenly."""
    offload: Annotated[int, parse_at_least(0)] = 0
    """The first layers of each stage whose activations wait in the memory of the host."""
    router: Annotated[str, _parse_router] = ""
    """How tokens choose experts, like zipf:1.2: the larger, the more uneven. By default evenly."""
    seed: int = 0
    """With `router`: which experts are popular, and which tokens choose them."""
    nodes: int = 0
    """With `router`: the most nodes that a token reaches, where it goes on inside; 0: any number,
    with a message for each expert."""
    order: str = ORDER
    """The parallelisms from the innermost to the outermost."""
    stated: Collection[str] = field(default=(), compare=False, repr=False)
    """No key: the keys that the user writes."""
    implied: Collection[str] = field(default=(), compare=False, repr=False)
    """No key: the keys that have their values of a framework that the user does not name."""

    @property
    def degrees(self) -> Degrees:
        return Degrees(self.dp, self.tp, self.pp, self.cp, self.ep, self.order, self.etp)

    @property
    def sequences(self) -> int:
        """Sequences of a step: four micro-batches for each device of a pipeline, if the plan does
        not say."""
        per_device = 4 * self.pp if self.pp > 1 else 1
        return self.batch or self.dp * self.micro * per_device

    @property
    def micro_batches(self) -> int:
        """Micro-batches of each pipeline. Raises InputError if the batch cannot be cut so."""
        unit = self.dp * self.micro
        number, rest = divmod(self.sequences, unit)
        if rest or not number:
            raise InputError(
                f"batch={self.sequences} is not a multiple of dp x micro = {unit}: take "
                f"batch={max(1, number) * unit}"
            )
        return number

    @property
    def pipeline(self) -> PipelineOrder:
        name = self.schedule or ("interleaved" if self.v > 1 else "1f1b")
        order = find_order(name)
        if self.v > 1 and "chunks" not in order.options:
            raise InputError(f"v={self.v}: schedule {name} has no stages to choose: leave v out")
        return order.with_options(f"chunks={self.v}") if self.v > 1 else order

    @property
    def stages(self) -> int:
        return self.pipeline.build(devices=self.pp, micro_batches=self.micro_batches).stages

    @property
    def accumulated(self) -> float:
        """Bytes that move for each gradient that is added: none if each micro-batch reduces its
        gradients."""
        return 0.0 if self.zero >= 2 and self.sync else super().accumulated

    @property
    def reads_counts(self) -> bool:
        """DualPipe computes another micro-batch meanwhile."""
        return super().reads_counts and self.schedule != "dual_pipe"

    @property
    def hides_exchanges(self) -> bool:
        return self.overlap_ep and self.micro_batches > 1

    @property
    def casts_weights(self) -> bool:
        """With zero=3 they are gathered for each micro-batch, and cast there."""
        return self.zero == 3 and not self.fp8_gather

    @property
    def keeps_casts(self) -> bool:
        """With zero=3 as in torchao, otherwise as in Transformer Engine."""
        return self.zero < 3

    @property
    def holds_once(self) -> bool:
        return self.lora > 0 and self.fp8_gather

    def __str__(self) -> str:
        parts = [str(self.degrees)]
        # Those with other defaults under DDP are always written there.
        written = ("micro",) if self.ddp == "no" else ("micro", *_DDP)
        written = (*written, *(key for key in BY_FRAMEWORK if key in self.stated))
        for key in KEYS[6:]:
            value = getattr(self, key)
            usual = value == getattr(Plan, key) and key not in written
            if usual or key in self.implied:
                continue
            if isinstance(value, bool):
                value = "yes" if value else "no"
            parts.append(f"{key}={format_bytes(value) if key == 'bucket' else value}")
        return ",".join(parts)


def _keys() -> list[str]:
    """The keys in the order in which a plan is written: the degrees come first, and those of the
    cut before `overlap`."""
    names = [*Plan.__annotations__]
    place = names.index("overlap")
    degrees = "dp", "tp", "pp", "cp", "ep", "etp", "micro"
    keys = dict.fromkeys((*degrees, *names[:place], *CUT, *names[place:]))
    return [key for key in keys if key not in ("stated", "implied")]


def _parser_of(kind: Any) -> Parser:
    if get_origin(kind) is Annotated:
        parser: Parser = get_args(kind)[1]
        return parser
    return PARSERS.get(kind) or partial(_parse_choice, get_args(kind))


CUT = [each.name for each in fields(BlockCut)]
"""The keys of a cut."""
KEYS = _keys()
_KINDS = get_type_hints(Plan, include_extras=True)
_PARSERS = {key: _parser_of(_KINDS[key]) for key in KEYS}
BY_FRAMEWORK = "attention", "synchronous", "loss"
"""Keys whose defaults are those of the framework that runs the plan."""
LEAST_ZERO = {"reshard": 3, "fsdp": 3, "shard": 2, "sync": 2, "fp8_gather": 1}
"""Stages of ZeRO from which on a key counts."""
_DDP = {"overlap": True, "bucket": DEFAULT}
"""Defaults of a plan with DDP."""


def parse_values(text: str) -> dict[str, Any]:
    """The values of KEY=VALUE,... by key. Raises InputError for an unknown key or value."""

    def unknown(key: str) -> str:
        hint = nearest_name(key, KEYS, f"it has {', '.join(KEYS)}")
        return f"a plan has no {key[:40]!r}: {hint}"

    return parse_pairs(text.replace(" ", ""), "plan", _PARSERS, unknown=unknown, example="tp=8")


def clash_of(plan: Plan, keys: Collection[str] = KEYS) -> str:
    """Keys whose values do not go together, all of them among `keys`, and what would; empty if
    there are none."""
    stated, zero, ddp = {*plan.stated}, plan.zero, plan.ddp
    keeps = plan.stops and parse_recomputation(plan.recompute).words != ("full",)
    counts = {key: key in stated for key in LEAST_ZERO}
    counts["fp8_gather"] = plan.fp8_gather and not plan.lora
    router, lora = "router, like router=zipf:1.2", f"lora, like lora=16,adapters={plan.adapters}"
    # Whether they clash, a key, the value of another that it goes with, and the value that it has.
    cases: list[tuple[object, str, str, object]] = [
        *(
            (counts[key] and zero < least, key, f"zero={least}", zero)
            for key, least in LEAST_ZERO.items()
        ),
        (zero and ddp != "no", f"ddp={ddp}", "zero=0", zero),
        (plan.lora and ddp != "no", f"lora={plan.lora}", "ddp=no", ddp),
        (plan.mtp and ddp != "no", f"mtp={plan.mtp}", "ddp=no", ddp),
        (plan.fp8_gather and plan.scaling == "rowwise", "fp8_gather", "scaling=current", "rowwise"),
        (keeps, "stops=yes", "recompute=full", plan.recompute),
        (plan.v > 1 and plan.pp == 1, f"v={plan.v}", "pp=2 or more", "1"),
        (plan.eager and plan.compiled, "eager=yes", "compiled=no", "yes"),
        (plan.eager and plan.fp8_activations, "eager=yes", "fp8_activations=no", "yes"),
        (plan.router and "imbalance" in stated, "imbalance", "no router", plan.router),
        ("adapters" in stated and not plan.lora, "adapters", lora, ""),
        ("seed" in stated and not plan.router, "seed", f"{router},seed=4", ""),
        ("nodes" in stated and not plan.router, "nodes", f"{router},nodes=4", ""),
    ]
    for clashes, key, right, value in cases:
        if clashes and {*re.findall(r"\w+", f"{key} {right}")} & {*KEYS} <= {*keys}:
            return f"{key} goes with {right}" + (f": it is {value}" if value != "" else "")
    return ""


def parse_plan(text: str, gpus: int | None = None) -> Plan:
    """The plan of KEY=VALUE,... on so many GPUs; without a number, on as many as it needs.

    Raises InputError for an unknown key or value, and for degrees that do not multiply to the GPUs.

    >>> str(parse_plan("tp=4,pp=2", gpus=16))
    'dp=2,tp=4,pp=2,micro=1'
    """
    values = parse_values(text)
    if values.get("ddp", "no") != "no":
        values = {**_DDP, **values}
    plan = Plan(**values, stated=tuple(values))
    if clash := clash_of(plan):
        raise InputError(f"plan: {clash}")
    if not plan.dp:
        rest = plan.tp * plan.pp * plan.cp
        plan = replace(plan, dp=max(1, (gpus or rest) // rest))
    if gpus is not None:
        plan.degrees.check(gpus)
    return plan
