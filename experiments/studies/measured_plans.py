"""Measured steps of parallel plans, from files of published measurements.

Machines: the A100 of the three-dimensional plans are in nodes of 8 with 800 Gbit/s, four HDR ports
a node. Those of FSDP are in nodes with 1600 Gbit/s; the network of its H100 is not known and is
taken as one of 400 Gbit/s a GPU.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from experiments.models.accelerators import ACCELERATORS, NARROW, multiplies
from experiments.models.model_catalogue import MODELS, find_transformer
from experiments.parallel.plan_text import parse_plan
from experiments.shipped_tables import rows_of
from experiments.studies.measured_rows import Row
from topologies.errors import InputError
from topologies.readers.contents import text_of


class MeasuredStep(NamedTuple):
    """A measured step."""

    table: str
    """The file that it is from."""
    kind: str
    """The GPU and precision: rows of a kind share their calibration."""
    group: str
    """Its plan in a word or two: rows are also averaged by this."""
    device: str
    dtype: str
    machine: str
    """The machine, as `--topology` takes it."""
    model: str
    plan: str
    seconds: float
    order: tuple[int, ...]
    """The row with the smallest one calibrates its kind: fewest GPUs, least TP x PP, first in the
    file."""
    version: str = ""
    """The release of its software."""
    level: float = 0.0
    """The level of its times, as :class:`experiments.models.device_times.DeviceTimes` has it."""

    @property
    def text(self) -> str:
        """The model and the plan; of a paper, the name of its row."""
        return f"{self.model} {self.plan}" if self.table else self.group

    @property
    def model_name(self) -> str:
        """The model without its sequence: rows of `fsdp_mpt` differ in that alone."""
        return ",".join(
            part for part in self.model.replace(":", ",").split(",") if "seq" not in part
        )

    @property
    def math(self) -> str:
        """The dtype of multiplications."""
        return multiplies(self.device, self.dtype)

    @property
    def gpus(self) -> int:
        """The GPUs of the job."""
        return self.order[0]


MEGATRON = "attention=unfused,dropout=yes,overlap_tp=no,scatter=yes,loss=unfused,grads=bf16"
"""Megatron-LM of 2021 in fp16: all-reduces stand alone, gradients are added and reduced in 16 bits
(accumulate_allreduce_grads_in_fp32 of megatron/arguments.py is for bf16 alone), and stages send
each other shares, which they gather."""
VOCABULARY = 50257
"""That of the models of vTrain, of which each rank of tensor parallel takes the same whole number
(src/model/gpt_modeling.py of VIA-Research/vTrain): it is not padded."""


def three_dimensional(path: Path) -> Iterator[MeasuredStep]:
    """Rows of `a100_3d_single.csv` or `a100_3d_multi.csv`.

    On one node nothing is computed again, although the file does not say so. With tp=1 and micro=8,
    a layer of 2048 takes 7.1 to 8.3 ms longer than one of 1024. With a second forward these would
    be 315 to 365 TFLOP/s, and an A100 has 312.
    """
    for number, row in enumerate(rows_of(path)):
        gpus, tp, dp, pp = (int(row[name]) for name in ("gpus", "tp", "dp", "pp"))
        nodes = -(-gpus // 8)
        yield MeasuredStep(
            path.stem,
            "A100",
            f"tp={tp} pp={pp}",
            "a100",
            "bf16",
            "dgx_a100" if nodes == 1 else f"dgx_a100:nodes={nodes},nics=4",
            f"gpt3_1_7b:layers={row['layers']},hidden={row['hidden']},heads={row['heads']},"
            f"seq={row['seq']},vocab={VOCABULARY // tp * tp}",
            f"dp={dp},tp={tp},pp={pp},micro={row['micro_batch']},batch={row['global_batch']},"
            f"{MEGATRON}{',recompute=full' if nodes > 1 else ''}",
            float(row["iteration_ms"]) / 1e3,
            (gpus, tp * pp, number),
        )


def sharded(path: Path) -> Iterator[MeasuredStep]:
    """Rows of `fsdp_mpt.csv`: tokens/s a GPU as seconds of a step."""
    for number, row in enumerate(rows_of(path)):
        gpus, device = int(row["gpus"]), row["gpu"][:4]
        micro, repeats, seq = (int(row[name]) for name in ("micro_batch", "grad_accum", "seq"))
        wide = "fp32" if row["mp_mode"] == "DEFAULT" else "bf16"
        again = "full,stops=yes" if row["checkpointing"] == "yes" else "none"
        host = "dgx_a100" if device == "a100" else "hgx_h100"
        yield MeasuredStep(
            path.stem,
            f"{row['gpu']} {row['precision']}",
            f"mpt_{row['model']}",
            device,
            "bf16",
            host if gpus <= 8 else f"{host}:nodes={gpus // 8}",
            f"mpt_{row['model']}:seq={seq}",
            f"dp={gpus},zero=3,fsdp=1,micro={micro},batch={gpus * micro * repeats},"
            f"recompute={again},attention=flash,grads={wide}",
            seq * micro * repeats / float(row["tokens_per_s_gpu"]),
            (gpus, 1, number),
        )


def mlperf(path: Path) -> Iterator[MeasuredStep]:
    """Rows of `mlperf_llama31_405b.csv`."""
    for number, row in enumerate(rows_of(path)):
        gpus = int(row["gpus"])
        blackwell = "GB200" in row["machine"]
        yield MeasuredStep(
            path.stem,
            row["machine"],
            row["machine"],
            "b200" if blackwell else "h100",
            "fp8",
            f"nvl72:nodes={-(-gpus // 72)}" if blackwell else f"hgx_h100:nodes={gpus // 8}",
            "llama3_405b",
            f"dp={row['dp']},tp={row['tp']},pp={row['pp']},cp={row['cp']},v=8,micro=1,"
            f"batch={row['global_batch']},zero=1,sp=yes,attention=flash3,overlap=yes,"
            "pieces=yes,uneven=yes",
            float(row["step_s"]),
            (gpus, int(row["tp"]) * int(row["pp"]), number),
        )


def published(paper: str) -> Iterator[MeasuredStep]:
    """Steps of a paper on DGX A100, from `measured_plans.csv`.

    - narayanan: Table 1 of Narayanan et al., SC 2021, seconds from TFLOP/s a GPU by its equation 3
      with everything computed again;
    - korthikanti: Table 5 of Korthikanti et al., arXiv 2205.05198, everything computed again, or
      sequence parallel with scores computed again.
    """
    for row in rows_of(Path(__file__).with_suffix(".csv")):
        if row["paper"] == paper:
            gpus, texts = int(row["gpus"]), (row["model"], row["plan"])
            machine = f"dgx_a100:nodes={gpus // 8}"
            kind = "", "A100", row["group"], "a100", "bf16", machine
            yield MeasuredStep(*kind, *texts, float(row["seconds"]), (gpus,))


COLUMNS = (
    *("model", "task", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq", "gpus"),
    *("gpu", "precision", "tp", "pp", "cp", "dp", "micro_batch", "global_batch", "step_s"),
)
"""The columns that every file of runs with their whole plans has. Others count where a file has
them."""
MACHINES = {
    "A100": ("a100", "dgx_a100"),
    "H100": ("h100", "hgx_h100"),
    "H200": ("h200", "hgx_h200"),
    "B200": ("b200", "b200"),
    "B300": ("b300", "hgx_b300"),
    "GB200": ("gb200", "nvl72"),
    "GB300": ("gb300", "gb300"),
    "MI300X": ("mi300x", "mi300x"),
    "MI325X": ("mi325x", "mi325x"),
    "MI355X": ("mi355x", "mi355x"),
}
"""The device and the machine of each GPU."""
SLOW_H100 = "h100_hbm2e", "hgx_h100"
"""The H100 with 96 GB of HBM2e and a limit of 500 W, as torchtitan's tables have it."""
MODEL_NAMES = {
    "llama3.1-8b": "llama3_8b",
    "llama3.1-70b": "llama3_70b",
    "llama3-70b-cut": "llama3_70b",
    "llama3.1-405b": "llama3_405b",
    "nemotron-3-nano": "nemotron3_nano",
}
"""The name in the catalogue of a model with another name."""
ROWS = 2000


