"""VGG-16 as torchvision has it (configuration D of Simonyan and Zisserman, ICLR 2015), without
batch norms."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.models.work import (
    Architecture,
    LayerWork,
    Operation,
    activation,
    average,
    convolution,
    dropout,
    linear,
    pooling,
)

WIDTHS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Channels of the convolutions between poolings."""

GRID = 7
"""What is left of an image is averaged to 7 x 7 for the classifier."""

CLASSIFIER = ((0, 4096), (3, 4096), (6, 1000))
"""Place in the module, and width."""


def vgg16(image: int) -> Architecture:
    """138,357,544 parameters; 15.47 G multiply-adds for an image of 224 x 224."""
    return Architecture(
        parts=(*_features(image), *_classifier(image // 2 ** len(WIDTHS))),
        inputs=3 * image**2 * 4,
        outputs=CLASSIFIER[-1][1],
        state=1,
    )


def _features(side: int) -> Iterator[LayerWork]:
    """Convolutions and, in place, ReLU; the last of a group with its pooling."""
    place, inputs = 0, 3
    for group in WIDTHS:
        for number, outputs in enumerate(group, 1):
            area, weights = side**2, inputs * outputs * 9
            convolved = convolution(
                inputs * area,
                outputs * area,
                weights,
                area,
                square=True,
                keeps=False,
                first=place == 0,
            )
            pooled = (
                (pooling(outputs * area, outputs * (side // 2) ** 2),)
                if number == len(group)
                else ()
            )
            name = f"features.{place}"
            yield LayerWork(
                name,
                (convolved, activation(outputs * area), *pooled),
                _tensors(name, weights, outputs),
            )
            place, inputs = place + 2, outputs
        place, side = place + 1, side // 2


def _classifier(side: int) -> Iterator[LayerWork]:
    inputs = WIDTHS[-1][-1] * GRID**2
    before: tuple[Operation, ...] = (average(WIDTHS[-1][-1] * side**2, inputs),)
    for place, outputs in CLASSIFIER:
        last = place == CLASSIFIER[-1][0]
        after = () if last else (activation(outputs), dropout(outputs, keeps=True))
        name = f"classifier.{place}"
        yield LayerWork(
            name,
            (*before, linear(1, inputs, outputs, keeps=last), *after),
            _tensors(name, inputs * outputs, outputs),
        )
        before, inputs = (), outputs


def _tensors(name: str, weights: int, outputs: int) -> tuple[tuple[str, int], ...]:
    return ((f"{name}.weight", weights), (f"{name}.bias", outputs))
