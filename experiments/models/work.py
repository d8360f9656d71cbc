"""The FLOPs and bytes of layers.

:mod:`experiments.models.device_times` says what they take on a device. A norm, an activation or an
attention is one kernel.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

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
    rows: float, queries: float, keys: float, values: float, outputs: float, *, causal: bool
) -> Operation:
    """Fused attention of `rows` tokens, whose heads have so many elements in all. Scores are not
    kept: the backward computes them again."""
    flops = 2 * rows**2 * (queries + outputs) / (2 if causal else 1)
    moved = rows * (queries + keys + values + outputs)
    return Operation(
        "attention",
        flops=flops,
        flops_back=RECOMPUTED * flops,
        moved=moved,
        moved_back=2 * moved,
        kept=rows * outputs,
    )


def _kernel(
    moved: float, moved_back: float, kept: float, elements: float, *, keeps: bool = True
) -> Operation:
    """An operation that moves and keeps so much for each of `elements` elements."""
    return Operation(
        moved=moved * elements,
        moved_back=moved_back * elements,
        kept=kept * elements if keeps else 0,
    )


batch_norm = partial(_kernel, 3, 5, 0)
"""A batch norm, which keeps its input: the output of the convolution before it. The forward reads
twice and writes once. The backward reads input and gradient twice and writes."""
norm = partial(_kernel, 2, 5, 1)
"""A layer or RMS norm: read, write; backward once for the input and once for the weights."""
activation = partial(_kernel, 2, 3, 1)
"""ReLU, GELU or tanh: read, write; backward: what is kept, gradient, write."""
gated = partial(_kernel, 5, 8, 2)
"""silu(gate) x up: two kernels, which keep a result each."""
rotary = partial(_kernel, 9, 9, 1)
"""Queries and keys rotated by their position, x cos + rotated(x) sin: four kernels, of which only
the result is kept."""
addition = partial(_kernel, 3, 3, 1)
"""A residual connection; the gradients of its branches are added backward."""


def dropout(elements: float, *, keeps: bool = False) -> Operation:
    """Dropout with a mask of a byte an element."""
    return _kernel(2, 2, 1, elements, keeps=keeps)._replace(masks=elements)


def average(inputs: float, outputs: float) -> Operation:
    """Average pooling."""
    return Operation(moved=inputs + outputs, moved_back=inputs + outputs, kept=outputs)


def pooling(inputs: float, outputs: float) -> Operation:
    """Max pooling, which keeps an index of eight bytes a result."""
    return average(inputs, outputs)._replace(masks=8 * outputs)


def embedding(elements: float, table: float) -> Operation:
    """Rows of a table; backward writes a gradient of the whole table and adds to it."""
    return Operation(moved=2 * elements, moved_back=2 * elements, gradients=table)


def cross_entropy(elements: float) -> Operation:
    """The loss of `elements` logits, in fp32: converted, log-softmax, which is kept; backward the
    same."""
    return _kernel(3, 3, 1, elements)._replace(width=4)
