"""Pipelines: their checks, and the order of each."""

from collections import defaultdict, deque
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extras import needs
from pipeline_formulas import FORMULAS, PipelineSizes
from refusals import refusal
from simulator.parallel.pipeline_times import StageTimes, peak_activations, pipeline_times
from simulator.parallel.pipelines import Pipeline, check, find, orders
from simulator.parallel.pipelines.paper_orders import zb_auto
from simulator.parallel.pipelines.pipeline import pipeline_csv, read_pipeline
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, WEIGHTS
from topologies.errors import InputError


def row_texts(pipeline: Pipeline, device: int) -> str:
    begin, end = pipeline.starts[device : device + 2]
    return " ".join(pipeline.text(row) for row in range(begin, end))


def test_the_orders_are_those_of_their_papers() -> None:
    assert row_texts(find("gpipe").build(2, 2), 1) == "1F0 1F1 1B0 1B1"
    assert row_texts(find("1f1b").build(3, 4), 0) == "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3"
    assert row_texts(find("1f1b").build(3, 4), 2) == "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3"
    assert row_texts(find("interleaved").build(2, 2), 0) == "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1"
    assert row_texts(find("interleaved").build(2, 2), 1) == "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1"


def test_what_an_action_needs_comes_first() -> None:
    for name in (*orders(), "interleaved:chunks=3"):
        for devices, micro_batches in ((2, 4), (4, 8), (4, 12)):
            pipeline = find(name).build(devices, micro_batches)
            place = np.empty(len(pipeline), dtype=int)
            place[pipeline.order] = np.arange(len(pipeline))
            for rows in pipeline.needs.T:
                needed = rows >= 0
                assert np.all(place[rows[needed]] < place[needed])
            free = pipeline.needs[:, 0] < 0
            assert np.all(pipeline.kind[free] == FORWARD)
            assert np.all(pipeline.stage[free] == 0)


def test_wrong_pipelines_are_refused() -> None:
    pipeline = find("1f1b").build(2, 2)
    swapped = pipeline.micro.copy()
    swapped[4:8] = swapped[4:8][::-1]
    last = np.where(pipeline.device == 1, BACKWARD - pipeline.kind, pipeline.kind)
    for wrong, message in (
        ({"micro": np.zeros_like(swapped)}, "micro-batch 0 in stage 0 .* write forward once"),
        ({"kind": np.full_like(last, FORWARD)}, "write forward once"),
        ({"kind": np.where(last == BACKWARD, 2, last)}, "write backward for weights once"),
        ({"kind": last}, "devices wait for each other: device 0 waits at 0B0"),
    ):
        with pytest.raises(InputError, match=message):
            check(replace(pipeline, **wrong))


def test_bad_sizes_and_options_are_refused() -> None:
    for name, sizes, message in (
        ("1f1b", (0, 4), "devices is 0: 1 or more"),
        ("gpipe", (4, 0), "micro_batches is 0: 1 or more"),
        ("interleaved", (4, 6), "6 micro-batches on 4 devices: take a multiple of 4"),
        ("1f1b", (4096, 10**9), "too many: at most"),
        ("dual_pipe", (3, 6), "3 devices: take an even number"),
        ("dual_pipe", (4, 6), "take an even number, 8 or more"),
        ("dual_pipe", (4, 9), "take an even number, 8 or more"),
        ("zb_auto", (2, 2, 1, -1), "forward is -1: 0 or more"),
        ("zb_auto", (2, 2, 0), "memory is 0"),
    ):
        with pytest.raises(InputError, match=message):
            find(name).build(*sizes)
    for text, message in (
        ("1f2b", "did you mean '1f1b'"),
        ("interleaved:chunk=2", "did you mean 'chunks'"),
        ("interleaved:chunks", "chunks has no value"),
        ("interleaved:chunks=0", "chunks=0: 1 or more"),
        ("gpipe:chunks=2", "gpipe has no options"),
    ):
        with pytest.raises(InputError, match=message):
            find(text)


def test_each_order_has_a_summary() -> None:
    assert all(order.summary for order in orders().values())


@given(
    st.integers(1, 5),
    st.integers(1, 12),
    st.integers(1, 3),
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8), st.integers(0, 8)),
    st.sampled_from([0, 50, 100]),
)
def test_the_search_keeps_its_limit_of_memory(
    devices: int, micro_batches: int, memory: int, times: tuple[int, int, int, int], kept: int
) -> None:
    pipeline = zb_auto(devices, micro_batches, memory, *times, kept=kept)
    size = peak_activations(pipeline, 1, kept / 100) @ [1, kept / 100]
    assert np.all(size <= memory * devices)


