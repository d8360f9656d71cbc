"""Routers of plans: which tokens reach which experts, and how long that takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.models.device_times import DeviceTimes
from experiments.parallel.expert_routing import Routing, prove, routing_of
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import Plan, parse_plan
from grouped_cases import each_case
from shipped_shapes import find_shape
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step_work import Work
from topologies.catalogue import find
from topologies.errors import InputError

MODEL = Training("deepseek_v3", find_shape("deepseek_v3")[1], 512, DeviceTimes("h100"))
SMALL = replace(MODEL, shape=replace(MODEL.shape, blocks=4))
MACHINE = find("hgx_h100:nodes=2").build(16)


def routing(text: str, training: Training = SMALL) -> Routing:
    plan = parse_plan(text, 16)
    result = routing_of(training.shape, plan, training.seq, MACHINE)
    assert result is not None
    return result


def work(text: str) -> tuple[Plan, Work]:
    plan = parse_plan(text, 16)
    return plan, work_of(SMALL, plan, GroupTimes(MACHINE, plan.degrees))


def test_each_token_passes_its_experts_and_the_seed_decides_which() -> None:
    one = routing("ep=16,router=zipf:0.8")
    assert (one.counts.sum(axis=1) == 512 * 8).all()
    assert one.counts.shape == (16, 256)
    assert one.imbalance == routing("ep=16,router=zipf:0.8").imbalance
    assert one.imbalance != routing("ep=16,router=zipf:0.8,seed=1").imbalance
    assert 1 < routing("ep=16,router=zipf:0").imbalance < 1.1 < one.imbalance


def test_what_exceeds_the_capacity_is_dropped() -> None:
    shares = [routing(f"ep=16,router=zipf:0.8,capacity={factor}").dropped for factor in (1, 2, 32)]
    assert shares[0] > shares[1] > 0 == shares[2]
    capped = routing("ep=16,router=zipf:0.8,capacity=2")
    slots = np.ceil(512 * 8 / 256 * 2)
    kept = np.minimum(capped.counts, slots).sum() / capped.counts.sum()
    assert capped.dropped == pytest.approx(1 - kept)
    assert capped.even == "each expert has as many slots"


def test_even_routers_take_about_as_long_as_even_exchanges() -> None:
    times = {}
    for key in ("", ",router=zipf:0", ",router=zipf:0.8", ",router=zipf:0.8,nodes=1"):
        _, job = work(f"ep=16{key}")
        part = next(part for part in job.stages[0][-2].forward if part.group == "ep")
        times[key] = job.times.seconds("ep", part.collective, part.nbytes)
    even, uniform, skewed, limited = times.values()
    assert even == pytest.approx(uniform, rel=0.15)
    assert limited < skewed > uniform
    # 8 experts a token: a copy crosses the network to the other node instead of about 4.
    assert limited < uniform


def test_a_token_reaches_as_many_nodes_as_it_may() -> None:
    limited = routing("ep=16,router=zipf:0.5,nodes=1")
    assert limited.forwards
    assert limited.router.per_node == 8
    assert (limited.router.node_counts(16).sum(axis=1) <= 512).all()
    inside = routing("ep=8,router=zipf:0.5,nodes=1")
    assert not inside.forwards


def test_nodes_whose_ranks_are_apart_exchange_evenly() -> None:
    apart = routing("dp=16,ep=16,router=zipf:0.5,nodes=2")
    assert not apart.even
    plan = parse_plan("dp=8,cp=2,ep=16,router=zipf:0.5,nodes=2,order=tp-dp-cp-pp", 16)
    turned = replace(MACHINE, placement=MACHINE.placement.reshape(2, 8).T.ravel())
    result = routing_of(SMALL.shape, plan, 512, turned)
    assert result is not None
    assert result.even == "the ranks of a node do not follow one another"
    assert not result.algorithms


def test_dispatch_and_combine_have_shares_of_the_exposed_seconds() -> None:
    plan, job = work("ep=16,cp=2,tp=1,router=zipf:0.5,nodes=1,seed=2")
    router = routing_of(SMALL.shape, plan, SMALL.seq, MACHINE)
    assert router is not None
    values = router.figures(job, 6.0)
    assert values["dispatch_s"] == values["combine_s"]
    assert values["exposed_dispatch_s"] == values["exposed_combine_s"] == pytest.approx(3)


def test_routers_without_experts_or_nodes_are_refused() -> None:
    plan, shape = parse_plan("router=zipf:1", 16), find_shape("llama3_8b")[1]
    with pytest.raises(InputError, match="no experts: leave router out"):
        routing_of(shape, plan, 512, MACHINE)
    plan = parse_plan("ep=16,router=zipf:1,nodes=2", 16)
    with pytest.raises(InputError, match="the machine has no nodes: leave nodes out"):
        routing_of(SMALL.shape, plan, 512, find("star").build(16))
    assert SMALL.shape.experts is not None
    few = replace(SMALL.shape, experts=replace(SMALL.shape.experts, number=16, top=12))
    with pytest.raises(InputError, match=r"nodes=1 of 8 experts have fewer .* take nodes=2"):
        routing_of(few, replace(plan, nodes=1), 512, MACHINE)
    with pytest.raises(InputError, match="256 experts, which ep=3 does not divide"):
        routing_of(SMALL.shape, replace(plan, ep=3, dp=3), 512, MACHINE)


@each_case(
    ("text", "kinds"),
    [
        ("tp=2,sp=yes,ep=4", {"tp", "ep"}),
        ("tp=2,sp=yes,ep=4,router=zipf:0.7", {"tp", "ep"}),
        ("tp=2,sp=yes,ep=4,router=zipf:0.7,capacity=1.5", {"tp", "ep"}),
        ("ep=16,cp=2,tp=1,router=zipf:0.5,nodes=1,seed=2", {"cp", "ep"}),
    ],
)
def test_every_kind_of_exchange_and_of_group_is_proven(text: str, kinds: set[str]) -> None:
    plan = parse_plan(text, 16)
    router = routing_of(SMALL.shape, plan, SMALL.seq, MACHINE)
    proven = prove(plan, router, SMALL.shape.experts)
    assert set(proven) == kinds
    assert ("dropped" in proven["ep"]) == ("capacity" in text)
