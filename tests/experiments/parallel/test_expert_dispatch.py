"""Exchanges of experts by measured kernels: floors, copies of tokens, and the keys of a plan."""

from dataclasses import replace

import pytest

from experiments.models.device_times import DeviceTimes
from experiments.models.kernel_times.exchange import Exchange, distinct, exchange_seconds
from experiments.parallel.expert_routing import Copies
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import parse_plan
from grouped_cases import each_case
from shipped_shapes import find_shape
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step_work import Work
from topologies.catalogue import find
from topologies.errors import InputError

MODEL = "deepseek_v3:layers=4"


def work(plan: str, machine: str = "hgx_h100", gpus: int = 8, device: str = "h100") -> Work:
    """The work of a model with experts."""
    name, shape, seq = find_shape(MODEL)
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
    rows = exchanges(work(plan, machine, gpus, device))
    assert [name for name, *_ in rows] == ["dispatch", "combine"]
    assert all(0 < links <= seconds for *_, links, seconds in rows)
    plain = exchanges(work(plan.replace(dispatcher, "all_to_all"), machine, gpus, device))
    assert [links for *_, links, _ in plain] == [seconds for *_, seconds in plain]
    # Copies of a token for a rank or a node travel once.
    assert all(each[2] < other[2] for each, other in zip(rows, plain, strict=True))
    assert [each[1] for each in rows] == [each[1] for each in plain]


def test_a_dispatch_takes_what_deepep_was_measured_to_take() -> None:
    dispatch, combine = exchanges(work("ep=8,micro=1,zero=1,dispatcher=deepep"))
    tokens = Exchange(8, 1, 256, 8, 4096, 2 * 7168)
    for row in (dispatch, combine):
        assert row[3] == exchange_seconds("h100", "deepep_normal", row[0], tokens)
    narrow = exchanges(work("ep=8,micro=1,zero=1,dispatcher=deepep,dispatch=fp8"))
    assert narrow[0][3] < dispatch[3]
    assert narrow[1] == combine


def test_busy_ranks_exchange_more() -> None:
    even, uneven = (
        exchanges(work(f"ep=8,micro=1,zero=1,dispatcher=deepep{more}"))
        for more in ("", ",imbalance=1.5")
    )
    for each, other in zip(even, uneven, strict=True):
        assert other[3] == pytest.approx(1.5 * each[3], rel=0.1)
    routed = exchanges(work("ep=8,micro=1,zero=1,dispatcher=deepep,router=zipf:0.5"))
    assert routed[0][3] > even[0][3]


def test_copies_are_a_share_of_all() -> None:
    share = distinct(8, 256, 8) / 8
    assert Copies(share).matrix(8).sum(axis=1) == pytest.approx([share] * 8)


def test_ranks_with_all_experts_exchange_nothing() -> None:
    assert exchanges(work("ep=1,micro=1,zero=1,dispatcher=deepep")) == []


def test_an_unknown_dispatcher_is_refused() -> None:
    with pytest.raises(InputError, match="'pigeon': all_to_all, deepep or nvlink"):
        parse_plan("ep=8,dispatcher=pigeon", gpus=8)