def test_a_search_with_the_memory_of_1f1b_is_as_good_as_zb_h1() -> None:
    """If the parts take equally long, both have a third of 1F1B's bubble, and the search with twice
    the memory has next to none."""
    for memory, bubble in ((1, 7.0), (2, 0.0)):
        pipeline = find(f"zb_auto:memory={memory}").build(8, 24)
        assert pipeline_times(pipeline, StageTimes()).idle_within.max() <= bubble


MODULUS = 2**61 - 1


def weight(stage: int) -> int:
    return 1000003 * (stage + 2)


def sample(micro: int) -> int:
    return 7919 * (micro + 1)


def gradients(pipeline: Pipeline) -> list[int]:
    """The gradient of the weight of each stage: every row runs on its device, in a possible
    order."""
    held: dict[tuple[int, int, int], tuple[int, int]] = {}
    queues: defaultdict[tuple[int, int, int], deque[tuple[int, int]]] = defaultdict(deque)
    result = [0] * pipeline.stages
    last = pipeline.stages - 1
    for row in pipeline.order.tolist():
        device, stage, micro = (
            int(column[row]) for column in (pipeline.device, pipeline.stage, pipeline.micro)
        )
        kind, copy = int(pipeline.kind[row]), int(pipeline.copy[row])
        key = device, stage, micro
        if kind == FORWARD:
            sent = queues[copy, stage, 1].popleft() if stage else (micro, sample(micro))
            assert sent[0] == micro
            held[key] = sent[1], 0
            queues[copy, stage + 1, 1].append((micro, sent[1] * weight(stage) % MODULUS))
        if kind in (BACKWARD, INPUTS):
            sent = queues[copy, stage, -1].popleft() if stage < last else (micro, 1)
            assert sent[0] == micro
            held[key] = held[key][0], sent[1]
            queues[copy, stage - 1, -1].append((micro, sent[1] * weight(stage) % MODULUS))
        if kind in (BACKWARD, WEIGHTS):
            value, gradient = held.pop(key)
            result[stage] = (result[stage] + value * gradient) % MODULUS
    assert not held
    return result


def expected(stages: int, micro_batches: int) -> list[int]:
    """The same on a single device."""
    product = 1
    for stage in range(stages):
        product = product * weight(stage) % MODULUS
    inputs = sum(map(sample, range(micro_batches)))
    return [inputs * product * pow(weight(stage), -1, MODULUS) % MODULUS for stage in range(stages)]


@given(st.sampled_from(sorted(orders())), st.integers(1, 3), st.integers(1, 3))
def test_gradients_are_those_of_a_single_device(name: str, half: int, rounds: int) -> None:
    pipeline = find(name).build(2 * half, 4 * half * rounds)
    assert gradients(pipeline) == expected(pipeline.stages, pipeline.micro_batches)


@given(st.sampled_from(sorted(orders())), st.data())
def test_no_action_can_be_left_out_or_repeated(name: str, data: st.DataObject) -> None:
    pipeline = find(name).build(2, 4)
    row = data.draw(st.integers(0, len(pipeline) - 1))
    for rows in (
        np.delete(np.arange(len(pipeline)), row),
        np.insert(np.arange(len(pipeline)), row, row),
    ):
        columns = {
            field.name: getattr(pipeline, field.name)[rows]
            for field in fields(pipeline)
            if field.name in ("kind", "stage", "micro", "paired")
        }
        assert "missing or repeated actions" in refusal(check, replace(pipeline, **columns))


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


SECONDS = st.integers(1, 64).map(lambda number: number / 16)
"""Multiples of a power of two, so that sums are exact."""


@st.composite
def known_pipelines(draw: st.DrawFn) -> tuple[Pipeline, str, PipelineSizes]:
    """A pipeline, the name of its formula, and its sizes."""
    name = draw(st.sampled_from(sorted(FORMULAS)))
    devices = draw(st.integers(1, 6))
    devices += devices % 2 if name == "dual_pipe" else 0
    chunks = {"zb_v": 2}.get(name, 1)
    text = name
    micro_batches = FORMULAS[name].least(devices) + draw(st.integers(0, 6))
    if name == "interleaved":
        chunks = draw(st.integers(1, 4))
        text = f"{name}:chunks={chunks}"
        micro_batches += -micro_batches % devices
    elif name == "dual_pipe":
        micro_batches += micro_batches % 2
    sizes = PipelineSizes(devices, micro_batches, chunks)
    return find(text).build(devices, micro_batches), name, sizes


