"""Modules whose layers, bytes and, on a clock that ticks with every look, times can be worked out
by hand."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from grouped_cases import each_case

if "torch" not in os.environ.get("SIMCTL_REQUIRE", "").split(","):
    pytest.importorskip("torch", reason="torch is not installed")

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from experiments.commands.profile_model import ProfileModel, load, parse_shapes, random_input
from experiments.measure.device_clock import DeviceClock
from experiments.models import torch_run
from experiments.models.model_files import read
from experiments.models.torch_module import ModuleTraining, profile
from simulator.training.model import Model
from topologies.errors import InputError


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Little is copied, and at every look a second has gone by."""
    ticks = count()
    monkeypatch.setattr(torch_run, "COPIED", 2**10)
    monkeypatch.setattr(DeviceClock, "stamp", lambda _: float(next(ticks)))
    torch_run.memory_bandwidth.cache_clear()
    yield
    torch_run.memory_bandwidth.cache_clear()


class Calling(nn.Module):  # type: ignore[misc]
    """Parts by name, and a forward that is a function of them."""

    def __init__(self, forward: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self._forward = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self._forward(self, *inputs, **named)


def quick(module: nn.Module, inputs: Any, **options: Any) -> Model:
    fields = {"steps": 1, "warmup": 0} | options
    rest = {key: fields.pop(key) for key in ("name", "loss", "batch") if key in fields}
    return profile(module, inputs, ModuleTraining(**fields), **rest)


def names(model: Model) -> list[str]:
    return [layer.name for layer in model.layers]


def owned(model: Model) -> dict[str, list[str]]:
    return {
        layer.name: [tensor.name for tensor in layer.tensors]
        for layer in model.layers
        if layer.tensors
    }


def two() -> nn.Module:
    return nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5))


def test_two_linears_in_full() -> None:
    model = profile(two(), torch.randn(4, 10), ModuleTraining(3), name="two")
    assert names(model) == ["0", "1", "2", "other"]
    assert [(tensor.name, tensor.nbytes) for layer in model.layers for tensor in layer.tensors] == [
        ("0.weight", 800.0),
        ("0.bias", 80.0),
        ("2.weight", 400.0),
        ("2.bias", 20.0),
    ]
    assert [layer.activation for layer in model.layers] == [0.0, 320.0, 80.0, 0.0]
    assert (model.name, model.batch, model.inputs, model.outputs) == ("two", 4, 160.0, 80.0)
    assert (model.dtype, model.gradient_dtype, model.state) == ("fp32", "fp32", 1.0)
    assert model.registered == (0, 1, 2, 3)
    assert (model.memory_bandwidth, model.multiprocessors) == (2 * 2**10, 0)
    assert f"measured: torch {torch.__version__.partition('+')[0]} on cpu (" in model.source
    assert "median of 3 steps" in model.source


def test_totals_are_those_without_hooks_and_layers_have_their_shares() -> None:
    """Without hooks a forward, a backward and the optimizer are a tick each. With them the forward
    has a look when it begins, two a layer and one when it ends; the backward one a layer, one a
    parameter and one when it ends."""
    model = profile(two(), torch.randn(4, 10), ModuleTraining(3))
    assert [7 * layer.forward for layer in model.layers] == pytest.approx([2, 2, 1, 2])
    assert [8 * layer.backward for layer in model.layers] == pytest.approx([3, 2, 2, 1])
    assert (model.forward, model.backward, model.optimizer) == pytest.approx((1.0, 1.0, 1.0))
    assert "hooks cost +650.0%" in model.source


def test_nothing_is_left_behind() -> None:
    module = two()
    before = [parameter.clone() for parameter in module.parameters()]
    quick(module, torch.randn(4, 10))
    assert all(
        torch.equal(parameter_before, parameter_after)
        for parameter_before, parameter_after in zip(before, module.parameters(), strict=True)
    )
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    assert not any(parameter._post_accumulate_grad_hooks for parameter in module.parameters())


