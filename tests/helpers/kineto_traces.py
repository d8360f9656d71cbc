"""Events of Kineto traces written by hand, and the models that are read from them."""

import json
from collections.abc import Sequence
from typing import Any

import refusals
from experiments.models import kineto
from simulator.training.model import Model
from topologies.errors import InputError

Event = dict[str, Any]
EVALUATE = "autograd::engine::evaluate_function: "
US = 1e-6


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: object) -> Event:
    """A complete event."""
    keys = {
        "number": "Sequence number",
        "dims": "Input Dims",
        "types": "Input type",
        "external": "External id",
    }
    arguments = {keys.get(key, key): value for key, value in args.items()}
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": arguments,
    }


def op(name: str, ts: float, dur: float, tid: int = 1, **args: object) -> Event:
    """An operation of the CPU; inputs are floats unless their types are given."""
    dims = args.get("dims")
    types = {"types": ["float"] * len(dims)} if isinstance(dims, list) else {}
    return event("cpu_op", name, ts, dur, tid, **(types | args))


def node(name: str, ts: float, dur: float, number: int, tid: int = 1) -> Event:
    """The evaluation of a node in the backward."""
    return op(f"{EVALUATE}{name}", ts, dur, tid, number=number)


def gradient(ts: float, shape: Sequence[int], tid: int = 1, kind: str = "float") -> list[Event]:
    """A gradient that arrives: 4 us to add it up, and 30 us of DDP's hook."""
    return [
        op(f"{EVALUATE}torch::autograd::AccumulateGrad", ts, 40, tid),
        op("torch::autograd::AccumulateGrad", ts + 1, 4, tid, dims=[list(shape)], types=[kind]),
        op("torch::distributed::reducer::mul_out", ts + 6, 30, tid, dims=[list(shape)]),
    ]


def step(at: float = 0.0, number: int = 5, slower: float = 1.0, tid: int = 1) -> list[Event]:
    """A linear layer of 4 to 2 and a relu for a batch of 8; the backward, on thread `tid`, begins
    200 us after it."""
    return [
        op("aten::linear", at, 100 * slower, number=number, dims=[[8, 4], [2, 4], [2]]),
        op("aten::t", at + 1, 2, number=number, dims=[[2, 4]]),
        op("aten::addmm", at + 4, 90 * slower, number=number + 1, dims=[[2], [8, 4], [4, 2]]),
        op("aten::relu", at + 100 * slower, 10, number=number + 2, dims=[[8, 2]]),
        node("ReluBackward0", at + 200 * slower, 20, number + 2, tid),
        node("AddmmBackward0", at + 220 * slower, 50, number + 1, tid),
        *gradient(at + 300 * slower, [2], tid),
        node("TBackward0", at + 350 * slower, 5, number, tid),
        *gradient(at + 400 * slower, [2, 4], tid),
    ]


def model(events: Sequence[object], name: str = "t.json", devices: object = None) -> Model:
    """What is read from a trace of these events."""
    data = json.dumps({"traceEvents": events, "deviceProperties": devices}).encode()
    return kineto.parse(data, name)[0]


def refusal(events: Sequence[object]) -> str:
    """The one line with which it is refused."""
    return refusals.refusal(model, events)


def outcome(data: bytes) -> Model | str:
    """The model in a trace, or the line with which it is refused."""
    try:
        return kineto.parse(data, "t.json")[0]
    except InputError as error:
        return str(error)


def times(events: Sequence[object]) -> list[tuple[float, float]]:
    """Forward and backward of every layer in microseconds."""
    return [
        (round(layer.forward / US, 6), round(layer.backward / US, 6))
        for layer in model(events).layers
    ]


def kernels() -> list[Event]:
    """What the operations of a step launch, and how long it runs; the backward has a thread of its
    own."""
    launch = [
        event("cuda_runtime", "cudaLaunchKernel", 5, 3, correlation=71),
        event("cuda_driver", "cuLaunchKernelEx", 9, 3, correlation=72),
        event("cuda_runtime", "cudaLaunchKernel", 101, 3, correlation=73),
        event("cuda_runtime", "cudaMemcpyAsync", 225, 3, tid=2, correlation=74),
        event("cuda_runtime", "cudaLaunchKernel", 308, 3, tid=2, correlation=75),
    ]
    executions = [
        event("kernel", "gemm", 1000, 700, tid=7, correlation=71, stream=7),
        event("kernel", "bias", 1700, 60, tid=7, correlation=72, stream=7),
        event("kernel", "relu", 1800, 50, tid=7, correlation=73, stream=7),
        event("gpu_memcpy", "Memcpy DtoD", 1900, 20, tid=7, correlation=74, stream=7),
        event("kernel", "scale", 2000, 90, tid=7, correlation=75, stream=7),
        event("kernel", "dgemm", 2100, 800, tid=7, correlation=76, external=500, stream=7),
        event(
            "kernel",
            "ncclDevKernel_AllReduce_Sum_f32",
            2100,
            999,
            tid=20,
            correlation=77,
            external=500,
        ),
        event("kernel", "nobody's", 3000, 5, tid=7, correlation=78, stream=7),
    ]
    return [*launch, *executions, op("aten::mm", 230, 20, tid=2, external=500)]
