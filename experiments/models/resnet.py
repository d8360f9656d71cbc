"""ResNet-50 as torchvision has it (stride in the 3x3 convolutions; He et al., CVPR 2016, Table
1)."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.models.work import (
    Architecture,
    LayerWork,
    Operation,
    activation,
    addition,
    average,
    batch_norm,
    convolution,
    linear,
    pooling,
)

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Of each stage the width, the blocks and the stride of its first."""

EXPANSION = 4
CLASSES = 1000


def resnet50(image: int) -> Architecture:
    """25,557,032 parameters; 4.09 G multiply-adds for an image of 224 x 224."""
    return Architecture(
        parts=tuple(_parts(image)),
        inputs=3 * image**2 * 4,
        outputs=CLASSES,
        state=1,
    )


def _parts(image: int) -> Iterator[LayerWork]:
    side = _side(image, 7, 2)
    pooled = _side(side, 3, 2)
    stem = _normed(image, side, 3, 64, 7, first=True)
    yield LayerWork(
        "conv1",
        (*stem, activation(64 * side**2), pooling(64 * side**2, 64 * pooled**2)),
        _tensors("conv1", "bn1", 3, 64, 7),
        channels=64,
    )
    side, inputs = pooled, 64
    for stage, (width, blocks, stride) in enumerate(STAGES, 1):
        for block in range(blocks):
            yield from _bottleneck(
                f"layer{stage}.{block}", side, inputs, width, 1 if block else stride
            )
            side, inputs = _side(side, 3, 1 if block else stride), width * EXPANSION
    yield LayerWork(
        "fc",
        (average(inputs * side**2, inputs), linear(1, inputs, CLASSES)),
        (("fc.weight", inputs * CLASSES), ("fc.bias", CLASSES)),
    )


def _bottleneck(name: str, side: int, inputs: int, width: int, stride: int) -> Iterator[LayerWork]:
    """1x1, 3x3, 1x1, and where the shape changes a 1x1 beside them; then the sum of the two, and
    ReLU, in place."""
    small, outputs = _side(side, 3, stride), width * EXPANSION
    tail = (addition(outputs * small**2, keeps=False), activation(outputs * small**2))
    changes = inputs != outputs or stride != 1
    shapes = (
        (side, side, inputs, width, 1),
        (side, small, width, width, 3),
        (small, small, width, outputs, 1),
    )
    for number, shape in enumerate(shapes, 1):
        after = (activation(width * shape[1] ** 2),) if number < 3 else () if changes else tail
        yield LayerWork(
            f"{name}.conv{number}",
            (*_normed(*shape), *after),
            _tensors(f"{name}.conv{number}", f"{name}.bn{number}", *shape[2:]),
            channels=shape[3],
        )
    if changes:
        yield LayerWork(
            f"{name}.downsample",
            (*_normed(side, small, inputs, outputs, 1), *tail),
            _tensors(f"{name}.downsample.0", f"{name}.downsample.1", inputs, outputs, 1),
            channels=outputs,
        )


def _normed(
    side: int, small: int, inputs: int, outputs: int, kernel: int, *, first: bool = False
) -> tuple[Operation, ...]:
    """A convolution, whose result is kept for the batch norm after it."""
    weights = inputs * outputs * kernel**2
    read, written = inputs * side**2, outputs * small**2
    square = kernel == 3 and side == small
    convolved = convolution(
        read, written, weights, small**2, square=square, keeps=True, first=first
    )
    return (convolved, batch_norm(written))


def _tensors(
    conv: str, norm: str, inputs: int, outputs: int, kernel: int
) -> tuple[tuple[str, int], ...]:
    return (
        (f"{conv}.weight", inputs * outputs * kernel**2),
        (f"{norm}.weight", outputs),
        (f"{norm}.bias", outputs),
    )


def _side(side: int, kernel: int, stride: int) -> int:
    """The side of what a kernel with a padding of half of it leaves of a square."""
    return (side + 2 * (kernel // 2) - kernel) // stride + 1
