"""Readers of files of measured steps, on a few rows in the form of the published files."""

from pathlib import Path

from experiments.studies.measured_plans import (
    COLUMNS,
    ROWS,
    sharded,
    three_dimensional,
    whole_plans,
)
from grouped_cases import each_case
from published_tables import MULTI, SHARDED, SINGLE
from refusals import refusal

RUN = {
    "source": "a page",
    "model": "llama3.1-8b",
    "task": "pretrain",
    "layers": "32",
    "hidden": "4096",
    "heads": "32",
    "kv_heads": "8",
    "ffn": "14336",
    "vocab": "128256",
    "seq": "8192",
    "gpus": "64",
    "gpu": "H100",
    "precision": "bf16",
    "tp": "2",
    "pp": "4",
    "cp": "1",
    "dp": "8",
    "micro_batch": "1",
    "global_batch": "128",
    "step_s": "12.5",
}


EXPERTS = {"model": "mixtral-8x7b", "experts": "8", "ep": "8"}


def file_of(folder: Path, *changes: dict[str, str]) -> Path:
    """A file with a run for each change."""
    rows = [RUN | change for change in changes]
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [",".join(row.get(name, "") for name in names) for row in rows]
    (folder / "runs.csv").write_text("\n".join([",".join(names), *lines, ""]))
    return folder / "runs.csv"


def test_rows_become_models_plans_and_machines(tmp_path: Path) -> None:
    (tmp_path / "a100_3d_multi.csv").write_text(MULTI)
    (tmp_path / "fsdp_mpt.csv").write_text(SHARDED)
    (several,) = three_dimensional(tmp_path / "a100_3d_multi.csv")
    assert several.machine == "dgx_a100:nodes=2,nics=4"
    assert several.seconds == 0.5
    assert {"recompute=full", "loss=unfused", "grads=bf16"} < {*several.plan.split(",")}
    first, second, third = sharded(tmp_path / "fsdp_mpt.csv")
    assert first.seconds == 128 * 2 / 10000
    assert "recompute=full" in first.plan
    assert "grads=fp32" in first.plan
    assert "recompute=none" in second.plan
    assert "grads=bf16" in third.plan
    assert (first.kind, third.kind) == ("h100_80gb amp_bf16", "a100_40gb bf16")


def test_on_one_node_nothing_is_computed_again_and_ranks_share_a_vocabulary(
    tmp_path: Path,
) -> None:
    """50257 words are not padded: each of 2 ranks has 25128."""
    (tmp_path / "a100_3d_single.csv").write_text(SINGLE)
    rows = [*three_dimensional(tmp_path / "a100_3d_single.csv")]
    assert all("recompute" not in row.plan for row in rows)
    assert {row.model.partition("vocab=")[2] for row in rows} <= {"50257", "50256"}


def test_a_run_with_its_whole_plan_is_read(tmp_path: Path) -> None:
    steps, skipped = whole_plans(file_of(tmp_path, {"vp": "2", "container": "25.11"}))
    assert not skipped
    (step,) = steps
    assert step.model == "llama3_8b:seq=8192,layers=32,vocab=128256"
    assert step.plan.startswith("dp=8,tp=2,pp=4,batch=128,precision=bf16,zero=1,")
    assert {"v=2", "synchronous=no", "sp=yes", "pieces=yes", "overlap=yes"} <= {
        *step.plan.split(",")
    }
    assert (step.machine, step.kind, step.version) == ("hgx_h100:nodes=8", "H100 bf16", "25.11")
    assert (step.seconds, step.order) == (12.5, (64, 8, 0))