def test_a_module_called_again_is_another_layer_and_its_gradients_come_with_the_first() -> None:
    module = Calling(lambda self, x: self.fc(torch.relu(self.fc(x))), fc=nn.Linear(4, 4))
    model = quick(module, torch.randn(2, 4))
    assert names(model) == ["fc", "fc#2", "other"]
    assert owned(model) == {"fc": ["fc.weight", "fc.bias"]}


def test_tied_weights_are_one_parameter() -> None:
    module = Calling(
        lambda self, x: self.head(self.words(x)),
        words=nn.Embedding(8, 4),
        head=nn.Linear(4, 8, bias=False),
    )
    module.head.weight = module.words.weight
    model = quick(module, torch.randint(8, (2, 3)))
    assert owned(model) == {"words": ["words.weight"]}
    assert model.parameters == 128.0


def test_what_is_never_called_is_noted_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    module = Calling(lambda self, x: self.used(x), unused=nn.Linear(3, 3), used=nn.Linear(4, 4))
    model = quick(module, torch.randn(2, 4), name="half")
    assert owned(model) == {"used": ["used.weight", "used.bias"]}
    assert "2 parameters of half (48B)" in caplog.text
    assert "unused.weight, unused.bias" in caplog.text


def test_gradients_arrive_last_first_in_linear_layers_and_first_first_in_others() -> None:
    module = nn.Sequential(nn.Conv1d(4, 4, 1), nn.Flatten(), nn.Linear(20, 4), nn.LayerNorm(4))
    model = quick(module, torch.randn(2, 4, 5))
    assert [layer.arrival for layer in model.layers] == [(0, 1), (), (), (0, 1), ()]


def test_frozen_parameters_have_no_gradients() -> None:
    module = two()
    module[0].requires_grad_(False)
    assert owned(quick(module, torch.randn(4, 10))) == {"2": ["2.weight", "2.bias"]}


def test_layers_are_registered_in_another_order_than_they_run() -> None:
    parts = {"last": nn.Linear(4, 2), "relu": nn.ReLU(), "first": nn.Linear(4, 4)}
    model = quick(
        Calling(lambda self, x: self.last(self.relu(self.first(x))), **parts), torch.randn(2, 4)
    )
    assert names(model) == ["first", "relu", "last", "other"]
    assert model.registered == (2, 1, 0, 3)


def test_outputs_may_be_nested_and_inputs_named() -> None:
    module = Calling(
        lambda self, x, y: {"a": (self.one(x), [self.two(y)]), "b": 3},
        one=nn.Linear(4, 4),
        two=nn.Linear(4, 4),
    )
    model = quick(module, {"y": torch.randn(2, 4), "x": torch.randn(2, 4)})
    assert owned(model) == {"one": ["one.weight", "one.bias"], "two": ["two.weight", "two.bias"]}
    assert (model.inputs, model.outputs) == (64.0, 64.0)


def test_a_batch_norm_has_channels_and_buffers() -> None:
    module = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    layer = quick(module, torch.randn(2, 3, 8, 8)).layers[1]
    assert (layer.channels, layer.buffers, layer.nbytes) == (8, 8 * 4 * 2 + 8, 8 * 4 * 2)


def test_buffers_of_what_is_no_layer_are_in_none() -> None:
    module = Calling(lambda self, x: self.fc(x + self.shift), fc=nn.Linear(4, 4))
    module.register_buffer("shift", torch.ones(4))
    assert [layer.buffers for layer in quick(module, torch.randn(2, 4)).layers] == [0.0, 16.0]


def test_a_module_that_uses_the_parameters_of_its_parts_is_a_layer() -> None:
    module = Calling(
        lambda self, x: self.attention(x, x, x)[0], attention=nn.MultiheadAttention(8, 2)
    )
    model = quick(module, torch.randn(3, 2, 8))
    assert names(model) == ["attention", "other"]
    assert [name.partition(".")[2] for name in owned(model)["attention"]] == [
        "in_proj_weight",
        "in_proj_bias",
        "out_proj.weight",
        "out_proj.bias",
    ]


