"""Sizes, stages and choices of jobs, and plans as arguments of Megatron-LM."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.frameworks.job_file import read_job
from experiments.parallel.plan_text import Plan, parse_plan
from grouped_cases import each_case
from job_texts import ARGUMENTS, TITAN, job, remarks
from refusals import refusal

SHAPE = "num_layers: 4, hidden_size: 64, num_attention_heads: 4"

LAYOUT = f"{SHAPE}, pipeline_model_parallel_size: 2, pipeline_model_parallel_layout"
BLOCK = f"{SHAPE}, recompute_granularity: full, recompute_method: block, recompute_num_layers"


@each_case(
    ("values", "reason"),
    [
        ("tensor_model_parallel_size: eight", "=eight: expected a whole number"),
        ("sequence_parallel: 3, tensor_model_parallel_size: 2", "=3: expected true or false"),
        ('sequence_parallel: "a\\n", tensor_model_parallel_size: 2', "='a\\n': expected true"),
        ("micro_batch_size: 0", "plan: micro=0: 1 or more"),
        ("hidden_dropout: 0x", "hidden_dropout=0x: expected a number"),
        ("pipeline_model_parallel_size: 0", "=0: expected 1 or more"),
        ("cpu_offloading: true, cpu_offloading_num_layers: -4", "=-4: expected 0 or more"),
        ("num_layers: 4, hidden_size: 100, num_attention_heads: 3", "no multiple of heads"),
        ("num_layers: 0, hidden_size: 8, num_attention_heads: 2", "num_layers=0: expected 1"),
        ("num_layers: 4, hidden_size: 8, num_attention_heads: 0", "attention_heads=0: exp"),
        (f"{SHAPE.replace('4', '1000000', 1)}", "num_layers=1000000: expected 1 to 4096"),
        (f"{SHAPE}, num_query_groups: 0", "num_query_groups=0: expected 1 to"),
        (f"{SHAPE}, ffn_hidden_size: -1", "ffn_hidden_size=-1: expected 1 to"),
        (f"{SHAPE}, vocab_size: 0", "vocab_size=0: expected 1 to"),
        (f"{SHAPE}, kv_lora_rank: 0", "kv_lora_rank=0: expected 1 to"),
        (f"{SHAPE}, window_size: 8, window_attn_skip_freq: 0", "skip_freq=0: expected 1 to"),
        (f"{SHAPE}, hybrid_layer_pattern: M*M*, mamba_head_dim: 0", "head_dim=0: expected 1 to"),
        (f"{LAYOUT}: Et|tt|tL", "layout=Et|tt|tL: 3 stages are not a multiple of pp=2"),
        (f"{LAYOUT}: Ett|ttttL", "layout=Ett|ttttL: 6 layers, and the model has 4"),
        (
            f"{SHAPE}, num_moe_experts: 8, moe_layer_freq: '([0]*3+[1]*9)'",
            "moe_layer_freq=([0]*3+[1]*9): 12 layers, and the model has 4",
        ),
        (f"{SHAPE}, num_moe_experts: 8, moe_layer_freq: [0, 1, 1]", "freq=0,1,1: 3 layers, and"),
        (f"{BLOCK}: 5", "recompute_num_layers=5: a stage has 4 layers"),
        (f"{BLOCK}: 3, pipeline_model_parallel_size: 2", "num_layers=3: a stage has 2 layers"),
        (f"{SHAPE}, hybrid_layer_pattern: M*M", "=M*M has 3 layers, and the model 4"),
        (f"{SHAPE}, hybrid_layer_pattern: M*ME", "=M*ME has E: say how many experts there are"),
    ],
)
def test_values_that_make_no_sense_name_line_and_key(
    tmp_path: Path, values: str, reason: str
) -> None:
    message = refusal(job, tmp_path, "a.yaml", f"# a comment\nmodel: {{{values}}}\n")
    assert reason in message
    assert message.startswith("a.yaml line 2, " if "=" in reason or SHAPE in values else "a.yaml")


def test_all_blocks_have_a_window_unless_a_file_says_which_have_none(tmp_path: Path) -> None:
    for skipped, windows in (("", 4), (", window_attn_skip_freq: 2", 2)):
        text = f"model: {{{SHAPE}, window_size: 8{skipped}}}"
        entry = job(tmp_path, "a.yaml", text).entry
        assert entry is not None
        assert entry.shape.parts["w"] == windows


@each_case(
    ("stages", "layers"),
    [
        ("2\n--decoder-first-pipeline-num-layers 14", "14+66"),
        ("2\n--decoder-last-pipeline-num-layers 15", "65+15"),
        ("2\n--decoder-first-pipeline-num-layers 90", "90+0"),
        ("4\n--decoder-first-pipeline-num-layers 5", "5+25+25+25"),
        ("4\n--pipeline-model-parallel-layout 'Et*17|t*21|t*21|t*21,L'", "17+21+21+21"),
        ("3\n--pipeline-model-parallel-layout 'Et*10|(t*9|)*7t*7L'", "10+9+9+9+9+9+9+9+7"),
        ("4\n--pipeline-model-parallel-layout 'E(t*20|)*3,t*20L'", ""),
    ],
)
def test_the_first_and_the_last_stage_have_their_layers(
    tmp_path: Path, stages: str, layers: str
) -> None:
    text = ARGUMENTS.replace("--num-layers-per-virtual-pipeline-stage 5", "")
    read = job(tmp_path, "a.sh", f"{text}\n--pipeline-model-parallel-size {stages}\n")
    assert parse_plan(read.plan).layers == layers


def test_a_schedule_that_has_two_stages_a_device_goes_without_v(tmp_path: Path) -> None:
    text = TITAN + '[parallelism.x]\npipeline_parallel_schedule = "ZBVZeroBubble"\n'
    text = text.replace("tensor_parallel_degree = 2", "pipeline_parallel_degree = 2")
    plan = parse_plan(job(tmp_path, "a.toml", text, gpus=8).plan, 8)
    assert (plan.schedule, plan.v, plan.stages) == ("zb_v", 1, 4)


@each_case(
    ("mode", "rest", "stated", "same"),
    [
        ("full", "[compile]\nenable = false", "compiled=yes", ("full", "[compile]\nenable = true")),
        ("full", "[compile]\nenable = true", "compiled=no", ("full", "")),
        ('full"\nearly_stop = "true', "", "recompute=none", ("none", "")),
        ("none", "[float8]\nenable_float8_linear = true", "precision=bf16", ("none", "")),
    ],
)
def test_what_derives_from_a_value_follows_the_key_of_the_user(
    tmp_path: Path, mode: str, rest: str, stated: str, same: tuple[str, str]
) -> None:
    text = TITAN.replace("[compile]\nenable = true\n", "")
    texts = (text.replace('"full"', f'"{mode}"') + rest for mode, rest in ((mode, rest), same))
    plans = [parse_plan(job(tmp_path, "a.toml", each, f",{stated}", 16).plan) for each in texts]
    assert plans[0] == plans[1]


@each_case("zero", ["0", "1", "2", "3"])
def test_a_plan_with_another_stage_of_zero_is_whole(tmp_path: Path, zero: str) -> None:
    text = TITAN + "[float8]\nenable_float8_linear = true\n"
    text += "enable_fsdp_float8_all_gather = true\n"
    plan = parse_plan(job(tmp_path, "a.toml", text, f",zero={zero}", 16).plan)
    assert plan.shard == (4 if plan.zero > 1 else 0)


@each_case(
    ("arguments", "remark"),
    [
        ("pretrain_bert.py", "program=pretrain_bert.py: simctl reads it as a decoder"),
        ("--cp-comm-type a2a+p2p", "cp_comm_type=a2a+p2p: simctl knows p2p, all_gather, a2a"),
        (
            "--recompute-granularity weird",
            "recompute_granularity=weird: simctl knows full, selective, none, false",
        ),
        (
            "--recompute-granularity selective --recompute-modules weird",
            "recompute_modules=weird: no key of a plan says this",
        ),
        (
            "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|tmtL'",
            "pipeline_model_parallel_layout=Et|tmtL: the embedding comes first, MTP blocks and "
            "the loss last",
        ),
        (
            "--overlap-param-gather --use-megatron-fsdp --data-parallel-sharding-strategy "
            "optim_grads",
            "overlap_param_gather=true: with zero=2 parameters are gathered behind the optimizer",
        ),
        (
            "--cuda-graph-impl local --cuda-graph-scope attn moe",
            "cuda_graph_scope=attn,moe: graphs hold attn, mamba, mlp, moe_router, moe_preprocess, "
            "not moe",
        ),
        ("--fp16", "fp16=true: simctl takes the times and bytes of bf16"),
        (
            "--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 3",
            "decoder_first_pipeline_num_layers=3: the file does not say the model",
        ),
    ],
)
def test_values_that_no_key_says_are_named(tmp_path: Path, arguments: str, remark: str) -> None:
    assert remarks(tmp_path, "a.sh", arguments) == [remark]


def test_other_models_and_files_are_named(tmp_path: Path) -> None:
    remark, *_ = remarks(tmp_path, "a.toml", TITAN.replace('"8B"', '"9B"'))
    assert remark.startswith("model.flavor=9B: simctl knows no such model")
    scales = f'{TITAN}[float8]\nenable_float8_linear = true\nrecipe_name = "{{}}"\n'
    for name, scaling in (("tensorwise", "current"), ("rowwise", "rowwise")):
        assert f"scaling={scaling}," in job(tmp_path, "a.toml", scales.format(name)).plan + ","
    (remark,) = [
        each for each in remarks(tmp_path, "a.toml", scales.format("cubes")) if "recipe" in each
    ]
    assert remark.startswith("float8.recipe_name=cubes: ")
    batch = TITAN.replace("batch_size = 1", "batch_size = 0")
    assert "=0: expected 1 or more" in refusal(job, tmp_path, "a.toml", batch)
    assert "has no key of Megatron or torchtitan" in refusal(job, tmp_path, "a.yaml", "hello")


def _arguments(plan: Plan) -> str:
    """A plan as arguments of Megatron-LM."""
    words = {
        "--tensor-model-parallel-size": plan.tp,
        "--pipeline-model-parallel-size": plan.pp,
        "--context-parallel-size": plan.cp,
        "--expert-model-parallel-size": plan.ep,
        "--micro-batch-size": plan.micro,
        "--global-batch-size": plan.batch,
        "--cp-comm-type": {"ring": "p2p", "gather": "all_gather", "ulysses": "a2a"}[plan.context],
        "--num-virtual-stages-per-pipeline-rank": plan.v,
        "--hidden-dropout": 0.1 if plan.dropout else 0.0,
        "--attention-dropout": 0.0,
    }
    flags = {
        "--bf16": True,
        "--sequence-parallel": plan.sp,
        "--use-distributed-optimizer": plan.zero == 1,
        "--overlap-grad-reduce": plan.overlap,
        "--grad-reduce-in-bf16": plan.grads == "bf16",
        "--tp-comm-overlap": plan.pieces,
        "--recompute-activations": plan.recompute == "selective",
        "--recompute-granularity full": plan.recompute == "full",
        "--no-overlap-p2p-communication": plan.v > 1 and plan.synchronous,
    }
    texts = [f"{key} {value}" for key, value in words.items()]
    return " \\\n".join([*texts, *(flag for flag, is_on in flags.items() if is_on)])


DEGREES = st.sampled_from([1, 2, 4, 8])


@given(
    st.fixed_dictionaries(
        {
            **dict.fromkeys(("tp", "pp", "cp", "micro"), DEGREES),
            "batch": st.integers(1, 10**6),
            "zero": st.sampled_from([0, 1]),
            "grads": st.sampled_from(["fp32", "bf16"]),
            "recompute": st.sampled_from(["none", "selective", "full"]),
            "context": st.sampled_from(["ring", "gather", "ulysses"]),
            "overlap": st.booleans(),
            "dropout": st.booleans(),
            "is_interleaved": st.booleans(),
            "is_synchronous": st.booleans(),
            "is_cut": st.booleans(),
        }
    )
)
def test_a_plan_comes_back_from_its_arguments(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]
) -> None:
    interleaved, synchronous, cut = (
        values.pop(key) for key in ("is_interleaved", "is_synchronous", "is_cut")
    )
    if interleaved and values["pp"] > 1:
        values |= {"v": 2, "synchronous": synchronous}
    if cut and values["tp"] > 1:
        values |= {"sp": True, "pieces": True}
    plan = Plan(**values, dp=1)
    path = tmp_path_factory.mktemp("jobs") / "run.sh"
    path.write_text(_arguments(plan))
    read = read_job(str(path))
    assert parse_plan(f"dp=1,{read.plan}") == plan
    assert read.facts.remarks == []
