"""The blocks of stages, and what a step of a model takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_step import Training, pipeline_of, stages_of
from experiments.parallel.plan_text import parse_plan
from grouped_cases import each_case
from simulator.parallel.group_times import GroupTimes
from topologies.catalogue import find
from topologies.errors import InputError


def training(model: str = "gpt3_1_7b:layers=6,hidden=512,heads=8,seq=256") -> Training:
    """A model on an A100."""
    entry = find_transformer(model)
    return Training(entry.name, entry.shape, entry.size, DeviceTimes("a100"))


@each_case(
    ("layers", "plan", "sizes"),
    [
        (6, "pp=3", [3, 2, 3]),
        (6, "pp=4", [2, 2, 2, 2]),
        (6, "pp=2,v=3", [2, 1, 1, 1, 1, 2]),
        (8, "pp=3,uneven=yes", [4, 3, 3]),
    ],
)
def test_stages_share_the_layers(layers: int, plan: str, sizes: list[int]) -> None:
    model = training(f"gpt3_1_7b:layers={layers},hidden=512,heads=8,seq=256")
    stages = stages_of(model, parse_plan(plan))
    assert [len(stage) for stage in stages] == sizes
    assert stages[0][0].name == "embedding"
    assert stages[-1][-1].name == "head"


def test_layers_that_stages_do_not_divide_are_refused() -> None:
    with pytest.raises(InputError, match="has 6 layers, which 5 stages do not divide: take pp=3"):
        stages_of(training(), parse_plan("pp=5"))


def test_a_search_takes_the_times_of_the_blocks() -> None:
    plan = parse_plan("pp=2,dp=1,batch=8,schedule=zb_auto:memory=2")
    times = GroupTimes(find("dgx_a100").build(2), plan.degrees)
    stages = stages_of(training(), plan)
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
