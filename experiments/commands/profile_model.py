"""`simctl profile-model`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import MISSING, dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from experiments import output
from experiments.answer_blocks import render
from experiments.options.options import FormatOptions, argument, option
from experiments.pages.reports.result import Result
from topologies.errors import InputError, refused
from topologies.units import format_bandwidth, format_seconds

if TYPE_CHECKING:
    import torch
    from torch import nn

    from simulator.training.model import Layer, Model

FILES = (".yaml", ".yml")
INPUT_TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "bool")
FLOATS = {"fp32": "float32", "fp64": "float64", "fp16": "float16", "bf16": "bfloat16"}


class Shape(NamedTuple):
    """The shape of an input."""

    text: str
    sizes: tuple[int, ...]
    dtype: str
    """The type of an element; empty: the type of the parameters."""
    below: int
    """Whole numbers are random, from 0 to below this."""


def parse_shapes(text: str) -> list[Shape]:
    """The shapes of inputs, comma-separated, like 8x3x224x224 or 8x128:int64:1000."""
    return [_shape(part.strip()) for part in text.split(",")]


def _shape(text: str) -> Shape:
    match = re.fullmatch(
        r"([1-9]\d{0,17}(?:x[1-9]\d{0,17})*)(?::(\w+)(?::([1-9]\d{0,9}))?)?", text, re.ASCII
    )
    if match is None or (match[2] and match[2] not in INPUT_TYPES):
        raise InputError(
            f"input {text!r}: a shape like 8x3x224x224, 8x128:int64 with one of "
            f"{', '.join(INPUT_TYPES)}, or 8x128:int64:1000 for numbers below 1000"
        )
    return Shape(text, tuple(map(int, match[1].split("x"))), match[2] or "", int(match[3] or 1000))


@dataclass(frozen=True, kw_only=True)
class ProfileModel(FormatOptions):
    """Time a torch module layer by layer, for simctl train."""

    EXAMPLES: ClassVar = (
        "profile-model torchvision.models:resnet18 --input 8x3x224x224 --out resnet18.yaml",
    )

    target: str = argument("MODULE:NAME", "PACKAGE.MODULE:NAME or FILE.py:NAME.", default=MISSING)
    input: str = option(
        "Shapes of the inputs, comma-separated: 8x3x224x224, or 8x128:int64:1000 for "
        "random numbers from 0 to below 1000.",
        default=MISSING,
    )
    batch: int | None = option("Samples.  [default: the first size of the first input]", min=1)
    device: str = option("cpu, cuda, or one of several like cuda:1.", default="cpu")
    dtype: Literal["fp32", "fp64", "fp16", "bf16"] = option(
        "The type of parameters and inputs.", default="fp32"
    )
    steps: int = option("Steps that are measured; times are their medians.", default=5)
    optimizer: str = option("sgd (with momentum) or adamw.", default="sgd")
    out: Path | None = option(
        "Write the model to FILE.yaml, for simctl train --model.", writable=True
    )

    def run(self) -> int:
        """Train the module for a few steps, print what its layers take, and write it as a
        model."""
        shapes = parse_shapes(self.input)
        output.check_writable(self.out, FILES)
        _require_torch()
        from experiments.models.torch_run import find_device

        find_device(self.device)
        with redirect_stdout(sys.stderr):
            model = self._profiled(shapes)
        if self.out:
            from experiments.models.model_files import dumps

            output.write(self.out, dumps(model))
        layers = [_record(layer) for layer in model.layers]
        report = {**_summary(model), "layers": layers}
        Result("model", report, layers).show(self.format, lambda: _text(model))
        return 0

    def _profiled(self, shapes: Sequence[Shape]) -> Model:
        import torch

        from experiments.models.torch_module import ModuleTraining, profile

        dtype = FLOATS[self.dtype]
        inputs = tuple(random_input(shape, dtype) for shape in shapes)
        return profile(
            load(self.target).to(getattr(torch, dtype)),
            inputs,
            ModuleTraining(self.steps, device=self.device, optimizer=self.optimizer),
            name=self.target.rpartition(":")[2],
            batch=self.batch,
            progress=output.Progress("steps, each with hooks and without"),
        )


def load(target: str) -> nn.Module:
    """The module that PACKAGE.MODULE:NAME or FILE.py:NAME is, or returns when called without
    arguments.

    Raises InputError if there is none.
    """
    from torch import nn

    place, _, name = target.rpartition(":")
    if not place or not name:
        raise InputError(
            f"{target!r}: PACKAGE.MODULE:NAME or FILE.py:NAME, like torchvision.models:resnet18"
        )
    value: Any = _imported(place)
    for part in name.split("."):
        if not hasattr(value, part):
            raise InputError(f"{place} has no {part!r}: name a class or a function of it")
        value = getattr(value, part)
    module = value if isinstance(value, nn.Module) else _called(value, target)
    if not isinstance(module, nn.Module):
        raise InputError(f"{target} is no torch.nn.Module but {type(module).__name__}")
    return module


def _require_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise InputError(
            "profiling a module needs torch, which is not installed: pip install '.[torch]'"
        ) from None


def _imported(place: str) -> ModuleType:
    path = Path(place)
    if path.suffix == ".py":
        _check_file(path)
    folder = path.resolve().parent if path.suffix == ".py" else Path.cwd()
    sys.path.append(str(folder))
    with refused(f"cannot import {place}"):
        return _from_file(path) if path.suffix == ".py" else import_module(place)


def _check_file(path: Path) -> None:
    try:
        is_file = path.is_file()
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from None
    if not is_file:
        raise InputError(f"no file {str(path)!r}")


def _from_file(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def _called(value: Any, target: str) -> Any:
    if not callable(value):
        raise InputError(f"{target} is no torch.nn.Module but {type(value).__name__}")
    with refused(f"{target} cannot be called without arguments"):
        return value()


def random_input(shape: Shape, dtype: str) -> torch.Tensor:
    """Random numbers, of `dtype` if the shape has no type. Raises InputError."""
    import torch

    kind = getattr(torch, shape.dtype or dtype)
    with refused(f"input '{shape.text}' cannot be made"):
        if kind.is_floating_point:
            return torch.randn(shape.sizes, dtype=kind)
        below = 2 if kind is torch.bool else shape.below
        return torch.randint(below, shape.sizes, dtype=kind)


def _record(layer: Layer) -> output.Record:
    return {
        "layer": layer.name,
        "forward_s": layer.forward,
        "backward_s": layer.backward,
        "parameters_B": layer.nbytes,
        "activation_B": layer.activation,
        "buffers_B": layer.buffers,
    }


def _summary(model: Model) -> output.Record:
    return {
        "model": model.name,
        "batch": model.batch,
        "dtype": model.dtype,
        "device": model.device,
        "source": model.source,
        "forward_s": model.forward,
        "backward_s": model.backward,
        "optimizer_s": model.optimizer,
        "parameters_B": model.parameters,
        "gradients_B": model.gradients,
        "activations_B": model.activations,
        "inputs_B": model.inputs,
        "outputs_B": model.outputs,
        "memory_bandwidth_Bps": model.memory_bandwidth,
    }


def _text(model: Model) -> str:
    total = {
        "layer": "total",
        "forward_s": model.forward,
        "backward_s": model.backward,
        "parameters_B": model.parameters,
        "activation_B": model.activations,
    }
    records: list[Mapping[str, Any]] = [*map(_record, model.layers), total]
    rest = [
        ["  optimizer", format_seconds(model.optimizer)],
        ["  a step", f"{format_seconds(model.compute)} without communication"],
        ["  memory", f"{format_bandwidth(model.memory_bandwidth)} read and written by a copy"],
    ]
    title = (
        f"{model.name}: batches of {model.batch}, {model.dtype}, on {model.device}\n{model.source}"
    )
    return "\n\n".join([title, render(records, COLUMNS), output.align(rest)])


COLUMNS = {
    "layer": "layer",
    "forward": "forward_s",
    "backward": "backward_s",
    "parameters": "{parameters_B:B}",
    "activation": "{activation_B:B}",
}
