"""The FLOPs and bytes of layers, and the time that they take on a device.

An operation takes max(FLOPs / (peak x share), bytes / (bandwidth x share)). This is the roofline
model (Williams, Waterman and Patterson, CACM 52(4), 2009) with the shares of
:mod:`experiments.models.accelerators`. The launch of a kernel takes no time, so that small batches
are estimated too fast. A norm, an activation or an attention is one kernel.
"""

from __future__ import annotations

from typing import NamedTuple

from experiments.models.accelerators import (
    MEMORY,
    PRECISIONS,
    Precision,
    accelerator,
    bandwidth,
    multiplies,
    share,
)
from simulator.training.model import WIDTHS, Layer, Model, Tensor

COUNTER = 8.0
"""Bytes of the number in which a batch norm counts its batches."""

RECOMPUTED = 2.5
"""FLOPs of the backward of a fused attention over those of its forward: five products instead of
two."""


class Operation(NamedTuple):
    """An operation on one sample."""

    kind: str = "memory"
    """The kind of multiplication, or "memory" for an operation without multiplications."""
    flops: float = 0.0
    """FLOPs of the forward."""
    flops_back: float = 0.0
    """FLOPs of the backward."""
    moved: float = 0.0
    """Elements that the forward reads and writes."""
    moved_back: float = 0.0
    """Elements that the backward reads and writes."""
    kept: float = 0.0
    """Elements that the forward keeps for the backward."""
    masks: float = 0.0
    """Further bytes that the forward keeps."""
    weights: float = 0.0
    """Elements of weights that the forward reads, once for a batch."""
    gradients: float = 0.0
    """Elements of weights and their gradients that the backward moves, once for a batch."""
    width: float | None = None
    """Bytes of an element, None for those of activations."""


class LayerWork(NamedTuple):
    """A layer of an architecture, before it has times."""

    name: str
    operations: tuple[Operation, ...]
    parameters: tuple[tuple[str, int], ...] = ()
    """Name and elements of each parameter."""
    channels: int = 0
    """The channels of a batch norm."""


class Architecture(NamedTuple):
    """The layers of a model, in the order in which they run."""

    parts: tuple[LayerWork, ...]
    inputs: float
    """Bytes of a sample's input."""
    outputs: float
    """Elements of a sample's output."""
    state: float
    """Elements that the optimizer keeps for a parameter: 1 for SGD with momentum, 2 for Adam."""
    registration: tuple[int, ...] = ()
    """The order in which the module registers the layers, () for the order in which they run."""

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return sum(elements for part in self.parts for _, elements in part.parameters)

    @property
    def kinds(self) -> list[str]:
        """The kinds of multiplications."""
        operations = [operation for part in self.parts for operation in part.operations]
        return list(dict.fromkeys(operation.kind for operation in operations if operation.flops))

    @property
    def flops(self) -> float:
        """FLOPs of the forward of a sample."""
        return sum(operation.flops for part in self.parts for operation in part.operations)


def convolution(
    inputs: float,
    outputs: float,
    weights: float,
    area: float,
    *,
    square: bool,
    keeps: bool,
    first: bool,
) -> Operation:
    """A convolution from `inputs` to `outputs` elements: all `weights` at each of `area` places.

    The `first` convolution needs no gradient of its input; `square` is 3x3 with a stride of 1.
    """
    flops, moved = 2 * weights * area, inputs + outputs
    return Operation(
        "3x3 convolution" if square else "convolution",
        flops=flops,
        flops_back=flops if first else 2 * flops,
        moved=moved,
        moved_back=moved if first else 2 * moved,
        kept=outputs if keeps else 0,
        weights=weights,
        gradients=weights if first else 2 * weights,
    )


def linear(
    rows: float, inputs: float, outputs: float, *, keeps: bool = True, number: int = 1
) -> Operation:
    """`rows` vectors of `inputs` elements times a matrix, or each times one of `number` matrices;
    biases are added in passing."""
    flops, moved = 2 * rows * inputs * outputs, rows * (inputs + outputs)
    weights = number * inputs * outputs
    return Operation(
        "matmul",
        flops=flops,
        flops_back=2 * flops,
        moved=moved,
        moved_back=2 * moved,
        kept=rows * outputs if keeps else 0,
        weights=weights,
        gradients=2 * weights,
    )


def attention(
    rows: float,
    queries: float,
    *,
    causal: bool,
    keys: float | None = None,
    values: float | None = None,
    outputs: float | None = None,
) -> Operation:
    """Fused attention of `rows` tokens. Scores are not kept: the backward computes them again.

    A token has `queries` elements in all heads. Its keys and values have as many, unless heads
    share them, and so has its output, unless values are shorter than keys.
    """
    outputs = queries if outputs is None else outputs
    flops = 2 * rows**2 * (queries + outputs) / (2 if causal else 1)
    moved = queries + outputs + sum(queries if size is None else size for size in (keys, values))
    return Operation(
        "attention",
        flops=flops,
        flops_back=RECOMPUTED * flops,
        moved=rows * moved,
        moved_back=2 * rows * moved,
        kept=rows * outputs,
    )


def batch_norm(elements: float) -> Operation:
    """A batch norm, which keeps its input: the output of the convolution before it.

    The forward reads twice and writes once. The backward reads input and gradient twice and writes.
    """
    return Operation(moved=3 * elements, moved_back=5 * elements)


def norm(elements: float, *, keeps: bool = True) -> Operation:
    """A layer or RMS norm: read, write; backward once for the input and once for the weights."""
    return Operation(moved=2 * elements, moved_back=5 * elements, kept=elements if keeps else 0)


