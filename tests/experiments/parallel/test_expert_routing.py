"""Routers of plans: which tokens reach which experts, how long that takes, and exchanges by
measured kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.models.device_times import DeviceTimes
from experiments.models.kernel_times.exchange import Exchange, distinct, exchange_seconds
from experiments.parallel.expert_routing import Copies, Routing, prove, routing_of
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


DEEPSEEK = "deepseek_v3:layers=4"


def work_on(plan: str, machine: str = "hgx_h100", gpus: int = 8, device: str = "h100") -> Work:
    """The work of a model with experts."""
    name, shape, seq = find_shape(DEEPSEEK)
    chosen = parse_plan(plan, gpus=gpus)
    times = GroupTimes(find(machine).build(gpus), chosen.degrees)
    return work_of(Training(name, shape, seq, DeviceTimes(device)), chosen, times)


def exchanges(step: Work) -> list[tuple[str, float, float, float]]:
    """The collective, V, seconds on links and seconds of each exchange of a forward."""
    rows, on_links = [], replace(step.times, laws={})
    for block in step.stages[0]:
        for part in (each for each in block.forward if each.group == "ep"):
            call = "ep", part.collective, part.nbytes
            rows.append((*call[1:], on_links.seconds(*call), step.times.seconds(*call)))
    return rows


@each_case(
    ("machine", "gpus", "device"),
    [("hgx_h100", 8, "h100"), ("hgx_h100:nodes=2", 16, "h100"), ("dgx_a100", 8, "a100")],
)
@each_case("dispatcher", ["deepep", "nvlink"])
def test_kernels_take_no_less_than_links(
    dispatcher: str, machine: str, gpus: int, device: str
) -> None:
    plan = f"ep={gpus},micro=1,zero=1,dispatcher={dispatcher}"
    rows = exchanges(work_on(plan, machine, gpus, device))
    assert [name for name, *_ in rows] == ["dispatch", "combine"]
    assert all(0 < links <= seconds for *_, links, seconds in rows)
    plain = exchanges(work_on(plan.replace(dispatcher, "all_to_all"), machine, gpus, device))
    assert [links for *_, links, _ in plain] == [seconds for *_, seconds in plain]
    # Copies of a token for a rank or a node travel once.
    assert all(each[2] < other[2] for each, other in zip(rows, plain, strict=True))
    assert [each[1] for each in rows] == [each[1] for each in plain]


def test_a_dispatch_takes_what_deepep_was_measured_to_take() -> None:
    dispatch, combine = exchanges(work_on("ep=8,micro=1,zero=1,dispatcher=deepep"))
    tokens = Exchange(8, 1, 256, 8, 4096, 2 * 7168)
    for row in (dispatch, combine):
        assert row[3] == exchange_seconds("h100", "deepep_normal", row[0], tokens)
    narrow = exchanges(work_on("ep=8,micro=1,zero=1,dispatcher=deepep,dispatch=fp8"))
    assert narrow[0][3] < dispatch[3]
    assert narrow[1] == combine


def test_busy_ranks_exchange_more() -> None:
    even, uneven = (
        exchanges(work_on(f"ep=8,micro=1,zero=1,dispatcher=deepep{more}"))
        for more in ("", ",imbalance=1.5")
    )
    for each, other in zip(even, uneven, strict=True):
        assert other[3] == pytest.approx(1.5 * each[3], rel=0.1)
    routed = exchanges(work_on("ep=8,micro=1,zero=1,dispatcher=deepep,router=zipf:0.5"))
    assert routed[0][3] > even[0][3]


def test_copies_are_a_share_of_all() -> None:
    share = distinct(8, 256, 8) / 8
    assert Copies(share).matrix(8).sum(axis=1) == pytest.approx([share] * 8)


def test_ranks_with_all_experts_exchange_nothing() -> None:
    assert exchanges(work_on("ep=1,micro=1,zero=1,dispatcher=deepep")) == []


def test_an_unknown_dispatcher_is_refused() -> None:
    with pytest.raises(InputError, match="'pigeon': all_to_all, deepep or nvlink"):
        parse_plan("ep=8,dispatcher=pigeon", gpus=8)