def test_parameters_beside_layers_belong_where_their_gradient_arrives() -> None:
    module = Calling(
        lambda self, x: self.head(self.body(x) + self.shift),
        body=nn.Linear(4, 4),
        head=nn.Linear(4, 4),
    )
    module.shift = nn.Parameter(torch.zeros(4))
    model = quick(module, torch.randn(2, 4))
    assert names(model) == ["body", "head", "other"]
    assert owned(model) == {
        "body": ["body.weight", "body.bias"],
        "head": ["shift", "head.weight", "head.bias"],
    }


def test_a_layer_that_returns_what_it_got_takes_no_gradients() -> None:
    model = quick(nn.Sequential(nn.Linear(4, 4), nn.Identity()), torch.randn(2, 4))
    assert owned(model) == {"0": ["0.weight", "0.bias"]}
    assert model.layers[1].backward == 0.0


def test_a_module_may_be_one_layer_itself() -> None:
    assert names(quick(nn.Linear(4, 4), torch.randn(2, 4))) == ["Linear", "other"]


def test_layers_that_run_again_in_the_backward_are_layers_once() -> None:
    module = Calling(
        lambda self, x: self.head(checkpoint(self.body, x, use_reentrant=False)),
        body=nn.Linear(4, 4),
        head=nn.Linear(4, 4),
    )
    model = quick(module, torch.randn(2, 4))
    assert names(model) == ["body", "head", "other"]
    assert model.parameters == 2 * (64.0 + 16.0)


@pytest.mark.parametrize(("dtype", "name"), [(torch.float64, "fp64"), (torch.bfloat16, "bf16")])
def test_dtypes(dtype: torch.dtype, name: str) -> None:
    model = quick(nn.Linear(4, 4, dtype=dtype), torch.randn(2, 4, dtype=dtype), optimizer="adamw")
    assert (model.dtype, model.gradient_dtype, model.state) == (name, name, 2.0)


def flaky() -> nn.Module:
    turns = count()
    return Calling(
        lambda self, x: self.fc(self.fc(x)) if next(turns) % 3 else self.fc(x), fc=nn.Linear(4, 4)
    )


MISTAKES = {
    "steps = 0": lambda: quick(two(), torch.randn(4, 10), steps=0),
    "optimizer 'lion'": lambda: quick(two(), torch.randn(4, 10), optimizer="lion"),
    "device 'tpu'": lambda: quick(two(), torch.randn(4, 10), device="tpu"),
    "device 'cuda:99' is not there": lambda: quick(two(), torch.randn(4, 10), device="cuda:99"),
    "cannot run on 4x11 of float32: RuntimeError: mat1": lambda: quick(two(), torch.randn(4, 11)),
    "ReLU returns no tensor that requires grad": lambda: quick(nn.ReLU(), torch.randn(4)),
    "has no backward": lambda: quick(two(), torch.randn(4, 10), loss=lambda y: y),
    "has parameters or gradients of complex64": lambda: quick(
        nn.Linear(4, 4, dtype=torch.complex64),
        torch.randn(2, 4, dtype=torch.complex64),
        loss=lambda y: y.abs().sum(),
    ),
    "does not run the same layers": lambda: quick(flaky(), torch.randn(2, 4), steps=2),
}


