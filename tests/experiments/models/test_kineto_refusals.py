"""Kineto traces without a model: missing or wrong events, other JSON, any bytes."""

import json
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from kineto_traces import Event, gradient, kernels, op, outcome, refusal, step
from simulator.training.model import Model


def without(key: str) -> list[Event]:
    """A step whose events lack one of their arguments."""
    return [
        event | {"args": {k: v for k, v in event["args"].items() if k != key}} for event in step()
    ]


@each_case(
    ("events", "message"),
    [
        ([], "t.json has no gradients: record a whole training step, with its backward"),
        (step()[:4], "t.json has no gradients"),
        (step()[4:], "t.json has a backward without its forward"),
        (without("Sequence number"), "t.json has a backward without its forward"),
        (
            without("Input Dims"),
            "t.json has no shapes and types of gradients (Input Dims, Input type): record with "
            "torch.profiler.profile(record_shapes=True)",
        ),
        (without("Input type"), "t.json has no shapes and types of gradients"),
        (step() + gradient(450, [3], kind=""), "t.json has no shapes and types of gradients"),
        (
            step() + gradient(450, [3], kind="c10::complex<float>"),
            "t.json has a gradient of type 'c10::complex<float>'",
        ),
        (
            [*step(), op("x", -1, 1)],
            "t.json: traceEvents[13].ts: input should be greater than or equal to 0",
        ),
        (
            [*step(), op("x", 1, float("nan"))],
            "t.json: traceEvents[13].dur: input should be a finite number",
        ),
        (
            [*step(), op("x", 1, 1, number="many")],
            "t.json: traceEvents[13].args.Sequence number: input should be a",
        ),
        ([{"ph": "X", "cat": "cpu_op"}], "t.json: traceEvents[0].name: field required"),
        ([*step()[:-1], *gradient(500, [2**62] * 30)], "= inf: it is 0 or more"),
    ],
)
def test_what_no_model_can_be_had_from_is_refused(events: list[Event], message: str) -> None:
    assert message in refusal(events)


@each_case(
    ("data", "message"),
    [
        (b"{}", "t.json is no Kineto trace: it has no list of traceEvents"),
        (b"[]", "t.json is no Kineto trace"),
        (b'{"traceEvents": 5}', "t.json is no Kineto trace"),
        (
            b'{"traceEvents": [',
            "t.json is no trace as JSON, or a part of one: Expecting value: line 1",
        ),
        (
            b'{"traceEvents": ' + b"[" * 200_000,
            "t.json is no trace as JSON, or a part of one: maximum recursion",
        ),
        (
            b'{"traceEvents": ' + b"1" * 5000 + b"}",
            "t.json is no trace as JSON, or a part of one: Exceeds the limit",
        ),
        (b'{"traceEvents": "\xff"}', "t.json is no trace as JSON, or a part of one: 'utf-8' codec"),
    ],
)
def test_what_is_no_trace_is_refused(data: bytes, message: str) -> None:
    refusal = outcome(data)
    assert isinstance(refusal, str)
    assert refusal.startswith(message)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**30),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
keys = st.sampled_from(["ph", "cat", "name", "tid", "ts", "dur", "args"])
arguments = st.sampled_from(
    ["Sequence number", "Input Dims", "Input type", "External id", "correlation"]
)
changes = st.lists(
    st.tuples(st.integers(0, 25), keys | st.tuples(st.just("args"), arguments), json_values),
    min_size=1,
    max_size=4,
)


@given(changes)
def test_of_wrong_types_anywhere_there_is_a_model_or_one_line(
    given_changes: list[tuple[int, str | tuple[str, str], Any]],
) -> None:
    events = deepcopy(step(tid=2) + kernels())
    for number, key, value in given_changes:
        inside = events[number]["args"] if isinstance(key, tuple) else events[number]
        if isinstance(inside, dict):
            inside[key[1] if isinstance(key, tuple) else key] = value
    result = outcome(json.dumps({"traceEvents": events}).encode())
    assert isinstance(result, Model) or "\n" not in result


@given(json_values, json_values, json_values)
def test_of_any_json_there_is_one_line(content: Any, events: Any, devices: Any) -> None:
    for data in (
        content,
        {"traceEvents": events},
        {"traceEvents": [*step(), events], "deviceProperties": devices},
    ):
        result = outcome(json.dumps(data).encode())
        assert isinstance(result, Model) or "\n" not in result


@given(st.binary())
def test_of_any_bytes_there_is_one_line(data: bytes) -> None:
    result = outcome(data)
    assert isinstance(result, str)
    assert "\n" not in result
