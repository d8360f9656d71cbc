"""Models from Kineto traces: synthetic ones whose layers are counted by hand, a real one, and
hostile ones."""

import gzip
import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models import kineto
from experiments.models import model_files as files
from simulator.training.model import Model
from topologies.errors import InputError

Event = dict[str, Any]
REAL = Path(__file__).parent / "data" / "ddp_mlp_gloo.json.gz"
LAB = Path(__file__).parents[4] / "shared" / "measured" / "gloo_lab" / "traces"
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
    given = {keys.get(key, key): value for key, value in args.items()}
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": given,
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
    return kineto.parse(
        json.dumps({"traceEvents": events, "deviceProperties": devices}).encode(), name
    )


def refusal(events: Sequence[object]) -> str:
    """The one line with which it is refused."""
    with pytest.raises(InputError) as caught:
        model(events)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def outcome(data: bytes) -> Model | str:
    """The model in a trace, or the line with which it is refused."""
    try:
        return kineto.parse(data, "t.json")
    except InputError as error:
        return str(error)


def times(events: Sequence[object]) -> list[tuple[float, float]]:
    """Forward and backward of every layer in microseconds."""
    return [
        (round(one.forward / US, 6), round(one.backward / US, 6)) for one in model(events).layers
    ]


def test_layers_are_operations_and_gradients_their_parameters() -> None:
    found = model(step(), "mlp.json")
    assert [layer.name for layer in found.layers] == ["linear_0", "relu_1"]
    assert times(step()) == [(100, 50 + 4 + 5 + 4), (10, 20)]
    assert [(t.name, t.nbytes) for t in found.layers[0].tensors] == [
        ("p0_2x4", 32.0),
        ("p1_2", 8.0),
    ]
    assert (found.name, found.batch, found.inputs, found.dtype, found.device) == (
        "mlp",
        8,
        128.0,
        "fp32",
        "CPU",
    )
    assert found.source == "measured: Kineto trace mlp.json, step 1 of 1"
    assert found.layers[1].tensors == ()


def test_the_order_of_the_events_does_not_matter() -> None:
    assert model(step()[::-1]) == model(step())


def test_communication_is_no_computation() -> None:
    inside = [
        op("c10d::allgather_", 10, 25),
        op("aten::copy_", 12, 5),
        op("c10d::allreduce_", 225, 11),
    ]
    assert times(step() + inside) == [(75, 63 - 11), (10, 20)]


def test_what_has_no_backward_counts_with_the_layer_before_it() -> None:
    before = op("aten::randn", -50, 40, number=5)
    between = op("aten::argmax", 112, 7, number=8)
    without_gradients = op("aten::item", 130, 7)
    assert times(shifted([before, *step(), between, without_gradients], 100)) == [
        (100, 63),
        (17, 20),
    ]


def shifted(events: list[Event], by: float) -> list[Event]:
    """The same, later."""
    return [one | {"ts": one["ts"] + by} for one in events]


def test_of_operations_with_one_number_the_last_made_the_node() -> None:
    assert times(
        [
            op("aten::ones", 112, 3, number=8),
            op("aten::exp", 116, 5, number=8),
            *step()[:4],
            *later(),
        ]
    ) == [
        (100, 63),
        (13, 20),
        (5, 6),
    ]


def later() -> list[Event]:
    """The backward of a step after which an exp came."""
    return [node("ExpBackward0", 190, 6, 8), *step()[4:]]


def test_a_backward_within_a_node_is_its_own() -> None:
    """As when a checkpoint computes its forward again, on a thread that counts anew."""
    again = [op("aten::relu", 221, 9, number=7), node("ReluBackward0", 232, 9, 7)]
    assert times(step() + again) == times(step())


def test_a_node_without_a_forward_counts_with_the_node_before_it() -> None:
    assert times([*step(), node("CopyBackward", 272, 7, 77)]) == [(100, 70), (10, 20)]


def test_numbers_of_other_threads_are_others() -> None:
    loader = [
        op("aten::copy_", 50, 40, tid=3, number=6),
        op("aten::copy_", 95, 40, tid=3, number=99),
    ]
    assert times(step() + loader) == times(step())


@pytest.mark.parametrize(
    ("slower", "chosen"), [([3, 1, 2], 3), ([1, 2], 1), ([2, 1], 2), ([4, 3, 2, 1], 3)]
)
def test_of_several_steps_the_median_is_taken(slower: list[float], chosen: int) -> None:
    steps = [one for k, times in enumerate(slower) for one in step(10_000.0 * k, 5 + 10 * k, times)]
    found = model(steps)
    assert found.source.endswith(f"step {chosen} of {len(slower)}")
    assert found.layers[0].forward == pytest.approx(100 * slower[chosen - 1] * US)
    assert found.parameters == 40


