"""Measured steps of plans of parallel training, as published, in our words: model, plan, machine.

Machines: the A100 of the three-dimensional plans are in nodes of 8 with 800 Gbit/s, four HDR ports
a node. Those of FSDP are in nodes with 1600 Gbit/s; the network of its H100 is not known and is
taken as one of 400 Gbit/s a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from experiments.studies.measured_rows import rows_of


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

    @property
    def text(self) -> str:
        """The model and the plan; of a paper, the name of its row."""
        return f"{self.model} {self.plan}" if self.table else self.group


MEGATRON = "recompute=full,attention=unfused,dropout=yes,overlap_tp=no,scatter=yes"
"""Megatron-LM of 2021: everything is computed again, and all-reduces stand alone. Stages send each
other shares, which they gather."""


def three_dimensional(path: Path) -> Iterator[MeasuredStep]:
    """Rows of `a100_3d_single.csv` or `a100_3d_multi.csv`."""
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
            f"seq={row['seq']}",
            f"dp={dp},tp={tp},pp={pp},micro={row['micro_batch']},batch={row['global_batch']},"
            f"{MEGATRON}",
            float(row["iteration_ms"]) / 1e3,
            (gpus, tp * pp, number),
        )


def sharded(path: Path) -> Iterator[MeasuredStep]:
    """Rows of `fsdp_mpt.csv`: tokens/s a GPU as seconds of a step."""
    for number, row in enumerate(rows_of(path)):
        gpus, device = int(row["gpus"]), row["gpu"][:4]
        micro, repeats, seq = (int(row[name]) for name in ("micro_batch", "grad_accum", "seq"))
        wide = "fp32" if row["mp_mode"] == "DEFAULT" else "bf16"
        again = "full" if row["checkpointing"] == "yes" else "none"
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
            f"recompute={again},stops=yes,attention=flash,grads={wide}",
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


def _published(name: str, gpus: int, model: str, plan: str, seconds: float) -> MeasuredStep:
    machine = f"dgx_a100:nodes={gpus // 8}"
    return MeasuredStep("", "A100", name, "a100", "bf16", machine, model, plan, seconds, (gpus,))


def narayanan() -> Iterator[MeasuredStep]:
    """Table 1 of Narayanan et al., SC 2021, on DGX A100: seconds from TFLOP/s a GPU by its equation
    3 with everything computed again."""
    rows = (
        (1.7, 24, 2304, 24, 1, 1, 32, 512, 16, 1, 137),
        (3.6, 32, 3072, 30, 2, 1, 64, 512, 16, 1, 138),
        (7.5, 32, 4096, 36, 4, 1, 128, 512, 16, 1, 142),
        (18.4, 48, 6144, 40, 8, 1, 256, 1024, 8, 1, 135),
        (39.1, 64, 8192, 48, 8, 2, 512, 1536, 4, 1, 138),
        (76.1, 80, 10240, 60, 8, 4, 1024, 1792, 2, 3, 140),
        (145.6, 96, 12288, 80, 8, 8, 1536, 2304, 2, 2, 148),
        (310.1, 128, 16384, 96, 8, 16, 1920, 2160, 1, 2, 155),
        (529.6, 128, 20480, 105, 8, 35, 2520, 2520, 1, 3, 163),
        (1008.0, 160, 25600, 128, 8, 64, 3072, 3072, 1, 1, 163),
    )
    seq, vocabulary = 2048, 51200
    for size, heads, hidden, layers, tp, pp, gpus, batch, micro, v, rate in rows:
        flops = 96.0 * batch * seq * layers * hidden**2
        flops *= 1 + seq / (6 * hidden) + vocabulary / (16 * layers * hidden)
        yield _published(
            f"{size:g} G",
            gpus,
            f"gpt3_1_7b:layers={layers},hidden={hidden},heads={heads}",
            f"dp={gpus // tp // pp},tp={tp},pp={pp},v={v},micro={micro},batch={batch},{MEGATRON}",
            flops / (rate * 1e12 * gpus),
        )


def korthikanti() -> Iterator[MeasuredStep]:
    """Table 5 of Korthikanti et al., arXiv 2205.05198, on DGX A100: everything computed again, and
    sequence parallel with scores computed again."""
    rows = (
        ("22 G", 6144, 64, 48, 8, 1, 1, 4, 4, 1.42, 1.10),
        ("175 G", 12288, 96, 96, 64, 8, 3, 64, 1, 18.13, 13.75),
        ("530 G", 20480, 128, 105, 280, 35, 3, 280, 1, 49.05, 37.83),
        ("1 T", 25600, 160, 128, 512, 64, 1, 512, 1, 94.42, 71.49),
    )
    ways = ("recompute=full", "recompute=selective,sp=yes")
    for size, hidden, heads, layers, gpus, pp, v, batch, micro, *seconds in rows:
        for way, measured in zip(ways, seconds, strict=True):
            yield _published(
                f"{size}, {way}",
                gpus,
                f"gpt3_1_7b:layers={layers},hidden={hidden},heads={heads}",
                f"dp=1,tp=8,pp={pp},v={v},micro={micro},batch={batch},{way},attention=unfused,"
                "dropout=yes,scatter=yes",
                float(measured),
            )