@each_case("message", MISTAKES)
def test_a_mistake_is_one_line(message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        MISTAKES[message]()
    assert "\n" not in str(error.value)


SOURCE = """
from torch import nn
from beside import WIDTH
print("imported")
number = 3
made = nn.Linear(WIDTH, 2)
def net():
    return nn.Sequential(nn.Embedding(10, WIDTH), nn.Linear(WIDTH, 2))
class Needy(nn.Linear):
    pass
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "beside.py").write_text("WIDTH = 4\n")
    (tmp_path / "nets_of_a_test.py").write_text(SOURCE)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.chdir(tmp_path)
    return str(tmp_path / "nets_of_a_test.py")


def test_the_command_prints_a_table_and_writes_the_model(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "net.yaml"
    request = ProfileModel(target=f"{source}:net", input="8x3:int64:10", steps=1, out=out)
    assert request.run() == 0
    printed = capsys.readouterr()
    rows = [line.split() for line in printed.out.splitlines()]
    assert printed.out.startswith("net: batches of 8, fp32, on ")
    assert [row[0] for row in rows[3:8]] == ["layer", "0", "1", "other", "total"]
    assert [row[3] for row in rows[4:8]] == ["160B", "40B", "0B", "200B"]
    assert "imported" in printed.err
    assert read(out).name == "net"
    assert read(out).parameters == 200.0


def test_the_command_prints_json_and_csv(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    request = ProfileModel(target=f"{source}:made", input="8x4", batch=2, steps=1, dtype="bf16")
    replace(request, format="json").run()
    document = json.loads(capsys.readouterr().out)
    assert (document["batch"], document["dtype"], document["parameters_B"]) == (2, "bf16", 20.0)
    assert [layer["layer"] for layer in document["layers"]] == ["Linear", "other"]
    replace(request, format="csv").run()
    heading, *_ = capsys.readouterr().out.splitlines()
    assert heading.startswith("layer,forward_s,backward_s,parameters_B")


def test_a_target_may_be_a_module_of_a_package(source: str) -> None:
    assert isinstance(load("nets_of_a_test:net"), nn.Sequential)
    assert isinstance(load("torch.nn:Identity"), nn.Identity)


def test_inputs_are_shapes() -> None:
    shapes = parse_shapes("2x3, 4x5:int64:7")
    floats, integers = (random_input(shape, "float64") for shape in shapes)
    assert (floats.shape, floats.dtype) == ((2, 3), torch.float64)
    assert (integers.shape, integers.dtype) == ((4, 5), torch.int64)
    assert 0 <= int(integers.min()) <= int(integers.max()) < 7


@each_case(
    ("target", "inputs", "message"),
    [
        ("net", "8", "PACKAGE.MODULE:NAME or FILE.py:NAME"),
        ("no.such.thing:net", "8", "cannot import no.such.thing: ModuleNotFoundError"),
        ("nothing.py:net", "8", "no file 'nothing.py'"),
        ("nets_of_a_test.py:nothing", "8", "has no 'nothing'"),
        ("nets_of_a_test.py:number", "8", "is no torch.nn.Module but int"),
        ("nets_of_a_test.py:WIDTH.real", "8", "is no torch.nn.Module but int"),
        ("nets_of_a_test.py:Needy", "8", "cannot be called without arguments"),
        ("os:getcwd", "8", "is no torch.nn.Module but str"),
        ("nets_of_a_test.py:net", "8x", "input '8x': a shape like"),
        ("nets_of_a_test.py:net", "8x0", "input '8x0': a shape like"),
        ("nets_of_a_test.py:net", "8:int3", "input '8:int3': a shape like"),
        ("nets_of_a_test.py:net", "x".join(["999999999"] * 4), "cannot be made"),
        ("nets_of_a_test.py:net", "8x3", "net cannot run on 8x3 of float32"),
        ("nets_of_a_test.py:net", "8x3:int64", "index out of range"),
    ],
)
def test_a_mistake_of_the_command_is_one_line(
    source: str, target: str, inputs: str, message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        ProfileModel(target=target, input=inputs, steps=1).run()
    assert "\n" not in str(error.value)


def test_the_device_is_checked(source: str) -> None:
    with pytest.raises(InputError, match="device"):
        ProfileModel(target=f"{source}:net", input="8x3:int64", device="tpu").run()


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"pip install '\.\[torch\]'"):
        ProfileModel(target="torch.nn:Identity", input="8").run()