def whole_plans(path: Path) -> tuple[list[MeasuredStep], Counter[str]]:
    """The steps of a file of runs with their whole plans, and of those that cannot be predicted
    yet, how many there are for each reason.

    Raises InputError, with the file and the line, for a file without a column and for a value that
    is no number.
    """
    reader = csv.DictReader(io.StringIO(text_of(path, 2**22, "a CSV of runs", "cut it")))
    steps, skipped = list[MeasuredStep](), Counter[str]()
    try:
        for column in COLUMNS:
            if column not in (reader.fieldnames or ()):
                raise InputError(f"{path} line 1: no column {column}")
        for number, row in enumerate(reader):
            if number == ROWS:
                raise InputError(f"{path}: more than {ROWS} rows")
            row = {name: text or "" for name, text in row.items() if name}
            if reason := _reason(row):
                skipped[reason] += 1
                continue
            try:
                steps.append(_step(path.stem, number, row))
            except _Unknown as unknown:
                skipped[str(unknown)] += 1
            except InputError as error:
                raise InputError(f"{path} line {reader.line_num}: {error}") from None
    except csv.Error as error:
        raise InputError(f"{path} line {reader.line_num}: {error}: expected a CSV") from None
    return steps, skipped


class _Unknown(InputError):
    """What a plan cannot say yet."""


