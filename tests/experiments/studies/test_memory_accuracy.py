"""Measured memory beside predictions, on rows in the form of the published files."""

from pathlib import Path

import pytest

from experiments.models.accelerators import accelerator
from experiments.parallel.plan_step import memory_of, work_of
from experiments.parallel.plan_text import parse_plan
from experiments.studies import memory_accuracy
from grouped_cases import each_case
from shipped_shapes import training
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.plan_memory import StepMemory
from topologies.shapes import star

SHAPE = "llama,2,512,8,8,1024,20000"
OLD, NEW = (f"pytorch/torchtitan,{date},pretrain,1" for date in ("2024-12", "2025-06"))
MEGATRON = f"""task,step_s,model,layers,hidden,heads,kv_heads,ffn,vocab,experts,seq,gpus,gpu,\
precision,tp,pp,cp,dp,sp,sharding,micro_batch,global_batch,recompute,memory_from_case,\
allocated_mib_rank0,allocated_mib_rank1,reserved_mib_rank0,reserved_mib_rank1
pretrain,1,{SHAPE},,256,2,B200,bf16,1,2,1,1,no,distributed optimizer,1,4,none,,64,48,66,50
pretrain,1,{SHAPE},,256,2,B200,bf16,1,2,1,1,no,distributed optimizer,1,8,none,the first,64,48,66,50
pretrain,1,{SHAPE},8,256,2,B200,bf16,1,2,1,1,no,distributed optimizer,1,4,none,,64,48,66,50
pretrain,1,{SHAPE},,256,2,B200,bf16,1,2,1,1,no,distributed optimizer,1,4,some of it,,64,48,66,50
"""
TORCHTITAN = f"""source,date,task,step_s,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpus,gpu,\
precision,tp,pp,cp,dp,sp,sharding,micro_batch,global_batch,recompute,compiled,memory_gib_max
{OLD},{SHAPE},2048,2,H100,bf16,1,1,1,2,no,fsdp2,16,32,selective (per operator),no,0.1
{OLD},{SHAPE},2048,2,H100,bf16,1,1,1,2,no,fsdp2,16,32,selective (per operator),yes,0.1
{NEW},{SHAPE},2048,2,H100,bf16,1,1,1,2,no,fsdp2,16,32,selective (per operator),yes,0.1
{NEW},{SHAPE},2048,2,H100,bf16,1,1,1,2,no,fsdp2,16,32,none,yes,
"""


def predicted(model: str, text: str, device: str) -> StepMemory:
    plan = parse_plan(text)
    chosen = training(model, device).under(plan)
    return memory_of(
        chosen, plan, work_of(chosen, plan, GroupTimes(star(8, bandwidth=1e9), plan.degrees))
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "megatron.csv").write_text(MEGATRON)
    (tmp_path / "torchtitan.csv").write_text(TORCHTITAN)
    (tmp_path / "no_memory.csv").write_text("model,seconds\nllama,1\n")
    return tmp_path


def test_each_device_of_a_run_counts_once(folder: Path) -> None:
    rows = memory_accuracy.errors_of(folder / "megatron.csv")
    assert rows["kind"].tolist() == ["allocated"] * 2 + ["reserved"] * 2
    assert (rows["measured"] / 2**20).tolist() == [64, 48, 66, 50]
    sizes = rows["predicted"].tolist()
    for tensors, whole in zip(sizes[:2], sizes[2:], strict=True):
        assert tensors < whole < 1.23 * tensors


def test_a_compiled_run_holds_less_and_a_compiled_loss_least(folder: Path) -> None:
    sizes = memory_accuracy.errors_of(folder / "torchtitan.csv")["predicted"].tolist()
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3


def test_a_table_has_the_mean_and_the_worst_error(folder: Path) -> None:
    text = memory_accuracy.main(folder)
    assert text.count("mean error") == 3
    assert "torchtitan, reserved: mean error" in text
    assert memory_accuracy.main(folder / "none") == "no file with memory"


@each_case(
    ("plan", "device"),
    [
        ("dp=4,cp=2", "h200"),
        ("dp=8", "mi325x"),
        ("dp=8,recompute=full:21", "mi300x"),
        ("dp=8,fp8_activations=yes", "b200"),
    ],
)
def test_adapters_fit_where_they_ran(plan: str, device: str) -> None:
    """Llama 2 70B with LoRA in MLPerf Training 5.0: frozen matrices are there once, in fp8."""
    chosen = f"{plan},micro=1,batch=8,lora=16,precision=fp8,fp8_gather=yes,zero=1"
    memory = predicted("llama2_70b:seq=8192", chosen, device)
    assert memory.peak < accelerator(device).capacity


def test_the_pool_of_graphs_gives_nothing_back() -> None:
    usual, graphs = (
        predicted("llama3_8b", f"dp=8,zero=3,graphs={value}", "h100") for value in ("no", "yes")
    )
    assert graphs.allocated == pytest.approx(usual.allocated)
    for memory, share in ((usual, 0.05), (graphs, 0.23)):
        margin = memory.parts(0)["fragmentation"]
        assert margin == pytest.approx(share * memory.moving[0])
