"""Pipelines as CSV."""

import re

import numpy as np
import pytest

from extras import needs
from grouped_cases import each_case
from refusals import refusal
from simulator.parallel.pipelines import Pipeline, find, orders
from simulator.parallel.pipelines.pipeline_csv import pipeline_csv, read_pipeline
from simulator.steps.kinds import BACKWARD, INPUTS

COLUMNS = "place", "device", "kind", "stage", "micro", "copy", "paired"


def assert_equal(pipeline: Pipeline, other: Pipeline) -> None:
    for column in COLUMNS:
        assert np.array_equal(getattr(pipeline, column), getattr(other, column)), column


def test_every_order_survives_its_csv() -> None:
    for name in orders():
        pipeline = find(name).build(4, 8)
        assert_equal(read_pipeline(pipeline_csv(pipeline), "a.csv"), pipeline)


def test_the_form_is_that_of_pytorch() -> None:
    assert pipeline_csv(find("zb_h1").build(2, 1)) == "0F0,0I0,0W0\n1F0,1I0,1W0\n"
    assert "(0F1;1B2)OVERLAP_F_B" in pipeline_csv(find("dual_pipe").build(2, 4))


def test_what_other_tools_write_is_read() -> None:
    expected = find("zb_h1").build(2, 1)
    for text in (
        "0F0,0B0,0W0\n1F0,1B0,1W0",
        "F0,B0,W0\nF0,B0,W0\n",
        '\n0F0,,"0SEND_F0",0I0,0W0\n1UNSHARD,1RECV_F0,1F0,1I0,1W0,\n\n',
    ):
        assert_equal(read_pipeline(text, "a.csv"), expected)
    assert set(read_pipeline("0F0,0BW0", "a.csv").kind.tolist()) == {0, BACKWARD}
    assert INPUTS not in read_pipeline("0F0,0B0", "a.csv").kind


@each_case(
    ("text", "message"),
    [
        ("", "a.csv has no actions: expected a cell like 0F0"),
        ("0UNSHARD", "a.csv has no actions"),
        ("0F0,0B0\n,,\n1F0,1B0", "line 2 has no action"),
        ("0F0,0X0", "line 1: '0X0' is no action"),
        ("0F٣,0B0", "is no action"),
        ("0F0,0B" + "9" * 5000, "is no action"),
        ("0F9999999,999999B0", "2 actions, too few for 1000000 stages and 10000000 micro"),
        ("0F0,0F0", "micro-batch 0 in stage 0 .* write forward once"),
        ("0F0,0F1\n0B0,0B1,0F0", "line 2 has 0B0, but line 1 has that stage"),
        ("0F0,0B0,0F0,0B0,2F0,2B0", "no device has stage 1"),
        ("0B0,0F0", "device 0 waits at 0B0"),
        ("(0F0;0B0)OVERLAP_F_B", "devices wait for each other"),
        ("(0F0;0F1)OVERLAP_F_B,0B0,0B1", "a pair is a forward and a backward"),
        ("," * 2**21, "more than 1048576 cells"),
    ],
)
def test_bad_files_are_refused_in_one_line(text: str, message: str) -> None:
    line = refusal(read_pipeline, text, "a.csv")
    assert len(line) < 200
    assert re.search(message, line)


@pytest.mark.exhaustive
@needs("torch", "torch")
def test_pytorchs_orders_are_read_and_ours_are_the_same() -> None:
    import torch
    from torch.distributed.pipelining import schedules

    class Stage:
        """What PyTorch asks of a stage before it runs."""

        group, has_backward, device = None, True, "cpu"

        def __init__(self, index: int) -> None:
            self.stage_index, self.group_rank, self.group_size, self.num_stages = index, 0, 4, 8
            self.is_first, self.is_last = index == 0, index == 7
            self.submod = torch.nn.Linear(1, 1)

    for schedule, indices, name in (
        (schedules.ScheduleInterleaved1F1B, (0, 4), "interleaved"),
        (schedules.ScheduleZBVZeroBubble, (0, 7), "zb_v"),
        (schedules.ScheduleDualPipeV, (0, 7), ""),
    ):
        order = schedule([Stage(index) for index in indices], 12, loss_fn=max).pipeline_order
        cells = [["" if cell is None else str(cell) for cell in order[rank]] for rank in range(4)]
        pipeline = read_pipeline("\n".join(map(",".join, cells)), "torch.csv")
        if name:
            assert_equal(pipeline, find(name).build(4, 12))
        else:
            assert pipeline.paired.any()
