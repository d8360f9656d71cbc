"""Jobs of Megatron-Bridge, Megatron-LM and torchtitan as plans."""

import csv
import os
from pathlib import Path

import pytest

from experiments.frameworks import facts as facts_module
from experiments.frameworks.facts import key_table, rows_by_name
from experiments.frameworks.job_file import model_in, read_job
from experiments.frameworks.model_facts import model_of, presets
from experiments.frameworks.settings import FileSetting
from experiments.models.config_files import FAMILIES
from experiments.models.model_catalogue import MODELS
from experiments.models.model_shapes import TransformerShape
from experiments.parallel.plan_text import KEYS
from grouped_cases import each_case
from job_texts import ARGUMENTS, BRIDGE, JOBS, TITAN, job, remarks
from page_blocks import blocks
from refusals import refusal
from simctl_process import Simctl, mistake

ROOT = Path(__file__).parents[3]
SIZES = {size for family in FAMILIES.values() for size in family}
SIZES |= TransformerShape.__dataclass_fields__.keys()


def test_a_dump_of_megatron_bridge_is_a_plan(tmp_path: Path) -> None:
    read = job(tmp_path, "bridge.yaml", BRIDGE)
    assert read.plan == (
        "tp=4,pp=4,cp=2,micro=1,batch=128,zero=1,v=5,sp=yes,pieces=yes,grads=bf16,overlap=yes,"
        "synchronous=no"
    )
    assert (read.model, read.gpus, read.facts.remarks) == ("llama3_70b", None, [])


def test_a_configuration_of_torchtitan_is_a_plan(tmp_path: Path) -> None:
    read = job(tmp_path, "titan.toml", TITAN, gpus=16)
    assert read.plan == (
        "dp=8,tp=2,micro=1,batch=8,zero=3,shard=4,sp=yes,recompute=full,overlap_tp=no,compiled=yes,"
        "merged=no,loss=compiled"
    )
    assert (read.model, read.gpus, read.facts.remarks) == ("llama3_8b", 16, [])


def test_keys_of_the_user_count_more(tmp_path: Path) -> None:
    read = job(tmp_path, "run.sh", ARGUMENTS, ",tp=4,grads=bf16")
    assert read.plan.startswith("tp=4,pp=4,")
    assert "grads=bf16" in read.plan
    assert "a plan has no 'size'" in refusal(read_job, f"{tmp_path}/run.sh,size=8")


def test_what_no_key_says_is_named_with_its_line(tmp_path: Path) -> None:
    text = (
        "--num-experts 8\n--moe-latent-size 1\n--expert-tensor-parallel-size 1\n--lr 1\n--new 3\n"
    )
    read = job(tmp_path, "run.sh", f"--micro-batch-size 1\n--bf16\n{text}")
    assert read.facts.remarks == [
        "run.sh line 4, moe_latent_size=1: the model has layers that simctl does not know",
        "run.sh line 7, new=3: simctl does not know this key",
    ]
    assert read.facts.idle == 1
    *_, last = read.sentences()
    assert last.endswith("run.sh: 1 other keys change neither time nor memory")


def test_the_last_value_of_a_key_counts_and_is_named(tmp_path: Path) -> None:
    read = job(
        tmp_path,
        "run.sh",
        "--tensor-model-parallel-size 2\n--bf16\n" * 2 + "--model-parallel-size 4",
    )
    assert read.plan == "tp=4,dropout=yes"
    assert read.facts.remarks == [
        "run.sh line 3, tensor_model_parallel_size=2: run.sh line 5 replaces it"
    ]


def test_a_condition_leaves_an_argument_out_and_says_so(tmp_path: Path) -> None:
    text = "--bf16\nif [ $A ]; then\n  --expert-model-parallel-size 8 --wandb-project a\nfi\n"
    read = job(tmp_path, "run.sh", text)
    assert "ep=8" not in read.plan
    assert read.facts.remarks == [
        "run.sh line 3, condition.expert_model_parallel_size=8: a condition says whether it is "
        "set: write it outside"
    ]