@each_case(
    ("change", "part"),
    [
        ({"sharding": "megatron-fsdp over 64"}, "zero=3"),
        ({"overlap": "grad_reduce"}, "pieces=no"),
        ({"overlap": "none"}, "overlap=no"),
        ({"recompute": "full"}, "recompute=full"),
        ({"recompute": "selective (per operator)"}, "recompute=op"),
        ({"recompute": "full; block method; 5 layers"}, "recompute=full:5"),
        ({"recompute": "modules:layernorm;moe_act"}, "recompute=layernorm+moe_act"),
        ({"task": "lora", "lora_rank": "16"}, "lora=16"),
        ({"uneven": "embedding;loss"}, "layers=embedding+loss"),
        ({"precision": "fp8", "fp8_recipe": "blocks of 128"}, "precision=fp8_block"),
        ({"source": "pytorch/torchtitan", "async_tp": "no"}, "pieces=no"),
        ({"source": "pytorch/torchtitan", "compiled": "no"}, "eager=yes"),
        ({"precision": "fp8", "fp8_param_gather": "yes"}, "fp8_gather=yes"),
        ({"precision": "fp8", "lora_rank": "16"}, "fp8_gather=yes"),
        (EXPERTS | {"dispatcher": "deepep"}, "dispatcher=deepep"),
        (EXPERTS | {"moe_a2a_overlap": "yes"}, "overlap_ep=yes"),
        (EXPERTS | {"cuda_graph": "transformer_engine:attn;moe_router"}, "graphs=attn+moe_router"),
    ],
)
def test_columns_become_keys_of_the_plan(tmp_path: Path, change: dict[str, str], part: str) -> None:
    (step,), _ = whole_plans(file_of(tmp_path, change))
    assert part in step.plan.split(",")


def test_a_model_that_is_not_shipped_has_its_sizes(tmp_path: Path) -> None:
    (step,), _ = whole_plans(file_of(tmp_path, {"model": "tall-15b", "vocab": "256000"}))
    assert step.model == (
        "gpt3_175b:seq=8192,layers=32,hidden=4096,heads=32,kv_heads=8,mlp=14336,vocab=256000"
    )


@each_case(
    ("change", "reason"),
    [
        ({"tp": ""}, "its plan is not known"),
        ({"step_s": ""}, "its plan is not known"),
        ({"batch_check": "no: 4, not 8"}, "its batch and its plan differ"),
        ({"task": "sft"}, "sft"),
        ({"gpu": "TPU"}, "no machine with TPU"),
        ({"model": "huge-moe", "experts": "8"}, "no model huge-moe"),
        ({"global_batch": "100"}, "batch=100 is not a multiple"),
        ({"micro_batches": "4"}, "its batch and its plan differ"),
        ({"dp": "4"}, "dp x tp x pp x cp"),
    ],
)
def test_a_row_that_no_plan_says_is_left_out_with_a_reason(
    tmp_path: Path, change: dict[str, str], reason: str
) -> None:
    steps, skipped = whole_plans(file_of(tmp_path, change, {}))
    assert len(steps) == 1
    assert [text for text in skipped if reason in text]


def run_with(**change: str) -> str:
    """A file with one run, without further columns."""
    return "\n".join(
        ",".join(row[name] for name in COLUMNS)
        for row in ({name: name for name in COLUMNS}, RUN | change)
    )


@each_case(
    ("text", "words"),
    [
        ("", "line 1: no column model"),
        ("model,task\n", "line 1: no column layers"),
        ("x" * (2**22 + 1), "larger than 4 MiB"),
        (run_with(step_s="-1"), "line 2: step_s is '-1'"),
        (run_with(step_s="nan"), "line 2: step_s is 'nan'"),
        (run_with(gpus="9" * 400), "line 2: "),
        (run_with(seq="-5"), "line 2: seq is '-5'"),
        (",".join(COLUMNS) + "\n" + "a," * 18 + "a\n" * (ROWS + 1), "more than 2000 rows"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(text)
    message = refusal(whole_plans, path)
    assert words in message
    assert len(message) < 400


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(b"\xff\xfe\x00" * 40)
    assert "not UTF-8" in refusal(whole_plans, path)