def test_steps_that_are_cut_off_are_left_out() -> None:
    start, end = step(0, 5)[6:], step(20_000, 25)[:6]
    assert model(start + step(10_000, 15) + end).source.endswith("step 1 of 1")


def test_the_optimizer_takes_as_long_as_its_operations() -> None:
    def stepped(at: float, dur: float) -> list[Event]:
        name = "Optimizer.step#SGD.step"
        inside = [
            op("aten::_foreach_add_", at + 1, dur),
            op("aten::add_", at + 2, 1),
            op("aten::add_", at + 3, 9, tid=7),
        ]
        return [event("user_annotation", name, at, 100), *inside, op("aten::item", at + 200, 5)]

    assert model(step() + stepped(1000, 30)).optimizer == pytest.approx(30 * US)
    three = stepped(1000, 30) + stepped(2000, 50) + stepped(3000, 40)
    assert model(step() + three).optimizer == pytest.approx(40 * US)


def test_a_batch_norm_has_channels_and_running_statistics() -> None:
    shapes: list[object] = [[16, 3, 8, 8], [3], [3], [3], [3], []]
    norm = op("aten::batch_norm", 120, 4, number=8, dims=shapes, types=["float"] * 5 + ["Scalar"])
    found = model([norm, *step()[:4], node("NativeBatchNormBackward0", 190, 6, 8), *step()[4:]])
    assert (found.layers[2].name, found.layers[2].channels, found.layers[2].buffers) == (
        "batch_norm_2",
        3,
        32,
    )


def test_the_batch_is_that_of_the_first_input_that_is_no_parameter() -> None:
    words = op(
        "aten::embedding", 0, 9, number=1, dims=[[100, 16], [6, 12]], types=["float", "long int"]
    )
    found = model([words, node("EmbeddingBackward0", 20, 9, 1), *gradient(40, [100, 16])])
    assert (found.batch, found.inputs) == (6, 6 * 12 * 8)
    nothing = [
        op("Compiled", 0, 9, number=1),
        node("CompiledBackward", 20, 9, 1),
        *gradient(40, [4]),
    ]
    assert (model(nothing).batch, model(nothing).inputs) == (1, 0)