def test_values_that_frameworks_set_stay(tmp_path: Path) -> None:
    """Those of other frameworks do not replace them."""
    usual = "--bf16 --hidden-dropout 0 --attention-dropout 0"
    assert job(tmp_path, "a.sh", usual).plan == "loss=fused"
    pipeline = "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2"
    read = job(tmp_path, "a.sh", f"{usual} {pipeline} --no-overlap-p2p-communication")
    assert read.plan == "pp=2,v=2,synchronous=yes"
    titan = TITAN.replace("tensor_parallel_degree = 2", "pipeline_parallel_degree = 100000000")
    plan = job(tmp_path, "a.toml", titan, gpus=8).plan
    assert {"synchronous=no", "loss=compiled"} <= set(plan.split(","))


def test_scripts_that_start_too_few_gpus_say_so(tmp_path: Path) -> None:
    read = job(tmp_path, "run.sh", "--nproc_per_node 8\n--tensor-model-parallel-size 16\n--bf16")
    assert read.gpus is None
    assert "8 GPUs do not hold tp x pp x cp = 16: give --gpus" in read.facts.remarks[0]


def test_arguments_in_yaml_are_those_of_a_script(tmp_path: Path) -> None:
    text = (
        "ENV_VARS: {NCCL_ALGO: Ring}\nMODEL_ARGS:\n  --bf16: true\n  --use-tp-pp-dp-mapping: true\n"
        "  --pipeline-model-parallel-size: 2\n  --attention-dropout: 0.0\n"
    )
    read = job(tmp_path, "a.yaml", text)
    assert read.facts.remarks == []
    # What is not said has the default of Megatron-LM.
    assert read.plan == "pp=2,dropout=yes,order=tp-cp-pp-dp"


def test_a_layout_in_words_is_that_in_letters(tmp_path: Path) -> None:
    stages = "[embedding, decoder], [decoder, decoder], [decoder, decoder], [decoder, mtp, loss]"
    text = f"model: {{pipeline_model_parallel_size: 2, pipeline_model_parallel_layout: [{stages}]}}"
    assert {"v=2", "layers=1+2+2+1"} <= set(job(tmp_path, "a.yaml", text).plan.split(","))


@each_case(
    ("section", "plan"),
    [
        ("model: {recompute_granularity: full, recompute_method: uniform}", "recompute=full"),
        ("model: {recompute_activations: true}", "recompute=selective"),
        ("model: {recompute_granularity: selective}", "recompute=selective"),
        ("model: {moe_token_dispatcher_type: flex, num_experts: 8}", "dispatcher=deepep"),
        ("peft: {dim: 16, target_modules: [linear_qkv, linear_fc1]}", "lora=16,adapters=all"),
        ("mixed_precision: bf16_mixed", ""),
        ("mixed_precision: bf16_with_mxfp8_mixed", "precision=mxfp8"),
        (
            "mixed_precision: bf16_with_fp8_current_scaling_mixed",
            "precision=fp8,scaling=current",
        ),
        ("mixed_precision: {fp8: e4m3, fp8_recipe: blockwise}", "precision=fp8_block"),
        ("mixed_precision: {fp8: hybrid, fp8_recipe: delayed}", "precision=fp8"),
        ("mixed_precision: {fp4: e2m1}", "precision=nvfp4"),
        (
            "model: {fp8: hybrid, fp8_param: true, first_last_layers_bf16: true}\n"
            "ddp: {use_distributed_optimizer: true}",
            "precision=fp8,fp8_gather=yes,zero=1,bf16_layers=1+1",
        ),
        ("peft: {dim: 8, lora_A_init_method: xavier, dropout_position: pre}", "lora=8"),
        ("optimizer: {exp_avg_dtype: torch.bfloat16}", "moments=bf16"),
        ("model: {cuda_graph_impl: local, enable_cuda_graph: false}", "graphs=yes"),
        ("model: {cuda_graph_impl: none, cuda_graph_scope: attn}", ""),
        ("model: {cuda_graph_impl: local, cuda_graph_scope: full}", "graphs=yes"),
        ("model: {cuda_graph_impl: local, cuda_graph_scope: []}", "graphs=yes"),
        (
            "model: {cuda_graph_impl: local, cuda_graph_scope: [moe_router, attn], num_experts: 8}",
            "graphs=attn+moe_router",
        ),
        ("model: {cpu_offloading: true, cpu_offloading_num_layers: 4}", "offload=4"),
    ],
)
def test_settings_of_megatron_are_keys_of_plans(tmp_path: Path, section: str, plan: str) -> None:
    read = job(tmp_path, "a.yaml", f"train: {{train_iters: 1}}\n{section}\n")
    # All files of Megatron without tp and pp name the loss.
    parts = [part for part in read.plan.split(",") if part != "loss=fused"]
    assert (",".join(parts), read.facts.remarks) == (plan, [])


