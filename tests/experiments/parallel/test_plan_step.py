"""The blocks of stages, and what a step of a model takes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ddp_steps import step
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_step import (
    Training,
    pipeline_of,
    sharding_of,
    stages_of,
    state_of,
    work_of,
)
from experiments.parallel.plan_text import Plan, parse_plan
from grouped_cases import each_case
from shipped_shapes import training
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.pipelines import find as find_order
from simulator.parallel.pipelines.pipeline import pipeline_csv
from simulator.parallel.sharding import buckets
from simulator.parallel.step import write
from simulator.parallel.step_measures import measure
from simulator.training.buckets import BucketRules, costs, rebuilt
from simulator.training.ddp import DDP
from simulator.training.model import Model
from topologies.catalogue import find
from topologies.errors import InputError

SMALL = "gpt3_1_7b:layers=6,hidden=512,heads=8,seq=256"


@each_case(
    ("layers", "plan", "sizes"),
    [
        (6, "pp=3", [3, 2, 3]),
        (6, "pp=4", [2, 2, 2, 2]),
        (6, "pp=2,v=3", [2, 1, 1, 1, 1, 2]),
        (8, "pp=3,uneven=yes", [4, 3, 3]),
        (6, "pp=4,layers=embedding+loss", [2, 2, 2, 2]),
        (7, "pp=4,layers=embedding", [2, 2, 2, 3]),
        (7, "pp=4,layers=loss", [3, 2, 2, 2]),
        (8, "pp=3,layers=1+5+2", [2, 5, 3]),
        (8, "pp=2,v=2,layers=0+2x4+0", [1, 4, 4, 1]),
        (8, "layers=embedding+loss", [10]),
    ],
)
def test_stages_share_the_layers(layers: int, plan: str, sizes: list[int]) -> None:
    model = training(f"gpt3_1_7b:layers={layers},hidden=512,heads=8,seq=256")
    stages = stages_of(model, parse_plan(plan))
    assert [len(stage) for stage in stages] == sizes
    assert stages[0][0].name == "embedding"
    assert stages[-1][-1].name == "head"


def test_the_precision_of_a_plan_is_the_dtype_of_its_model() -> None:
    model = training(SMALL, device="h100")
    plan = parse_plan("precision=fp8")
    assert model.under(plan).times == DeviceTimes("h100", "fp8")
    assert model.under(Plan()) == model
    takes = "h100 cannot train it in 'mxfp8': it takes fp32, tf32, amp, bf16, fp8, fp8_block"
    with pytest.raises(InputError, match=takes):
        model.under(parse_plan("precision=mxfp8"))


@each_case(
    ("partial", "whole"),
    [("full:0", "none"), ("op:6", "op"), ("full/1", "full"), ("mlp/9", "none")],
)
def test_recomputation_of_all_or_no_layers_is_that_of_the_word(partial: str, whole: str) -> None:
    model = training(SMALL)
    plans = [parse_plan(f"pp=2,recompute={text}") for text in (partial, whole)]
    assert stages_of(model, plans[0]) == stages_of(model, plans[1])


def test_layers_of_a_stage_that_are_alike_are_the_same_block() -> None:
    first, last = stages_of(training(SMALL), parse_plan("pp=2,recompute=full:2"))
    assert [bool(block.again) for block in first] == [False, True, True, False]
    assert [bool(block.again) for block in last] == [True, True, False, False]
    assert first[1] is first[2] is last[0] is last[1]
    assert first[3] is last[2]


@each_case(
    ("plan", "device", "message"),
    [
        ("scaling=current", "h100", "plan: scaling goes with precision=fp8: it is bf16"),
        (
            "precision=mxfp8,scaling=current",
            "b200",
            "plan: scaling goes with precision=fp8: it is mxfp8",
        ),
        (
            "bf16_layers=1+2",
            "h100",
            "plan: bf16_layers goes with precision=fp8, fp8_block, mxfp8, nvfp4: it is bf16",
        ),
        (
            "fp8_gather=yes,zero=1,precision=tf32",
            "a100",
            "plan: fp8_gather goes with precision=fp8, fp8_block, mxfp8, nvfp4: it is tf32",
        ),
    ],
)
def test_keys_of_a_precision_are_refused_under_others(plan: str, device: str, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        training(SMALL, device).under(parse_plan(plan))
    assert str(refusal.value) == message


@each_case(
    ("text", "device", "parameters", "gathered"),
    [
        # Beside 2 bytes the casts of matrices in layers, by rows and by columns.
        ("zero=1,precision=fp8", "h100", (2.0, 2.0), 2.0),
        ("zero=1,precision=fp8", "b200", (2.0, 1.0), 2.0),
        ("zero=1,precision=nvfp4", "b200", (2.0, 2 * 0.5625), 2.0),
        # In place of them.
        ("zero=1,precision=fp8,fp8_gather=yes", "h100", (2.0, 0.0), (2.0, -1.0)),
        ("lora=8,precision=fp8,fp8_gather=yes", "h100", (2.0, -1.0), (2.0, -1.0)),
        ("zero=1,precision=mxfp8,fp8_gather=yes", "b200", (2.0, 2 / 32), 2.0),
        ("zero=3,precision=fp8,fp8_gather=yes", "h100", (4.0, 0.0), (2.0, -1.0)),
        ("zero=1,precision=fp8,fp8_gather=yes,bf16_layers=3", "h100", (2.0, 0.0), 2.0),
    ],
)
def test_bytes_of_parameters_by_hand(
    text: str,
    device: str,
    parameters: tuple[float, float],
    gathered: float | tuple[float, float],
) -> None:
    """A model with 6 layers of 12 h² elements in matrices, and a table of 51200 + 256 rows."""
    plan = parse_plan(f"dp=8,{text}")
    model = training(SMALL, device).under(plan)
    layers = 6 * 12 * 512**2 / model.shape.parameters
    assert model.shape.multiplied == pytest.approx(6 * (12 * 512**2 + 9 * 512))
    share = model.shape.multiplied / model.shape.parameters
    assert share == pytest.approx(layers, rel=0.01)
    width, more = gathered if isinstance(gathered, tuple) else (gathered, 0.0)
    assert state_of(model, plan).parameters == pytest.approx(parameters[0] + parameters[1] * share)
    sharding = sharding_of(model, plan, stages_of(model, plan))
    assert sharding.element == pytest.approx(width + more * share)


def test_moments_in_16_bits_take_half_and_move_less() -> None:
    model, plans = training(SMALL), [parse_plan(f"moments={name}") for name in ("fp32", "bf16")]
    assert [state_of(model, plan).optimizer for plan in plans] == [12.0, 8.0]
    usual, short = (sharding_of(model, plan, stages_of(model, plan)) for plan in plans)
    assert short.optimizer[0] == pytest.approx(usual.optimizer[0] * 36 / 44)


def test_weights_are_cast_once_a_step() -> None:
    """By all ranks, or by each rank for its share if it is gathered cast."""
    model = training(SMALL, "h100").under(parse_plan("precision=fp8"))
    share = model.shape.multiplied / model.shape.parameters
    nbytes = (2 + 2) * share * model.times.traffic(1.0)
    for text, ranks in (("zero=1", 1), ("zero=1,fp8_gather=yes", 8), ("zero=3,fp8_gather=yes", 8)):
        plan = parse_plan(f"dp=8,{text}")
        stages = stages_of(model, plan)
        usual = sharding_of(training(SMALL, "h100"), replace(plan, fp8_gather=False), stages)
        elements = sum(block.parameters for block in stages[0])
        casts = sharding_of(model, plan, stages).optimizer[0] - usual.optimizer[0]
        assert casts == pytest.approx(nbytes * elements / ranks)


def test_layers_that_stages_do_not_divide_are_refused() -> None:
    with pytest.raises(InputError, match="has 6 layers, which 5 stages do not divide: take pp=3"):
        stages_of(training(SMALL), parse_plan("pp=5"))


@each_case("layers", ["3+3", "2x2+1", "6", "3+0+3", "embedding"])
def test_other_layers_than_the_model_has_are_refused(layers: str) -> None:
    message = rf"has 6 layers for 3 stages: layers={re.escape(layers)} has others: take layers=3x2"
    with pytest.raises(InputError, match=message):
        stages_of(training(SMALL), parse_plan(f"pp=3,layers={layers}"))


@each_case("layers", ["", "head", "embedding+head", "0x3", "3x", "1+", "-1", "9" * 5, "+1" * 600])
def test_layers_that_are_no_numbers_are_refused(layers: str) -> None:
    with pytest.raises(InputError, match=r"layers=.*: embedding, loss, embedding\+loss, or the "):
        parse_plan(f"pp=3,layers={layers}")


def test_a_search_takes_the_times_of_the_blocks() -> None:
    plan = parse_plan("pp=2,dp=1,batch=8,schedule=zb_auto:memory=2")
    times = GroupTimes(find("dgx_a100").build(2), plan.degrees)
    stages = stages_of(training(SMALL), plan)
    short = tuple(tuple(replace(block, weights=()) for block in stage) for stage in stages)
    usual, other = (pipeline_of(plan, each, times) for each in (stages, short))
    assert (usual.name, usual.devices, usual.micro_batches) == ("zb_auto:memory=2", 2, 8)
    assert usual.kind.tolist() != other.kind.tolist()


def test_the_flops_of_a_model_are_those_of_its_matrices_and_scores() -> None:
    model = training("gpt3_175b")
    # Narayanan et al., SC 2021, equation 3, without what is computed again.
    layers, width, vocabulary = 96, 12288, model.shape.vocabulary
    scores, head = model.seq / (6 * width), vocabulary / (12 * width * layers)
    expected = 72 * layers * width**2 * (1 + scores + head)
    assert model.flops_per_token == pytest.approx(expected, rel=0.005)


def test_stages_send_shares_and_gather_them() -> None:
    """Each rank sends 1/tp of a tensor, and tensor parallel gathers it at the other end, in the
    forward and in the backward."""
    model = training("gpt3_1_7b:layers=4")
    whole, shares = (
        stages_of(model, parse_plan(f"tp=4,pp=2,micro=1,batch=4,{more}"))
        for more in ("scatter=no", "scatter=yes")
    )
    assert shares[0][-1].output == whole[0][-1].output / 4
    gather = shares[1][0].forward[0]
    assert (gather.group, gather.collective) == ("tp", "all_gather")
    assert gather.nbytes == whole[0][-1].output
    assert shares[1][0].forward[1:] == whole[1][0].forward
    assert shares[0][-1].backward == (gather, *whole[0][-1].backward)
    assert shares[0][0] == whole[0][0]


def as_strategy(model: str) -> tuple[Training, Model]:
    """A model of a plan and of a strategy on the same device."""
    entry = find_transformer(model)
    _, dtype, device = entry.defaults
    times = DeviceTimes(device, dtype)
    return Training(entry.name, entry.shape, entry.size, times), entry.estimate


DDP_MODELS = [
    ("gpt2", 12),
    ("bert_base", 12),
    ("bert_large:layers=3,dtype=bf16", 3),
    ("llama3_8b:layers=2", 2),
    ("mixtral_8x7b:layers=1", 1),
    ("deepseek_v3:layers=4", 4),
    ("vit_l16:layers=2", 2),
]


@each_case(("model", "layers"), DDP_MODELS)
@pytest.mark.parametrize(("ddp", "bucket"), [("yes", "25MiB"), ("view", "3MiB"), ("yes", "1B")])
def test_buckets_cost_what_those_of_the_strategy_cost(
    model: str, layers: int, ddp: str, bucket: str
) -> None:
    """The strategy's layers are the plan's blocks, so buckets are the same gradients in the same
    order. What copies take beside a block is the sum beside its layers."""
    trained, ran = as_strategy(model)
    grads = "bf16" if ran.gradient_dtype == "bf16" else "fp32"
    plan = parse_plan(f"dp=8,zero=0,ddp={ddp},bucket={bucket},grads={grads}")
    (stage,) = stages_of(trained, plan)
    assert len(stage) == layers + 2
    sharding = sharding_of(trained, plan, (stage,))
    mine, theirs = buckets(stage, sharding), rebuilt(ran, plan.bucket)
    assert [(each.nbytes, each.tensors) for each in mine] == [
        (each.nbytes, each.tensors) for each in theirs
    ]
    rules = BucketRules(ran.memory_bandwidth, views=ddp == "view")
    right = costs(ran, theirs, 1.75, rules)
    assert sharding.rules == rules
    assert sum(rules.copies_in(mine).values()) == pytest.approx(
        sum(right.copies_in.values()), rel=1e-9
    )
    assert rules.copies_out(mine) == right.copies_out
    assert sum(map(rules.hooks, mine)) == pytest.approx(right.hooks, rel=1e-9)


@each_case(("model", "exact"), [("gpt2", True), ("bert_base", True), ("llama3_8b:layers=2", False)])
def test_a_step_with_ddp_is_that_of_the_strategy_but_for_one_block(model: str, exact: bool) -> None:
    """Without launches, interference and the optimizer, which the two count differently, and with
    the same all-reduce. In a plan a bucket also waits for the other layers of its block, which
    counts if all-reduces end behind the backward."""
    trained, ran = as_strategy(model)
    trained = replace(trained, times=replace(trained.times, launch=0.0))
    dropout = "yes" if trained.shape.dropout else "no"
    words = f"micro={ran.batch},dropout={dropout},grads={ran.gradient_dtype}"
    plan = parse_plan(f"dp=8,zero=0,ddp=yes,{words}")
    machine = find("hgx_h100").build(8)
    made = write(work_of(trained, plan, GroupTimes(machine, plan.degrees)))
    (algorithm,) = {made.work.times.fastest(*call[:3]) for call in made.graph.calls}
    right = step(DDP(interference=False, algo=algorithm), 8, model=ran, topology=machine)
    mine = measure(made)
    later = (mine.step - mine.optimizer[0]) - (right - ran.optimizer)
    block = sum(part.seconds for part in made.work.stages[0][1].backward)
    assert -1e-9 * right <= later <= (1e-9 * right if exact else block)


def test_a_plan_is_read_and_written_alike() -> None:
    text = "dp=8,tp=4,pp=2,micro=2,batch=512,zero=1,sp=yes,recompute=full"
    plan = parse_plan(text, gpus=64)
    assert str(plan) == text
    assert plan.degrees == Degrees(dp=8, tp=4, pp=2)
    assert plan.micro_batches == 32
    for text in ("reshard=no,fsdp=1", "reshard=4,shard=8", "sync=no"):
        assert (
            str(parse_plan(f"dp=16,micro=1,zero=3,{text}"))
            == f"dp=16,tp=1,pp=1,micro=1,zero=3,{text}"
        )


def test_keys_that_cut_blocks_are_read_as_all_others() -> None:
    plan = parse_plan("tp=2,micro=3,overlap_tp=no,pieces=yes,dispatch=fp8,capacity=1.5")
    assert (plan.tp, plan.micro, plan.capacity) == (2, 3, 1.5)
    assert (plan.overlap_tp, plan.pieces, plan.dispatch) == (False, True, "fp8")
    assert [parse_plan(text).accumulated for text in ("zero=2", "zero=2,sync=no")] == [0.0, 10.0]


def test_the_order_of_the_pipeline_follows_from_v() -> None:
    assert parse_plan("pp=4").pipeline.name == "1f1b"
    plan = parse_plan("pp=4,v=2,batch=8")
    assert (plan.pipeline.name, plan.stages) == ("interleaved", 8)
    assert parse_plan("pp=4,schedule=zb_v").stages == 8
    assert parse_plan("pp=4").micro_batches == 16


def test_ddp_has_buckets_of_its_own_beside_the_backward() -> None:
    plan = parse_plan("dp=8,micro=1,ddp=yes")
    assert (plan.overlap, plan.bucket) == (True, 25 * 2**20)
    assert str(plan) == "dp=8,tp=1,pp=1,micro=1,overlap=yes,bucket=25MiB,ddp=yes"
    assert parse_plan(str(plan)) == plan
    view = parse_plan("dp=8,ddp=view,overlap=no,bucket=8MiB")
    assert (view.overlap, view.bucket) == (False, 8 * 2**20)
    assert parse_plan(str(view)) == view
    assert parse_plan(str(replace(plan, bucket=Plan.bucket))).bucket == Plan.bucket
    assert parse_plan("dp=8,zero=1,ddp=no") == parse_plan("dp=8,zero=1")


def test_a_batch_that_cannot_be_cut_is_refused() -> None:
    with pytest.raises(InputError, match=r"batch=30 is not a multiple of .* = 8: take batch=24"):
        _ = Plan(dp=4, micro=2, batch=30).micro_batches
    with pytest.raises(InputError, match="take batch=8"):
        _ = Plan(dp=4, micro=2, batch=3).micro_batches


def test_v_needs_an_order_with_stages_to_choose() -> None:
    with pytest.raises(InputError, match="v=2: schedule gpipe has no stages to choose"):
        _ = parse_plan("pp=2,schedule=gpipe,v=2").pipeline


def test_a_schedule_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(pipeline_csv(find_order("zb_v").build(2, 8)))
    assert parse_plan(f"pp=2,batch=8,schedule={path}").stages == 4
    with pytest.raises(InputError, match="plan so many, and not 2 and 4"):
        _ = parse_plan(f"pp=2,batch=4,schedule={path}").stages