def _reason(row: Row) -> str:
    """Why no prediction of a row would mean anything; empty if one does."""
    device, _ = _machine(row)
    reasons = {
        "its plan is not known": not row["tp"] or not row["micro_batch"] or not row["step_s"],
        "its batch and its plan differ": row.get("batch_check", "yes") not in ("", "yes"),
        "derived from a figure": "read from an image" in row.get("note", ""),
        "MaxText": "MaxText" in row.get("note", ""),
        row["task"]: row["task"] != "pretrain" and not row.get("lora_rank"),
        f"no machine with {row['gpu'][:40]}": device not in ACCELERATORS,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _machine(row: Row) -> tuple[str, str]:
    slow = (row["gpu"], row.get("power_w")) == ("H100", "500")
    return SLOW_H100 if slow else MACHINES.get(row["gpu"], ("", ""))


def _recompute(row: Row) -> str:
    """What a plan computes again, by the words of the column."""
    text = row.get("recompute", "")
    words, number = text.partition(";")[0], re.search(r"(\d+) layers", text)
    if text.startswith("modules:"):
        return text.removeprefix("modules:").replace(";", "+")
    if words in ("", "none", "none named"):
        return "none"
    if "per operator" in words:
        return "op"
    return words.split()[0] + (f":{number[1]}" if number else "")


def _precision(row: Row) -> str:
    recipe = row.get("fp8_recipe", "")
    return "fp8_block" if row["precision"] == "fp8" and "blocks" in recipe else row["precision"]


def _whole(row: Row, column: str, usual: int = 0) -> int:
    """A whole number of 1 or more, `usual` for an empty cell."""
    text = row.get(column, "")
    if not text and usual:
        return usual
    if not text.isdecimal() or not 0 < len(text) < 10 or int(text) < 1:
        raise InputError(f"{column} is {text[:40]!r}: a whole number of 1 or more")
    return int(text)


def _step(table: str, number: int, row: Row) -> MeasuredStep:
    gpus, tp, pp = (_whole(row, name) for name in ("gpus", "tp", "pp"))
    device, machine = _machine(row)
    try:
        seconds = float(row["step_s"])
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InputError(f"step_s is {row['step_s'][:40]!r}: a number above 0")
    nodes = -(-gpus // (64 if machine in ("nvl72", "gb300") else 8))
    power = f" {row['power_w']} W" if row.get("power_w") else ""
    rowwise = " rowwise" if "rowwise" in row.get("fp8_recipe", "") else ""
    precision = _precision(row)
    step = MeasuredStep(
        table,
        f"{row['gpu']}{power} {precision}{rowwise}",
        f"{row['model']} tp={tp} pp={pp}",
        device,
        precision,
        machine if nodes == 1 else f"{machine}:nodes={nodes}",
        _model(row),
        _plan(row),
        seconds,
        (gpus, tp * pp, number),
        row.get("container") or row.get("tag") or row.get("date") or "",
    )
    try:
        find_transformer(step.model)
        repeats = parse_plan(step.plan, gpus).micro_batches
    except InputError as error:
        raise _Unknown(str(error)) from None
    if _whole(row, "micro_batches", repeats) != repeats:
        raise _Unknown("its batch and its plan differ")
    return step


def _model(row: Row) -> str:
    """The model of a row: that of the catalogue, or a dense one of its sizes."""
    usual = row["model"].replace("-", "_").replace(".", "_")
    name, seq = MODEL_NAMES.get(row["model"], usual), _whole(row, "seq")
    sizes = {"seq": seq, "layers": _whole(row, "layers")}
    if name not in MODELS and row.get("experts"):
        raise _Unknown(f"no model {row['model'][:40]}")
    if name not in MODELS:
        # Megatron's models without a gate: a GPT-3 of other sizes takes as long.
        name = "llama3_8b" if row["model"].startswith("llama") else "gpt3_175b"
        heads = _whole(row, "heads")
        sizes |= {"hidden": _whole(row, "hidden"), "heads": heads}
        sizes |= {"kv_heads": _whole(row, "kv_heads", heads), "mlp": _whole(row, "ffn")}
    sizes["vocab"] = _whole(row, "vocab")
    return name + ":" + ",".join(f"{key}={value}" for key, value in sizes.items())


def _plan(row: Row) -> str:
    """The plan of a row as Megatron-Core or torchtitan runs it."""
    tp, pp, chunks = _whole(row, "tp"), _whole(row, "pp"), _whole(row, "vp", 1)
    shards, table = "fsdp" in row.get("sharding", ""), row.get("source", "")
    # Without a word of it, Megatron's recipes for speed overlap all that they can.
    overlap = row.get("overlap", "") or "grad_reduce;tp;p2p"
    values = {
        "dp": _whole(row, "dp"),
        "tp": tp,
        "pp": pp,
        "cp": _whole(row, "cp", 1),
        "ep": _whole(row, "ep", 1),
        "micro": _whole(row, "micro_batch"),
        "batch": _whole(row, "global_batch"),
        "precision": _precision(row),
        "recompute": _recompute(row),
    }
    values = {key: value for key, value in values.items() if value not in (1, "none")}
    # Until 2025, torchtitan preferred PyTorch's own kernel, FlashAttention-2, on all but Blackwell.
    torchtitan = "torchtitan" in table
    attention = "flash2" if row["gpu"] == "A100" or (torchtitan and "H" in row["gpu"]) else "flash3"
    values |= {"zero": 3 if shards else 1, "attention": attention}
    if pp > 1 and chunks > 1:
        values |= {"v": chunks, "synchronous": "no"}
    if pp > 1:
        ends = row.get("uneven", "").replace(";", "+")
        values |= {"layers": ends} if ends else {"uneven": "yes"}
    if tp > 1:
        together = row.get("async_tp") != "no" if torchtitan else "tp" in overlap
        values |= {"sp": "yes", "pieces": "yes" if together else "no"}
        values |= {"overlap_tp": "no"} if torchtitan and not together else {}
    if tp > 1 and row.get("experts"):
        values["etp"] = _whole(row, "etp", 1)
    if not shards:
        values["overlap"] = "yes" if "grad_reduce" in overlap else "no"
        values |= {"overlap_gather": "yes"} if "param_gather" in overlap else {}
    if torchtitan:
        values |= {"loss": "eager", "merged": "no"}
        scaling = "rowwise" if "rowwise" in row.get("fp8_recipe", "") else "current"
        values |= {"scaling": scaling} if values.get("precision") == "fp8" else {}
        values |= {"eager": "yes"} if row.get("compiled") == "no" else {}
    if row.get("offloaded_layers"):
        values["offload"] = _whole(row, "offloaded_layers")
    if row.get("lora_rank"):
        values["lora"] = _whole(row, "lora_rank")
    # Frozen matrices of these runs fit in no other way.
    casts = row.get("fp8_param_gather") == "yes" or row.get("lora_rank")
    if casts and values["precision"] in NARROW:
        values["fp8_gather"] = "yes"
    if row.get("token_drop") == "yes":
        values["capacity"] = 1
    if row.get("dispatcher") == "deepep":
        # HybridEP is not measured: it takes what an all-to-all takes on links.
        values["dispatcher"] = "deepep"
    if row.get("moe_a2a_overlap") == "yes":
        values["overlap_ep"] = "yes"
    graphs = row.get("cuda_graph", "").partition("transformer_engine:")[2]
    if graphs:
        values["graphs"] = graphs.replace(";", "+")
    return ",".join(f"{key}={value}" for key, value in values.items())