def test_experts_and_latent_attention_are_those_of_the_catalogue(tmp_path: Path) -> None:
    text = """--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128
        --kv-channels 128 --position-embedding-type rope --normalization RMSNorm --swiglu
        --untie-embeddings-and-output-weights --multi-latent-attention --disable-bias-linear
        --num-experts 256 --moe-layer-freq ([0]*3+[1]*58) --moe-ffn-hidden-size 2048
        --moe-shared-expert-intermediate-size 2048 --moe-router-topk 8 --q-lora-rank 1536
        --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128
        --qk-layernorm --seq-length 4096""".replace("([0]*3+[1]*58)", '"([0]*3+[1]*58)"')
    assert job(tmp_path, "run.sh", text).model == "deepseek_v3"
    listed = text.replace("([0]*3+[1]*58)", "[0,0,0]+[1,1]*29")
    assert job(tmp_path, "run.sh", listed).model == "deepseek_v3"
    last = "moe_layer_freq=11: blocks with experts come last"
    assert last in remarks(tmp_path, "run.sh", text.replace('"([0]*3+[1]*58)"', "11"))


def test_windows_and_hybrids_are_those_of_the_catalogue(tmp_path: Path) -> None:
    windows = """--num-layers 24 --hidden-size 2880 --ffn-hidden-size 2880 --num-attention-heads 64
        --group-query-attention --num-query-groups 8 --kv-channels 64 --num-experts 32
        --moe-router-topk 4 --moe-ffn-hidden-size 2880 --normalization RMSNorm --quick-geglu
        --untie-embeddings-and-output-weights --position-embedding-type rope --seq-length 4096
        --window-size 127,0 --window-attn-skip-freq 2 --softmax-type learnable"""
    assert job(tmp_path, "a.sh", windows).model == "gpt_oss_20b"
    pattern = MODELS["nemotron3_nano"].shape.pattern
    hybrid = f"""--hybrid-layer-pattern {pattern} --hidden-size 2688 --ffn-hidden-size 1856
        --num-attention-heads 32 --group-query-attention --num-query-groups 2 --kv-channels 128
        --num-experts 128 --moe-router-topk 6 --moe-ffn-hidden-size 1856 --disable-bias-linear
        --moe-shared-expert-intermediate-size 3712 --normalization RMSNorm --mamba-num-heads 64
        --untie-embeddings-and-output-weights --position-embedding-type none --seq-length 4096
        --mamba-head-dim 64 --mamba-num-groups 8 --mamba-state-dim 128 --mtp-num-layers 1"""
    read = job(tmp_path, "b.sh", hybrid)
    assert read.model == "nemotron3_nano"
    assert "mtp=1" in read.plan
    assert "simctl knows the letters" in remarks(tmp_path, "b.sh", hybrid.replace("EM", "X"))[0]


def test_a_shape_of_its_own_is_the_model_of_the_file(tmp_path: Path) -> None:
    text = ARGUMENTS.replace("--num-layers 80", "--num-layers 24")
    read = job(tmp_path, "run.sh", text)
    assert read.model == str(tmp_path / "run.sh")
    entry = model_in(f"{read.model}:seq=4096")
    assert (entry.shape.blocks, entry.shape.kv_heads, entry.size) == (24, 8, 4096)
    longer = text + "--seq-length 2048"
    assert model_in(str(job(tmp_path, "run.sh", longer).path)).size == 2048
    stages = f"{text}--recompute-granularity full --recompute-method block"
    stages += " --recompute-num-layers 12"
    read = job(tmp_path, "c.sh", stages, ",recompute=full")
    assert read.model is not None
    assert model_in(read.model).shape.blocks == 24
    assert "names no model" in refusal(model_in, str(job(tmp_path, "b.sh", "--bf16").path))


