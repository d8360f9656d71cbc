"""Groups of experts whose tensor parallelism is another than that of the rest."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from refusals import refusal
from simulator.parallel.degrees import KINDS, Degrees, divisor


@st.composite
def laid_anew(draw: st.DrawFn) -> Degrees:
    """Degrees whose experts have a tensor parallelism that may be another than that of the rest."""
    dp, tp, pp, cp = (draw(st.integers(1, 4)) for _ in range(4))
    etp = draw(st.sampled_from([each for each in range(1, 5) if dp * cp * tp % each == 0]))
    shared = dp * cp * tp // etp
    sizes = [each for each in range(1, shared + 1) if shared % each == 0]
    if etp == tp:
        sizes = [each for each in sizes if dp * cp % each == 0]
    order = "-".join(draw(st.permutations(("tp", "cp", "dp", "pp"))))
    return Degrees(dp, tp, pp, cp, draw(st.sampled_from(sizes)), order, etp)


@given(laid_anew())
def test_experts_have_a_tensor_parallelism_of_their_own(plan: Degrees) -> None:
    """Each expert's part is on as many ranks as an "experts" group has, and the groups of the three
    kinds cross in one rank."""
    kinds = {kind: plan.groups(kind) for kind in ("etp", "ep", "experts")}
    for kind, groups in kinds.items():
        assert groups.shape[1] == plan.size(kind)
        assert sorted(groups.ravel()) == [*range(plan.ranks)]
        assert len({int(plan.devices[rank]) for rank in groups[0]}) == 1
        others = [other for name, other in kinds.items() if name != kind]
        for group in groups:
            for other in others:
                assert all(len({*group} & {*row}) <= 1 for row in other)
    assert plan.size("etp") * plan.size("ep") * plan.size("experts") * plan.pp == plan.ranks


def test_experts_are_laid_over_ranks_of_tensor_parallel() -> None:
    """Megatron-LM: expert tensor parallel is innermost, then come the ranks that share experts."""
    plan = Degrees(dp=2, tp=4, ep=4, etp=1)
    assert plan.groups("ep").tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert plan.groups("experts").tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]
    halves = Degrees(dp=2, tp=4, ep=2, etp=2)
    assert halves.groups("etp").tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert halves.groups("ep").tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]


@given(laid_anew())
def test_as_many_ranks_of_an_expert_as_of_the_rest_change_no_group(plan: Degrees) -> None:
    usual = replace(plan, ep=divisor(plan.dp * plan.cp, plan.ep), etp=0)
    same = replace(usual, etp=plan.tp)
    for kind in KINDS:
        assert (same.groups(kind) == usual.groups(kind)).all()


@given(*[st.integers(1, 12)] * 4, st.integers(1, 200))
def test_a_refusal_names_degrees_that_multiply_to_the_gpus(
    dp: int, tp: int, pp: int, cp: int, gpus: int
) -> None:
    degrees = Degrees(dp=dp, tp=tp, pp=pp, cp=cp)
    if degrees.ranks == gpus:
        return
    named = refusal(degrees.check, gpus).partition(": take ")[2]
    pairs = dict(word.split("=") for word in named.replace(",", "").split() if word != "and")
    changes: dict[str, Any] = {axis: int(degree) for axis, degree in pairs.items()}
    replace(degrees, **changes).check(gpus)