@pytest.mark.parametrize(
    ("kind", "dtype", "width"), [("c10::BFloat16", "bf16", 2), ("double", "fp64", 8)]
)
def test_bytes_are_those_of_the_type(kind: str, dtype: str, width: int) -> None:
    events = [
        op("mm", 0, 9, number=1),
        node("MmBackward0", 20, 9, 1),
        *gradient(40, [3, 5], kind=kind),
    ]
    found = model([*events, *gradient(90, [])])
    assert (found.dtype, found.gradient_dtype, found.gradients) == (dtype, dtype, 15 * width + 4)


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
    ran = [
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
    return [*launch, *ran, op("aten::mm", 230, 20, tid=2, external=500)]


def test_where_there_are_kernels_times_are_theirs() -> None:
    events = step(tid=2) + kernels()
    assert times(events) == [(760, 820), (50, 0)]
    assert (
        model(events, devices=[{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]).device
        == "NVIDIA H100 80GB HBM3"
    )
    assert model(events).device == "GPU"


def test_kernels_that_nothing_launched_are_refused() -> None:
    assert "the step takes no time" in refusal(
        [*step(), event("kernel", "gemm", 9, 9, tid=7, correlation=1)]
    )


def test_what_is_read_can_be_written_and_read(tmp_path: Path) -> None:
    found = files.read(REAL)
    files.write(found, tmp_path / "mlp.yaml")
    assert files.read(tmp_path / "mlp.yaml") == found


def check_mlp(found: Model) -> None:
    """Four times Linear(768, 768) and ReLU, and the mean of squares, for a batch of 512."""
    assert [layer.name for layer in found.layers] == [
        f"{name}_{k}" for k, name in enumerate(["linear", "relu"] * 4 + ["pow", "mean"])
    ]
    assert found.gradients == 4 * (768 * 768 + 768) * 4 == 9_449_472
    assert [tensor.nbytes for layer in found.layers for tensor in layer.tensors] == [
        768 * 768 * 4,
        768 * 4,
    ] * 4
    assert (found.batch, found.inputs, found.device) == (512, 512 * 768 * 4, "CPU")


def test_a_real_trace_gives_the_model_that_was_trained() -> None:
    """A rank of DDP on gloo, two steps: 77.6 and 99.9 ms forward, 123.0 and 246.0 ms in the nodes
    of the backward."""
    found = kineto.read(REAL)
    check_mlp(found)
    assert found.source == "measured: Kineto trace ddp_mlp_gloo.json.gz, step 1 of 2"
    assert found.forward == pytest.approx(0.0776, abs=5e-5)
    assert 0.1230 < found.backward < 0.1235


def test_without_communication_a_step_takes_as_long_as_the_traces_say() -> None:
    """Alone the four ranks took 88 ms forward and 143 ms backward, as the slowest of them did;
    medians of 8 steps."""
    if not LAB.is_dir():
        pytest.skip(f"no traces in {LAB}")
    found = [kineto.read(path) for path in sorted(LAB.glob("*.json"))]
    for one in found:
        check_mlp(one)
    for truth, measured in (
        (0.088, [one.forward for one in found]),
        (0.143, [one.backward for one in found]),
    ):
        assert min(measured) < truth < max(measured)


def without(key: str) -> list[Event]:
    """A step whose events lack one of their arguments."""
    return [one | {"args": {k: v for k, v in one["args"].items() if k != key}} for one in step()]


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([], "t.json has no gradients: record a whole training step, with its backward"),
        (step()[:4], "t.json has no gradients"),
        (step()[4:], "t.json has a backward without its forward"),
        (without("Sequence number"), "t.json has a backward without its forward"),
        (
            without("Input Dims"),
            "t.json has no shapes of gradients: record with "
            "torch.profiler.profile(record_shapes=True)",
        ),
        (without("Input type"), "t.json has no shapes"),
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


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{}", "t.json is no Kineto trace: it has no list of traceEvents"),
        (b"[]", "t.json is no Kineto trace"),
        (b'{"traceEvents": 5}', "t.json is no Kineto trace"),
        (
            b'{"traceEvents": [',
            "t.json line 1: Expecting value: expected a trace as JSON, all of it",
        ),
        (b'{"traceEvents": ' + b"[" * 200_000, "t.json is no trace as JSON: maximum recursion"),
        (b'{"traceEvents": ' + b"1" * 5000 + b"}", "t.json is no trace as JSON: Exceeds the limit"),
        (b'{"traceEvents": "\xff"}', "t.json is no trace as JSON: 'utf-8' codec"),
    ],
)
def test_what_is_no_trace_is_refused(data: bytes, message: str) -> None:
    said = outcome(data)
    assert isinstance(said, str)
    assert said.startswith(message)


def test_a_trace_is_known_by_what_it_says(tmp_path: Path) -> None:
    data = json.dumps({"schemaVersion": 1, "traceEvents": step()}).encode()
    for name, content in (
        ("t.txt", data),
        ("t.json", b"\xef\xbb\xbf \n" + data),
        ("t.json.gz", gzip.compress(data)),
    ):
        (tmp_path / name).write_bytes(content)
        assert files.read(tmp_path / name) == kineto.read(tmp_path / name)
    assert files.read(tmp_path / "t.json.gz").name == "t"


def test_a_trace_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    whole, path = gzip.decompress(REAL.read_bytes()), tmp_path / "t.json"
    for end in range(0, len(whole) - 1, len(whole) // 60):
        path.write_bytes(whole[:end])
        with pytest.raises(InputError, match=r"t\.json (is empty|line \d+: .*: expected)"):
            files.read(path)


def test_a_packed_trace_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    packed, path = REAL.read_bytes(), tmp_path / "t.json.gz"
    for end in range(2, len(packed) - 1, len(packed) // 60):
        path.write_bytes(packed[:end])
        with pytest.raises(InputError, match="is damaged or cut off"):
            files.read(path)


anything = st.recursive(
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
    st.tuples(st.integers(0, 25), keys | st.tuples(st.just("args"), arguments), anything),
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
    found = outcome(json.dumps({"traceEvents": events}).encode())
    assert isinstance(found, Model) or "\n" not in found


@given(anything, anything, anything)
def test_of_any_json_there_is_one_line(content: Any, events: Any, devices: Any) -> None:
    for data in (
        content,
        {"traceEvents": events},
        {"traceEvents": [*step(), events], "deviceProperties": devices},
    ):
        found = outcome(json.dumps(data).encode())
        assert isinstance(found, Model) or "\n" not in found


@given(st.binary())
def test_of_any_bytes_there_is_one_line(data: bytes) -> None:
    found = outcome(data)
    assert isinstance(found, str)
    assert "\n" not in found
