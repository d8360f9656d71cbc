"""Models from Kineto traces whose layers are counted by hand."""

import gzip
import json
from pathlib import Path

import pytest

from experiments.models import kineto
from experiments.models import model_files as files
from grouped_cases import each_case
from kineto_traces import (
    US,
    Event,
    event,
    gradient,
    kernels,
    model,
    node,
    op,
    outcome,
    refusal,
    step,
    times,
)
from simulator.training.model import Model
from topologies.errors import InputError


def test_layers_are_operations_and_gradients_their_parameters() -> None:
    mlp = model(step(), "mlp.json")
    assert [layer.name for layer in mlp.layers] == ["linear_0", "relu_1"]
    assert times(step()) == [(100, 50 + 4 + 5 + 4), (10, 20)]
    assert [(t.name, t.nbytes) for t in mlp.layers[0].tensors] == [("p0_2x4", 32.0), ("p1_2", 8.0)]
    assert (mlp.name, mlp.batch, mlp.inputs, mlp.dtype, mlp.device) == (
        "mlp",
        8,
        128.0,
        "fp32",
        "CPU",
    )
    assert mlp.source == "measured: Kineto trace mlp.json, step 1 of 1"
    assert mlp.layers[1].tensors == ()


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
    return [event | {"ts": event["ts"] + by} for event in events]


def test_of_operations_with_one_number_the_last_made_the_node() -> None:
    assert times(
        [
            op("aten::ones", 112, 3, number=8),
            op("aten::exp", 116, 5, number=8),
            *step()[:4],
            *later(),
        ]
    ) == [(100, 63), (13, 20), (5, 6)]


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


@each_case(("slower", "chosen"), [([3, 1, 2], 3), ([1, 2], 1), ([2, 1], 2), ([4, 3, 2, 1], 3)])
def test_of_several_steps_the_median_is_taken(slower: list[float], chosen: int) -> None:
    steps = [
        event for k, times in enumerate(slower) for event in step(10_000.0 * k, 5 + 10 * k, times)
    ]
    median = model(steps)
    assert median.source.endswith(f"step {chosen} of {len(slower)}")
    assert median.layers[0].forward == pytest.approx(100 * slower[chosen - 1] * US)
    assert median.parameters == 40


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
    network = model([norm, *step()[:4], node("NativeBatchNormBackward0", 190, 6, 8), *step()[4:]])
    assert (network.layers[2].name, network.layers[2].channels, network.layers[2].buffers) == (
        "batch_norm_2",
        3,
        32,
    )


def test_the_batch_is_that_of_the_first_input_that_is_no_parameter() -> None:
    words = op(
        "aten::embedding", 0, 9, number=1, dims=[[100, 16], [6, 12]], types=["float", "long int"]
    )
    embedding = model([words, node("EmbeddingBackward0", 20, 9, 1), *gradient(40, [100, 16])])
    assert (embedding.batch, embedding.inputs) == (6, 6 * 12 * 8)
    events = [
        op("Compiled", 0, 9, number=1),
        node("CompiledBackward", 20, 9, 1),
        *gradient(40, [4]),
    ]
    assert (model(events).batch, model(events).inputs) == (1, 0)


@pytest.mark.parametrize(
    ("kind", "dtype", "width"), [("c10::BFloat16", "bf16", 2), ("double", "fp64", 8)]
)
def test_bytes_are_those_of_the_type(kind: str, dtype: str, width: int) -> None:
    events = [
        op("mm", 0, 9, number=1),
        node("MmBackward0", 20, 9, 1),
        *gradient(40, [3, 5], kind=kind),
    ]
    linear = model([*events, *gradient(90, [])])
    assert (linear.dtype, linear.gradient_dtype, linear.gradients) == (dtype, dtype, 15 * width + 4)


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


REAL = Path(__file__).parent / "data" / "ddp_mlp_gloo.json.gz"
LAB = Path(__file__).parents[4] / "shared" / "measured" / "gloo_lab" / "traces"


def test_what_is_read_can_be_written_and_read(tmp_path: Path) -> None:
    mlp = files.read(REAL)
    (tmp_path / "mlp.yaml").write_text(files.dumps(mlp))
    assert files.read(tmp_path / "mlp.yaml") == mlp


def check_mlp(mlp: Model) -> None:
    """Four times Linear(768, 768) and ReLU, and the mean of squares, for a batch of 512."""
    assert [layer.name for layer in mlp.layers] == [
        f"{name}_{k}" for k, name in enumerate(["linear", "relu"] * 4 + ["pow", "mean"])
    ]
    assert mlp.gradients == 4 * (768 * 768 + 768) * 4 == 9_449_472
    assert [tensor.nbytes for layer in mlp.layers for tensor in layer.tensors] == [
        768 * 768 * 4,
        768 * 4,
    ] * 4
    assert (mlp.batch, mlp.inputs, mlp.device) == (512, 512 * 768 * 4, "CPU")


def test_a_real_trace_gives_the_model_that_was_trained() -> None:
    """A rank of DDP on gloo, two steps: 77.6 and 99.9 ms forward, 123.0 and 246.0 ms in the nodes
    of the backward."""
    mlp = files.read(REAL)
    check_mlp(mlp)
    assert mlp.source == "measured: Kineto trace ddp_mlp_gloo.json.gz, step 1 of 2"
    assert mlp.forward == pytest.approx(0.0776, abs=5e-5)
    assert 0.1230 < mlp.backward < 0.1235


def test_without_communication_a_step_takes_as_long_as_the_traces_say() -> None:
    """Alone the four ranks took 88 ms forward and 143 ms backward, as the slowest of them did;
    medians of 8 steps."""
    if not LAB.is_dir():
        pytest.skip(f"no traces in {LAB}")
    models = [files.read(path) for path in sorted(LAB.glob("*.json"))]
    for mlp in models:
        check_mlp(mlp)
    for truth, measured in (
        (0.088, [mlp.forward for mlp in models]),
        (0.143, [mlp.backward for mlp in models]),
    ):
        assert min(measured) < truth < max(measured)


def test_a_trace_is_known_by_what_it_says(tmp_path: Path) -> None:
    data = json.dumps({"schemaVersion": 1, "traceEvents": step()}).encode()
    for name, content in (
        ("t.txt", data),
        ("t.json", b"\xef\xbb\xbf \n" + data),
        ("t.json.gz", gzip.compress(data)),
    ):
        (tmp_path / name).write_bytes(content)
        assert files.read(tmp_path / name) == kineto.parse(data, name)[0]
    assert files.read(tmp_path / "t.json.gz").name == "t"


def test_a_trace_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    whole, path = gzip.decompress(REAL.read_bytes()), tmp_path / "t.json"
    for end in range(0, len(whole) - 1, len(whole) // 60):
        path.write_bytes(whole[:end])
        with pytest.raises(InputError, match=r"t\.json is (empty|no trace as JSON, or a part)"):
            files.read(path)


def test_a_packed_trace_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    packed, path = REAL.read_bytes(), tmp_path / "t.json.gz"
    for end in range(2, len(packed) - 1, len(packed) // 60):
        path.write_bytes(packed[:end])
        with pytest.raises(InputError, match="is damaged or cut off"):
            files.read(path)


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
        ([1], "t.json has no gradients: record a whole training step"),
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
