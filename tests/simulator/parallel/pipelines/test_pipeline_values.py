"""Pipelines carry real integers: what each device computes from what it has and what comes to it.

A stage multiplies by its weight. So the gradient of its weight is a sum over micro-batches: its
input times the gradient of its output. Messages between two stages are queues: a device takes the
first one, whatever it is.
"""

from collections import defaultdict, deque
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.parallel.pipelines import Pipeline, check, find, orders
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, WEIGHTS
from topologies.errors import InputError

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
        with pytest.raises(InputError, match="missing or repeated actions"):
            check(replace(pipeline, **columns))