def activation(elements: float) -> Operation:
    """ReLU, GELU or tanh: read, write; backward: what is kept, gradient, write."""
    return Operation(moved=2 * elements, moved_back=3 * elements, kept=elements)


def gated(elements: float) -> Operation:
    """silu(gate) x up: two kernels, which keep a result each."""
    return Operation(moved=5 * elements, moved_back=8 * elements, kept=2 * elements)


def rotary(elements: float) -> Operation:
    """Queries and keys rotated by their position, x cos + rotated(x) sin: four kernels, of which
    only the result is kept."""
    return Operation(moved=9 * elements, moved_back=9 * elements, kept=elements)


def addition(elements: float, *, keeps: bool = True) -> Operation:
    """A residual connection; the gradients of its branches are added backward."""
    return Operation(moved=3 * elements, moved_back=3 * elements, kept=elements if keeps else 0)


def dropout(elements: float, *, keeps: bool = False) -> Operation:
    """Dropout with a mask of a byte an element."""
    return Operation(
        moved=2 * elements, moved_back=2 * elements, kept=elements if keeps else 0, masks=elements
    )


def pooling(inputs: float, outputs: float) -> Operation:
    """Max pooling, which keeps an index of eight bytes a result."""
    return Operation(
        moved=inputs + outputs, moved_back=inputs + outputs, kept=outputs, masks=8 * outputs
    )


def average(inputs: float, outputs: float) -> Operation:
    """Average pooling."""
    return Operation(moved=inputs + outputs, moved_back=inputs + outputs, kept=outputs)


def embedding(elements: float, table: float) -> Operation:
    """Rows of a table; backward writes a gradient of the whole table and adds to it."""
    return Operation(moved=2 * elements, moved_back=2 * elements, gradients=table)


def cross_entropy(elements: float) -> Operation:
    """The loss of `elements` logits, in fp32: converted, log-softmax, which is kept; backward the
    same."""
    return Operation(moved=3 * elements, moved_back=3 * elements, kept=elements, width=4)


def estimate(
    name: str, architecture: Architecture, *, batch: int, device: str, dtype: str
) -> Model:
    """The model with estimated times of a batch of `batch` samples on `device`.

    Raises InputError for an unknown device or dtype, or if the device cannot train the model in
    this dtype.
    """
    costs = _Costs(batch, device, multiplies(device, dtype, architecture.kinds), PRECISIONS[dtype])
    dtype_of_parameters, dtype_of_gradients = costs.precision.parameters, costs.precision.gradients
    optimizer_bytes = architecture.parameters * (
        2 * (1 + architecture.state) * WIDTHS[dtype_of_parameters] + WIDTHS[dtype_of_gradients]
    )
    return Model(
        name=name,
        batch=batch,
        layers=tuple(costs.layer(part) for part in architecture.parts),
        dtype=dtype_of_parameters,
        gradient_dtype=dtype_of_gradients,
        optimizer=optimizer_bytes / bandwidth(device),
        state=architecture.state,
        inputs=batch * architecture.inputs,
        outputs=batch * architecture.outputs * costs.precision.width,
        memory_bandwidth=accelerator(device).bandwidth,
        multiprocessors=accelerator(device).multiprocessors,
        device=device,
        source=costs.source(architecture.kinds),
        registration=architecture.registration,
    )


class _Costs(NamedTuple):
    """The times of a batch on a device that multiplies in dtype `math`."""

    batch: int
    device: str
    math: str
    precision: Precision

    def layer(self, block: LayerWork) -> Layer:
        """A layer with its times and bytes."""
        width, operations = self.precision.width, block.operations
        return Layer(
            name=block.name,
            forward=sum(
                self._seconds(work, work.flops, work.moved, work.weights) for work in operations
            ),
            backward=sum(
                self._seconds(work, work.flops_back, work.moved_back, work.gradients)
                for work in operations
            ),
            activation=self.batch
            * sum(work.kept * (work.width or width) + work.masks for work in operations),
            tensors=tuple(
                Tensor(name, size * WIDTHS[self.precision.parameters])
                for name, size in block.parameters
            ),
            buffers=2 * block.channels * WIDTHS["fp32"] + COUNTER if block.channels else 0.0,
            channels=block.channels,
        )

    def source(self, kinds: list[str]) -> str:
        """How the times were estimated, as text."""
        chosen = accelerator(self.device)
        peak = f"{chosen.peak[self.math] / 1e12:g} TFLOP/s in {self.math} of {self.device}"
        shares = ", ".join(f"{share(self.device, kind, self.math):.0%} ({kind})" for kind in kinds)
        return (
            f"estimated, not measured: FLOPs at {shares} of the {peak}, "
            f"bytes at {MEMORY.value:.0%} of {chosen.bandwidth / 1e9:g} GB/s"
        )

    def _seconds(self, operation: Operation, flops: float, moved: float, weights: float) -> float:
        """Seconds of an operation, with the conversion of weights and gradients between dtypes."""
        nbytes = (self.batch * moved + weights) * (operation.width or self.precision.width)
        moving = nbytes / bandwidth(self.device)
        converting = self.precision.cast * operation.weights / bandwidth(self.device)
        return max(self._multiplying(operation.kind, flops), moving) + converting

    def _multiplying(self, kind: str, flops: float) -> float:
        if not flops:
            return 0.0
        return (
            self.batch
            * flops
            / (accelerator(self.device).peak[self.math] * share(self.device, kind, self.math))
        )
