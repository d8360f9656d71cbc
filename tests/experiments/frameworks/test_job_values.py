"""Sizes, stages and choices of jobs that a framework has not, or that simctl reads otherwise."""

from pathlib import Path

import pytest

from experiments.frameworks.job_file import read_job
from experiments.parallel.plan_text import parse_plan
from job_texts import ARGUMENTS, TITAN, job, remarks
from refusals import refusal

SHAPE = "num_layers: 4, hidden_size: 64, num_attention_heads: 4"


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (f"{SHAPE.replace('4', '1000000', 1)}", "num_layers=1000000: expected 1 to 4096"),
        (f"{SHAPE}, num_query_groups: 0", "num_query_groups=0: expected 1 to"),
        (f"{SHAPE}, ffn_hidden_size: -1", "ffn_hidden_size=-1: expected 1 to"),
        (f"{SHAPE}, vocab_size: 0", "vocab_size=0: expected 1 to"),
        (f"{SHAPE}, kv_lora_rank: 0", "kv_lora_rank=0: expected 1 to"),
        (f"{SHAPE}, window_size: 8, window_attn_skip_freq: 0", "skip_freq=0: expected 1 to"),
        (f"{SHAPE}, hybrid_layer_pattern: M*M*, mamba_head_dim: 0", "head_dim=0: expected 1 to"),
        (f"{SHAPE}, hybrid_layer_pattern: M*M", "=M*M has 3 layers, and the model 4"),
        (f"{SHAPE}, hybrid_layer_pattern: M*ME", "=M*ME has E: say how many experts there are"),
    ],
)
def test_sizes_that_no_model_has_name_line_and_key(tmp_path: Path, sizes: str, said: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"# a comment\nmodel: {{{sizes}}}\n")
    message = refusal(read_job, str(path))
    assert said in message
    assert message.startswith("a.yaml line 2, ")


def test_all_blocks_have_a_window_unless_a_file_says_which_have_none(tmp_path: Path) -> None:
    for skipped, windows in (("", 4), (", window_attn_skip_freq: 2", 2)):
        text = f"model: {{{SHAPE}, window_size: 8{skipped}}}"
        entry = job(tmp_path, "a.yaml", text).entry
        assert entry is not None
        assert entry.shape.parts["w"] == windows


@pytest.mark.parametrize(
    ("stages", "layers"),
    [
        ("2\n--decoder-first-pipeline-num-layers 14", "14+18"),
        ("2\n--decoder-last-pipeline-num-layers 15", "17+15"),
        ("2\n--decoder-first-pipeline-num-layers 40", "40+0"),
        ("4\n--decoder-first-pipeline-num-layers 5", "5+9+9+9"),
    ],
)
def test_the_first_and_the_last_stage_have_their_layers(
    tmp_path: Path, stages: str, layers: str
) -> None:
    text = ARGUMENTS.replace("--num-layers-per-virtual-pipeline-stage 8", "")
    read = job(tmp_path, "a.sh", f"{text}\n--pipeline-model-parallel-size {stages}\n")
    assert parse_plan(read.plan).layers == layers


def test_layers_of_stages_without_a_model_or_with_v_are_named(tmp_path: Path) -> None:
    text = "--bf16 --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 3"
    assert remarks(tmp_path, "a.sh", text) == [
        "decoder_first_pipeline_num_layers=3: the file does not say the model"
    ]


def test_a_schedule_that_has_two_stages_a_device_goes_without_v(tmp_path: Path) -> None:
    text = TITAN + '[parallelism.x]\npipeline_parallel_schedule = "ZBVZeroBubble"\n'
    text = text.replace("tensor_parallel_degree = 2", "pipeline_parallel_degree = 2")
    plan = parse_plan(job(tmp_path, "a.toml", text, gpus=8).plan, 8)
    assert (plan.schedule, plan.v, plan.stages) == ("zb_v", 1, 4)


def test_jobs_have_the_usual_loss_and_sends_of_their_framework(tmp_path: Path) -> None:
    assert job(tmp_path, "a.sh", "--bf16 --hidden-dropout 0 --attention-dropout 0").plan == (
        "loss=fused"
    )
    text = TITAN.replace("tensor_parallel_degree = 2", "pipeline_parallel_degree = 2")
    assert "synchronous=no" in job(tmp_path, "a.toml", text, gpus=8).plan


def test_values_that_a_framework_does_not_have_are_named(tmp_path: Path) -> None:
    text = "--bf16 --recompute-granularity weird"
    assert remarks(tmp_path, "a.sh", text) == [
        "recompute_granularity=weird: simctl knows full, selective, none, false"
    ]
    assert remarks(tmp_path, "a.sh", "--fp16") == [
        "fp16=true: simctl takes the times and bytes of bf16"
    ]
    flavor = TITAN.replace('8B"\n\n[opt', '9B"\n\n[opt')
    remark, *_ = remarks(tmp_path, "a.toml", flavor)
    assert remark.startswith("model.flavor=9B: simctl knows no such model")
    batch = TITAN.replace("batch_size = 2", "batch_size = 0")
    assert "=0: expected 1 or more" in refusal(job, tmp_path, "a.toml", batch)
    offload = "model: {cpu_offloading: true, cpu_offloading_num_layers: -4}"
    assert "=-4: expected 0 or more" in refusal(job, tmp_path, "a.yaml", offload)
    assert "has no key of Megatron or torchtitan" in refusal(job, tmp_path, "a.yaml", "hello")
