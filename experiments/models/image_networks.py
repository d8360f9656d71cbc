"""ResNet-50 (stride in the 3x3 convolutions; He et al., CVPR 2016, Table 1) and VGG-16
(configuration D of Simonyan and Zisserman, ICLR 2015, without batch norms) as torchvision has
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from experiments.models.work import (
    Architecture,
    LayerWork,
    Operation,
    activation,
    addition,
    average,
    batch_norm,
    convolution,
    dropout,
    linear,
    pooling,
)

CLASSES = 1000
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Of each stage of ResNet-50 the width, the blocks and the stride of its first."""
EXPANSION = 4
GROUPS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Channels of VGG-16's convolutions between poolings."""
GRID = 7
"""What is left of an image is averaged to 7 x 7 for VGG-16's classifier."""
CLASSIFIER = ((0, 4096), (3, 4096), (6, CLASSES))
"""Place in VGG-16's module, and width."""


def resnet50(image: int) -> Architecture:
    """25,557,032 parameters; 4.09 G multiply-adds for an image of 224 x 224."""
    return _network(_resnet50(image), image)


def vgg16(image: int) -> Architecture:
    """138,357,544 parameters; 15.47 G multiply-adds for an image of 224 x 224."""
    side = image // 2 ** len(GROUPS)
    return _network((*_features(image), *_classifier(side)), image)


def _network(parts: Iterable[LayerWork], image: int) -> Architecture:
    return Architecture(tuple(parts), inputs=3 * image**2 * 4, outputs=CLASSES, state=1)


def _resnet50(image: int) -> Iterator[LayerWork]:
    side = _side(image, 7, 2)
    pooled = _side(side, 3, 2)
    stem = (activation(64 * side**2), pooling(64 * side**2, 64 * pooled**2))
    yield _normed("conv1", "bn1", (image, side, 3, 64, 7), stem, first=True)
    side, inputs = pooled, 64
    for stage, (width, blocks, stride) in enumerate(STAGES, 1):
        for block in range(blocks):
            step = 1 if block else stride
            yield from _bottleneck(f"layer{stage}.{block}", side, inputs, width, step)
            side, inputs = _side(side, 3, step), width * EXPANSION
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
        yield _normed(f"{name}.conv{number}", f"{name}.bn{number}", shape, after)
    if changes:
        shape, place = (side, small, inputs, outputs, 1), f"{name}.downsample"
        layer = _normed(f"{place}.0", f"{place}.1", shape, tail)
        yield layer._replace(name=place)


def _normed(
    name: str,
    norm: str,
    shape: tuple[int, int, int, int, int],
    after: tuple[Operation, ...],
    *,
    first: bool = False,
) -> LayerWork:
    """A convolution, whose result is kept for the batch norm after it. Its `shape` is the side of
    the image before it and after it, the channels before it and after it, and its own side."""
    side, small, inputs, outputs, kernel = shape
    weights, written = inputs * outputs * kernel**2, outputs * small**2
    convolved = convolution(
        inputs * side**2,
        written,
        weights,
        small**2,
        square=kernel == 3 and side == small,
        keeps=True,
        first=first,
    )
    tensors = ((f"{name}.weight", weights), (f"{norm}.weight", outputs), (f"{norm}.bias", outputs))
    return LayerWork(name, (convolved, batch_norm(written), *after), tensors, outputs)


def _side(side: int, kernel: int, stride: int) -> int:
    """The side of what a kernel with a padding of half of it leaves of a square."""
    return (side + 2 * (kernel // 2) - kernel) // stride + 1


def _features(side: int) -> Iterator[LayerWork]:
    """Convolutions and, in place, ReLU; the last of a group with its pooling."""
    place, inputs = 0, 3
    for group in GROUPS:
        for number, outputs in enumerate(group, 1):
            read, written, weights = inputs * side**2, outputs * side**2, inputs * outputs * 9
            first = place == 0
            convolved = convolution(
                read, written, weights, side**2, square=True, keeps=False, first=first
            )
            pooled = (pooling(written, outputs * (side // 2) ** 2),) * (number == len(group))
            tensors = _biased(f"features.{place}", weights, outputs)
            operations = (convolved, activation(written), *pooled)
            yield LayerWork(f"features.{place}", operations, tensors)
            place, inputs = place + 2, outputs
        place, side = place + 1, side // 2


def _classifier(side: int) -> Iterator[LayerWork]:
    inputs = GROUPS[-1][-1] * GRID**2
    before: tuple[Operation, ...] = (average(GROUPS[-1][-1] * side**2, inputs),)
    for place, outputs in CLASSIFIER:
        last, name = outputs == CLASSES, f"classifier.{place}"
        after = () if last else (activation(outputs), dropout(outputs, keeps=True))
        operations = (*before, linear(1, inputs, outputs, keeps=last), *after)
        yield LayerWork(name, operations, _biased(name, inputs * outputs, outputs))
        before, inputs = (), outputs


def _biased(name: str, weights: int, outputs: int) -> tuple[tuple[str, int], ...]:
    return ((f"{name}.weight", weights), (f"{name}.bias", outputs))