@given(known_pipelines(), SECONDS, SECONDS, SECONDS)
def test_idle_time_is_that_of_the_formula(
    known: tuple[Pipeline, str, PipelineSizes], forward: float, inputs: float, weights: float
) -> None:
    pipeline, name, sizes = known
    formula = FORMULAS[name]
    if not formula.holds(forward, inputs, weights):
        inputs = weights = forward
    times = pipeline_times(pipeline, StageTimes(forward, inputs, weights))
    idle = times.idle_within if formula.within else times.idle
    assert idle.max() == formula.bubble(sizes, forward, inputs, weights)
    work = sizes.micro_batches * sizes.chunks * (forward + inputs + weights)
    assert np.all(times.computing == work)
    if not formula.within:
        assert np.all(times.idle == idle[0])


@given(known_pipelines(), st.sampled_from([0.0, 0.5, 1.0]))
def test_activations_are_those_of_the_formula(
    known: tuple[Pipeline, str, PipelineSizes], kept_for_weights: float
) -> None:
    pipeline, name, sizes = known
    expected = [FORMULAS[name].kept(sizes, device) for device in range(sizes.devices)]
    activations = peak_activations(pipeline, 1.0, kept_for_weights)
    size = np.array([1.0, kept_for_weights])
    assert np.array_equal(activations @ size, np.array(expected) @ size)


@given(
    st.sampled_from(sorted(orders())),
    st.integers(1, 4),
    st.integers(1, 3),
    st.tuples(SECONDS, SECONDS, SECONDS, SECONDS, st.booleans()),
)
def test_engines_agree_and_needs_are_kept(
    name: str, devices: int, rounds: int, seconds: tuple[float, float, float, float, bool]
) -> None:
    pipeline = find(name).build(2 * devices, 4 * devices * rounds)
    times = StageTimes(*seconds)
    run, again = (pipeline_times(pipeline, times, name) for name in ("reference", "compiled"))
    assert np.array_equal(run.finish, again.finish)
    for column, need in enumerate(pipeline.needs.T):
        rows = np.flatnonzero(need >= 0)
        sent = (column == 0) & (pipeline.device[need[rows]] != pipeline.device[rows])
        assert np.all(run.start[rows] >= run.finish[need[rows]] + sent * times.transfer)
    same = pipeline.device[1:] == pipeline.device[:-1]
    assert np.all((run.start[1:] >= run.finish[:-1])[same])


def test_the_last_device_is_never_idle_in_zb_v_only_if_parts_are_equal() -> None:
    pipeline = find("zb_v").build(4, 8)
    assert np.all(pipeline_times(pipeline, StageTimes(1, 1, 1)).idle_within == 0)
    assert pipeline_times(pipeline, StageTimes(1, 2, 1)).idle_within.max() > 0


def test_a_micro_batch_alone_crosses_each_link_twice() -> None:
    """p (T_F + T_B) + 2 (p - 1) T_comm, and T_W at the end (Qi et al., 2023, appendix B)."""
    for blocking in (False, True):
        times = StageTimes(2, 3, 1, transfer=0.5, blocking=blocking)
        assert pipeline_times(find("zb_h1").build(5, 1), times).step == 5 * 5 + 8 * 0.5 + 1


def test_a_device_computes_nothing_while_a_transfer_blocks_it() -> None:
    pipeline = find("gpipe").build(2, 2)
    free = pipeline_times(pipeline, StageTimes(1, 1, 0, transfer=1))
    blocked = pipeline_times(pipeline, StageTimes(1, 1, 0, transfer=1, blocking=True))
    assert free.start.tolist() == [0, 1, 6, 7, 2, 3, 4, 5]
    assert blocked.start.tolist() == [0, 2, 7, 9, 2, 4, 5, 7]


def test_stages_may_differ() -> None:
    forward = np.array([1.0, 2.0])
    times = pipeline_times(find("1f1b").build(2, 2), StageTimes(forward, 1, forward))
    assert times.computing.tolist() == [6, 10]
    assert times.step == 1 + 10 + 2


def test_wrong_times_are_refused() -> None:
    pipeline = find("1f1b").build(2, 2)
    for times, wrong in (
        (StageTimes(forward=-1), "the time forward is not 0 or more"),
        (StageTimes(inputs=np.ones(3)), "not one for each of 2 stages"),
        (StageTimes(weights=np.nan), "the time weights is not 0 or more"),
        (StageTimes(transfer=np.inf), "a transfer takes inf s: 0 or more"),
    ):
        assert wrong in refusal(pipeline_times, pipeline, times)


@pytest.mark.parametrize("text", ["1f1b", "zb_v"])
def test_a_lone_device_has_no_bubble(text: str) -> None:
    assert pipeline_times(find(text).build(1, 3), StageTimes(transfer=1)).idle.max() == 0
