"""Degrees of a plan, and the groups of ranks that they make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from simulator.parallel.degrees import KINDS, Degrees
from topologies.errors import InputError

SMALL = st.integers(1, 4)


@st.composite
def degrees(draw: st.DrawFn) -> Degrees:
    """Degrees of up to 256 ranks, in any order."""
    dp, tp, pp, cp = (draw(SMALL) for _ in range(4))
    ep = draw(st.sampled_from([size for size in range(1, dp * cp + 1) if dp * cp % size == 0]))
    order = "-".join(draw(st.permutations(("tp", "cp", "dp", "pp"))))
    return Degrees(dp, tp, pp, cp, ep, order)


def coordinates(plan: Degrees, rank: int) -> dict[str, int]:
    """The place of a rank along each axis."""
    places = {}
    for axis in plan.order.split("-"):
        rank, places[axis] = divmod(rank, getattr(plan, axis))
    return places


@given(degrees())
def test_the_groups_of_each_kind_hold_every_rank_once(plan: Degrees) -> None:
    for kind in KINDS:
        groups = plan.groups(kind)
        assert groups.shape[1] == plan.size(kind)
        assert sorted(groups.ravel()) == [*range(plan.ranks)]
        assert (np.diff(groups, axis=1) > 0).all()


@given(degrees())
def test_ranks_of_a_group_differ_along_its_axes_alone(plan: Degrees) -> None:
    for kind, axes in KINDS.items():
        for group in plan.groups(kind)[:4].tolist():
            places = [coordinates(plan, rank) for rank in group]
            for axis in {"tp", "cp", "dp", "pp"} - {*axes}:
                assert len({place[axis] for place in places}) == 1


@given(degrees())
def test_a_rank_shares_its_experts_groups_with_no_rank_of_its_ep_group(plan: Degrees) -> None:
    number = np.zeros((2, plan.ranks), dtype=int)
    for row, kind in enumerate(("ep", "experts")):
        for group, members in enumerate(plan.groups(kind)):
            number[row, members] = group
    assert len(np.unique(number, axis=1).T) == plan.ranks


@given(degrees(), st.sampled_from(("data", "experts")), st.data())
def test_runs_cut_groups_and_meet_across_them_once(
    plan: Degrees, kind: str, data: st.DataObject
) -> None:
    whole = plan.size(kind)
    run = data.draw(st.sampled_from([n for n in range(1, whole + 1) if whole % n == 0]))
    runs, across = (plan.groups(f"{kind}{cut}{run}") for cut in "/%")
    assert plan.size(f"{kind}/{run}") == run
    assert plan.size(f"{kind}%{run}") == whole // run
    assert [*map(set, runs.reshape(-1, whole))] == [*map(set, plan.groups(kind))]
    for groups in (runs, across):
        assert sorted(groups.ravel()) == [*range(plan.ranks)]
    members = [set(group) for group in runs.tolist()]
    for group in across.tolist():
        assert all(len(run.intersection(group)) <= 1 for run in members)


def test_groups_follow_the_order_of_megatron() -> None:
    plan = Degrees(dp=2, tp=2, pp=2, cp=2, ep=2)
    assert plan.groups("tp")[:2].tolist() == [[0, 1], [2, 3]]
    assert plan.groups("cp")[:2].tolist() == [[0, 2], [1, 3]]
    assert plan.groups("dp")[0].tolist() == [0, 4]
    assert plan.groups("pp")[0].tolist() == [0, 8]
    assert plan.groups("data")[0].tolist() == [0, 2, 4, 6]
    assert plan.groups("ep")[:2].tolist() == [[0, 2], [4, 6]]
    assert plan.groups("experts")[:2].tolist() == [[0, 4], [2, 6]]


@each_case(
    ("plan", "gpus", "right"),
    [
        (Degrees(dp=8, tp=4, pp=2), 32, "take dp=4"),
        (Degrees(dp=8, tp=4, pp=3), 32, "take pp=2 and dp=4"),
        (Degrees(dp=1, tp=3, pp=1), 8, "take tp=2 and dp=4"),
        (Degrees(dp=1, tp=3, pp=5), 8, "take other degrees"),
    ],
)
def test_degrees_for_other_gpus_are_refused(plan: Degrees, gpus: int, right: str) -> None:
    with pytest.raises(InputError, match=f"there are {gpus} GPUs: {right}$"):
        plan.check(gpus)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tp": 0}, "tp is 0: a whole number of 1 or more"),
        ({"dp": 6, "ep": 4}, "ep is 4: it divides dp x cp = 6, like 3"),
        ({"order": "tp-dp"}, "order 'tp-dp': each of tp, cp, dp, pp"),
    ],
)
def test_degrees_that_make_no_sense_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Degrees(**values)  # type: ignore[arg-type]


def test_unknown_groups_are_refused() -> None:
    with pytest.raises(InputError, match="no kind of group 'sp': one of tp"):
        Degrees().groups("sp")
    for kind in ("data/4", "data%0", "data/x"):
        with pytest.raises(InputError, match=r"data groups have 6, so take [13]$"):
            Degrees(dp=6).groups(kind)


def test_groups_of_two_devices_have_a_rank_of_each() -> None:
    plan = Degrees(tp=2, pp=3)
    assert plan.groups("2 to 0").tolist() == [[4, 0], [5, 1]]
    assert (plan.size("2 to 0"), plan.size("1 to 1")) == (2, 1)
    with pytest.raises(InputError, match="device 0 to 3: the pipeline has 3 devices"):
        plan.size("0 to 3")
