"""What layers compute, move and keep, and from that how long they take on a device.

An operation takes max(FLOPs / (peak x share), bytes / (bandwidth x share)): the roofline model
(Williams, Waterman and Patterson, CACM 52(4), 2009) with the shares of
:mod:`experiments.models.accelerators`. Launching a kernel takes no time: small batches come out too
fast. Norms, activations and attention are one kernel each.
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
"""Bytes in which a batch norm counts its batches."""

RECOMPUTED = 2.5
"""FLOPs of a fused attention's backward over its forward's: five products instead of two."""


class Operation(NamedTuple):
    """An operation on one sample: FLOPs, and elements moved, forward and backward. `kept` are
    elements that it leaves for the backward, `masks` further bytes. Of weights, `weights` elements
    are read and `gradients` moved backward, once a batch. `width` is bytes an element where that is
    not the activations'.
    """

    kind: str = "memory"
    flops: float = 0.0
    flops_back: float = 0.0
    moved: float = 0.0
    moved_back: float = 0.0
    kept: float = 0.0
    masks: float = 0.0
    weights: float = 0.0
    gradients: float = 0.0
    width: float | None = None


class Part(NamedTuple):
    """A layer to be: its operations, parameters (name and elements) and the channels of its batch
    norm."""

    name: str
    operations: tuple[Operation, ...]
    parameters: tuple[tuple[str, int], ...] = ()
    channels: int = 0


class Architecture(NamedTuple):
    """Parts in the order in which they run, for samples of `inputs` bytes and `outputs` elements.

    The optimizer keeps `state` elements a parameter: 1 is SGD with momentum, 2 is Adam.
    """

    parts: tuple[Part, ...]
    inputs: float
    outputs: float
    state: float
    registration: tuple[int, ...] = ()

    @property
    def parameters(self) -> int:
        """How many parameters there are."""
        return sum(elements for part in self.parts for _, elements in part.parameters)

    @property
    def kinds(self) -> list[str]:
        """The kinds of multiplications that there are."""
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
    """From `inputs` to `outputs` elements: each of the `weights` for each of `area` places. The
    `first` needs no gradient of its input; `square` is 3x3 with a stride of 1."""
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


def linear(rows: float, inputs: float, outputs: float, *, keeps: bool = True) -> Operation:
    """`rows` vectors of `inputs` elements times a matrix; biases are added in passing."""
    flops, moved, weights = 2 * rows * inputs * outputs, rows * (inputs + outputs), inputs * outputs
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


def attention(rows: float, width: float, *, causal: bool) -> Operation:
    """Fused attention of `rows` tokens among each other: scores are neither written nor kept, but
    computed again."""
    flops = 4 * rows**2 * width / (2 if causal else 1)
    moved = rows * width
    return Operation(
        "attention",
        flops=flops,
        flops_back=RECOMPUTED * flops,
        moved=4 * moved,
        moved_back=8 * moved,
        kept=moved,
    )


def batch_norm(elements: float) -> Operation:
    """Forward: read for the statistics, read, write. Backward: input and gradient twice, write.
    Keeps its input, which is what the convolution before it leaves."""
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
    """The model with the times of a batch of `batch` samples on `device`.

    Raises InputError if the device or the dtype is none, or the device cannot train the model in
    it.
    """
    costs = _Costs(batch, device, multiplies(device, dtype, architecture.kinds), PRECISIONS[dtype])
    held, reduced = costs.precision.held, costs.precision.reduced
    updated = architecture.parameters * (
        2 * (1 + architecture.state) * WIDTHS[held] + WIDTHS[reduced]
    )
    return Model(
        name=name,
        batch=batch,
        layers=tuple(costs.layer(part) for part in architecture.parts),
        dtype=held,
        gradient_dtype=reduced,
        optimizer=updated / bandwidth(device),
        state=architecture.state,
        inputs=batch * architecture.inputs,
        outputs=batch * architecture.outputs * costs.precision.width,
        memory_bandwidth=accelerator(device).bandwidth,
        device=device,
        source=costs.source(architecture.kinds),
        registration=architecture.registration,
    )


class _Costs(NamedTuple):
    """What a batch costs on a device that multiplies in dtype `math`."""

    batch: int
    device: str
    math: str
    precision: Precision

    def layer(self, part: Part) -> Layer:
        """The part with its times and bytes."""
        width, operations = self.precision.width, part.operations
        return Layer(
            name=part.name,
            forward=sum(
                self._seconds(each, each.flops, each.moved, each.weights) for each in operations
            ),
            backward=sum(
                self._seconds(each, each.flops_back, each.moved_back, each.gradients)
                for each in operations
            ),
            activation=self.batch
            * sum(each.kept * (each.width or width) + each.masks for each in operations),
            tensors=tuple(
                Tensor(name, size * WIDTHS[self.precision.held]) for name, size in part.parameters
            ),
            buffers=2 * part.channels * WIDTHS["fp32"] + COUNTER if part.channels else 0.0,
            channels=part.channels,
        )

    def source(self, kinds: list[str]) -> str:
        """Where the times are from."""
        chosen = accelerator(self.device)
        peak = f"{chosen.peak[self.math] / 1e12:g} TFLOP/s in {self.math} of {self.device}"
        shares = ", ".join(f"{share(self.device, kind, self.math):.0%} ({kind})" for kind in kinds)
        return (
            f"estimated, not measured: FLOPs at {shares} of the {peak}, "
            f"bytes at {MEMORY.value:.0%} of {chosen.bandwidth / 1e9:g} GB/s"
        )

    def _seconds(self, operation: Operation, flops: float, moved: float, weights: float) -> float:
        """Weights used in another dtype than they are held in are converted before, and their
        gradients after."""
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