def test_every_preset_is_a_transformer() -> None:
    for name in presets():
        flavor = dict(zip(("family", "flavor"), name.split("/"), strict=False))
        settings = {key: FileSetting(key, value, "") for key, value in flavor.items()}
        if "/" not in name:
            settings = {"provider": FileSetting("provider", f"a.b.{name}", "file")}
        framework = "torchtitan" if "/" in name else "megatron"
        entry = model_of(facts_module.JobFacts(framework, settings=settings), "file")
        assert entry is not None
        assert entry.shape.parameters > 0


def test_the_table_of_keys_is_whole() -> None:
    path = Path(facts_module.__file__).with_name("keys.csv")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    for framework in ("megatron", "torchtitan"):
        keys = [key for row in rows if row["framework"] == framework for key in row["keys"].split()]
        assert sorted(keys) == sorted(key_table(framework)), "a key is there twice"
    assert {row["use"] for row in rows} == {"key", "size", "take", "off", "none"}
    assert all(row["reason"] for row in rows if row["use"] == "off")
    facts = [row for row in rows if row["use"] in ("key", "size", "take")]
    assert all(row["name"] for row in facts)
    assert {row["name"] for row in facts if row["use"] == "key"} <= set(KEYS)
    assert {row["name"] for row in facts if row["use"] == "size"} <= SIZES
    kinds = {(row["framework"], *(row[key] for key in ("name", "use", "kind"))) for row in facts}
    assert len(kinds) == len({kind[:2] for kind in kinds}), "a fact has two uses or kinds"


def test_no_fact_is_taken_in_vain() -> None:
    """What a file says is a key of a plan, a size of a model, or a part of either asks for it."""
    folder = Path(facts_module.__file__).parent
    text = "".join(path.read_text() for path in folder.glob("*_f*.py")).replace("'", '"')
    for framework in ("megatron", "torchtitan"):
        for name in rows_by_name(framework, "take"):
            parts = {name, *name.split("_")}
            assert any(f'"{part}"' in text for part in parts), name


@pytest.mark.parametrize("name", JOBS)
def test_the_command_reads_a_file(tmp_path: Path, name: str, simctl: Simctl) -> None:
    path = tmp_path / name
    path.write_text(JOBS[name])
    done = simctl("plan", str(path), "--topology", "hgx_h100:nodes=8", "--format", "csv")
    assert done.returncode in (0, 1), done.stderr
    assert f"note: {path} (" in done.stderr
    assert "llama3" in done.stdout


def test_the_command_says_the_same_as_the_page(
    monkeypatch: pytest.MonkeyPatch, simctl: Simctl
) -> None:
    monkeypatch.chdir(ROOT)
    page = ROOT / "docs" / "how-to" / "read-a-plan.md"
    first, notes, *_ = (block.text for block in blocks(page.read_text()))
    done = simctl(*first.splitlines()[0].split()[1:])
    if os.environ.get("SIMCTL_UPDATE_DOCS"):
        page.write_text(page.read_text().replace(f"text\n{notes}```", f"text\n{done.stderr}```"))
    assert done.stderr == notes


def test_models_of_files_go_with_other_plans(tmp_path: Path, simctl: Simctl) -> None:
    path = tmp_path / "run.sh"
    path.write_text(ARGUMENTS.replace("--num-layers 80", "--num-layers 8"))
    model = ("--model", f"{path}:seq=2048", "--topology", "hgx_h100", "--format", "csv")
    assert "run.sh,h100" in simctl("plan", "tp=2,zero=1", *model).stdout
    (tmp_path / "b.sh").write_text(ARGUMENTS.replace("--num-layers 80", "--num-layers 4"))
    assert "give --model" in mistake(
        simctl("plan", str(path), str(tmp_path / "b.sh"), "--topology", "hgx_h100")
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.sh", "--bf16\n--tensor-model-parallel-size eight\n", "run.sh line 2, tensor_model_p"),
        ("a.csv", "a,b\n1,2\n", "has no settings: expected YAML, TOML or arguments"),
        ("config.json", '{"model_type": "llama", "hidden_size": 8}', "--model "),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_in_a_line(
    tmp_path: Path, name: str, text: str, message: str, simctl: Simctl
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert message in mistake(simctl("plan", str(path), "--topology", "hgx_h100"))
