"""Plans as the user writes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.parallel.plan_text import Plan, parse_plan
from grouped_cases import each_case
from simulator.parallel.degrees import Degrees
from simulator.parallel.pipelines import find
from simulator.parallel.pipelines.pipeline_csv import pipeline_csv
from topologies.errors import InputError


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


def test_data_parallel_takes_the_gpus_that_are_left() -> None:
    assert parse_plan("tp=8,cp=2", gpus=64).dp == 4
    assert parse_plan("tp=8").dp == 1


def test_the_order_of_the_pipeline_follows_from_v() -> None:
    assert parse_plan("pp=4").pipeline.name == "1f1b"
    plan = parse_plan("pp=4,v=2,batch=8")
    assert (plan.pipeline.name, plan.stages) == ("interleaved", 8)
    assert parse_plan("pp=4,schedule=zb_v").stages == 8
    assert parse_plan("pp=4").micro_batches == 16


@each_case(
    ("text", "message"),
    [
        ("dp=8,tp=3", "= 8 x 3 x 1 x 1 = 24, and there are 64 GPUs: take tp=2 and dp=32"),
        ("dp=8,tq=4", "a plan has no 'tq': did you mean 'tp'"),
        ("tp", "plan: tp has no value: write it like tp=8"),
        ("tp=2,tp=4", "plan: tp is given twice"),
        ("tp=0", "plan: tp=0: 1 or more"),
        ("imbalance=0.5", "plan: imbalance=0.5: 1 for even experts, or more"),
        ("tp=two", "plan: tp=two: 'two' is not a whole number"),
        ("zero=4", "plan: zero=4: 0, 1, 2 or 3"),
        ("recompute=some", "plan: recompute=some: 'some': none, selective or full"),
        ("zero=3,reshard=1", "plan: reshard=1: yes, no, or a number of 2 or more"),
        ("zero=2,reshard=no", "plan: reshard goes with zero=3: it is 2"),
        ("zero=1,shard=8", "plan: shard goes with zero=2: it is 1"),
        ("zero=1,ddp=yes", "plan: ddp=yes goes with zero=0: it is 1"),
        ("ddp=maybe", "plan: ddp=maybe: 'maybe': no, yes or view"),
        ("sp=true", "plan: sp=true: 'true' is neither yes nor no"),
    ],
)
def test_wrong_plans_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_plan(text, gpus=64)


def test_ddp_has_buckets_of_its_own_beside_the_backward() -> None:
    plan = parse_plan("dp=8,micro=1,ddp=yes")
    assert (plan.overlap, plan.bucket) == (True, 25 * 2**20)
    assert str(plan) == "dp=8,tp=1,pp=1,micro=1,overlap=yes,bucket=25MiB,ddp=yes"
    assert parse_plan(str(plan)) == plan
    other = parse_plan("dp=8,ddp=view,overlap=no,bucket=8MiB")
    assert (other.overlap, other.bucket) == (False, 8 * 2**20)
    assert parse_plan(str(other)) == other
    assert parse_plan(str(replace(plan, bucket=Plan.bucket))).bucket == Plan.bucket
    assert parse_plan("dp=8,zero=1,ddp=no") == parse_plan("dp=8,zero=1")


def test_a_batch_that_cannot_be_cut_is_refused() -> None:
    with pytest.raises(InputError, match=r"batch=30 is not a multiple of .* = 8: take batch=24"):
        _ = Plan(dp=4, micro=2, batch=30).micro_batches
    with pytest.raises(InputError, match="take batch=8"):
        _ = Plan(dp=4, micro=2, batch=3).micro_batches


def test_v_needs_an_order_with_stages_to_choose() -> None:
    with pytest.raises(InputError, match="v=2: schedule gpipe has no stages to choose"):
        _ = parse_plan("schedule=gpipe,v=2").pipeline


def test_a_schedule_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(pipeline_csv(find("zb_v").build(2, 8)))
    assert parse_plan(f"pp=2,batch=8,schedule={path}").stages == 4
    with pytest.raises(InputError, match="plan so many, and not 2 and 4"):
        _ = parse_plan(f"pp=2,batch=4,schedule={path}").stages
