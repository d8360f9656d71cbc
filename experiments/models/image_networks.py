"""ResNet-50 (stride in the 3x3 convolutions; He et al., CVPR 2016, Table 1) and VGG-16
(configuration D of Simonyan and Zisserman, ICLR 2015, without batch norms) as torchvision has
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from experiments.models.kernels import Computation, Kernels, Tensors
from simulator.training.model import Layer, Model

CHANNELS, CLASSES = 3, 1000
"""Of an image, and of its results."""
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Of each stage of ResNet-50 the width, the blocks and the stride of its first."""
EXPANSION = 4
GROUPS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Channels of VGG-16's convolutions between poolings."""
GRID = 7
"""What is left of an image is averaged to 7 x 7 for VGG-16's classifier."""
CLASSIFIER = ((0, 4096), (3, 4096), (6, CLASSES))
"""Place in VGG-16's module, and width."""
Sizes = tuple[int, int, int, int, int]
"""The side of an image before and after a convolution, the channels before and after it, and its
own side."""


class ImageNetworks(Kernels):
    """Networks for a batch of images. Elements are those of one image."""

    def network(self, layers: Iterable[Layer], image: int) -> Model:
        """The model with these layers, for images of a side."""
        return self.model(layers, inputs=CHANNELS * image**2 * 4, outputs=CLASSES, state=1)

    def _elements(
        self, moved: float, moved_back: float, kept: float = 0.0, masks: float = 0.0
    ) -> Computation:
        """A kernel that moves so many elements, and keeps elements and further bytes."""
        batch, width = self.cut.micro, self.cut.micro * self.width
        return self.memory(width * moved, width * moved_back, width * kept + batch * masks)

    def _activation(self, elements: float) -> Computation:
        """ReLU: read, write; backward: what is kept, gradient, write."""
        return self._elements(2 * elements, 3 * elements, elements)

    def _pooling(self, inputs: float, outputs: float, index: float = 0.0) -> Computation:
        """Average pooling, or max pooling, which keeps an index of so many bytes a result."""
        return self._elements(inputs + outputs, inputs + outputs, outputs, index * outputs)

    def _convolution(
        self, name: str, sizes: Sizes, after: Iterable[Computation], norm: str = "", place: str = ""
    ) -> Layer:
        """A convolution with a bias, or with the batch norm `norm`, for which its result is kept.
        The first convolution of a network needs no gradient of its input. A batch norm reads twice
        and writes once, and in the backward reads input and gradient twice and writes.
        """
        side, small, inputs, outputs, kernel = sizes
        batch, read, written = self.cut.micro, inputs * side**2, outputs * small**2
        weights, is_first = inputs * outputs * kernel**2, inputs == CHANNELS
        seconds = self.times.convolution(
            2.0 * batch * weights * small**2,
            (batch * (read + written) + weights) * self.width,
            square=kernel == 3 and side == small,
        )
        for_weights = seconds + self.times.traffic(self.cut.accumulated * weights)
        kept = batch * written * self.width if norm else 0.0
        kernels = [Computation(seconds, 0.0 if is_first else seconds, for_weights, kept=kept)]
        tensors = _affine(name, weights, outputs)
        if norm:
            kernels.append(self._elements(3 * written, 5 * written))
            tensors = (f"{place or name}.weight", weights), *_affine(norm, outputs, outputs)
        return self.layer(name, [*kernels, *after], tensors, outputs if norm else 0)

    def resnet50(self, image: int) -> Iterator[Layer]:
        """25,557,032 parameters; 4.09 G multiply-adds for an image of 224 x 224."""
        side = _side(image, 7, 2)
        pooled = _side(side, 3, 2)
        stem = self._activation(64 * side**2), self._pooling(64 * side**2, 64 * pooled**2, 8)
        yield self._convolution("conv1", (image, side, CHANNELS, 64, 7), stem, "bn1")
        side, inputs = pooled, 64
        for stage, (width, blocks, stride) in enumerate(STAGES, 1):
            for block in range(blocks):
                step = 1 if block else stride
                yield from self._bottleneck(f"layer{stage}.{block}", side, inputs, width, step)
                side, inputs = _side(side, 3, step), width * EXPANSION
        average = self._pooling(inputs * side**2, inputs)
        yield self._classifier("fc", inputs, CLASSES, [average])

    def _bottleneck(
        self, name: str, side: int, inputs: int, width: int, stride: int
    ) -> Iterator[Layer]:
        """1x1, 3x3, 1x1, and where the shape changes a 1x1 beside them; then the sum of the two,
        and ReLU, in place."""
        small, outputs = _side(side, 3, stride), width * EXPANSION
        written = outputs * small**2
        tail = self._elements(3 * written, 3 * written), self._activation(written)
        changes = inputs != outputs or stride != 1
        shapes = (
            (side, side, inputs, width, 1),
            (side, small, width, width, 3),
            (small, small, width, outputs, 1),
        )
        for number, shape in enumerate(shapes, 1):
            relu = (self._activation(width * shape[1] ** 2),)
            after = relu if number < 3 else () if changes else tail
            yield self._convolution(f"{name}.conv{number}", shape, after, f"{name}.bn{number}")
        if changes:
            place, shape = f"{name}.downsample", (side, small, inputs, outputs, 1)
            yield self._convolution(place, shape, tail, f"{place}.1", f"{place}.0")

    def vgg16(self, side: int) -> Iterator[Layer]:
        """Convolutions and, in place, ReLU; the last of a group with its pooling. 138,357,544
        parameters; 15.47 G multiply-adds for an image of 224 x 224."""
        place, inputs = 0, CHANNELS
        for group in GROUPS:
            for number, outputs in enumerate(group, 1):
                written = outputs * side**2
                after = [self._activation(written)]
                if number == len(group):
                    after.append(self._pooling(written, outputs * (side // 2) ** 2, 8))
                shape = (side, side, inputs, outputs, 3)
                yield self._convolution(f"features.{place}", shape, after)
                place, inputs = place + 2, outputs
            place, side = place + 1, side // 2
        width = GROUPS[-1][-1]
        before, inputs = [self._pooling(width * side**2, width * GRID**2)], width * GRID**2
        for place, outputs in CLASSIFIER:
            yield self._classifier(f"classifier.{place}", inputs, outputs, before)
            before, inputs = [], outputs

    def _classifier(self, name: str, inputs: int, outputs: int, before: list[Computation]) -> Layer:
        """A matrix. ReLU and dropout, with a mask of a byte an element, follow all but the last."""
        batch, last = self.cut.micro, outputs == CLASSES
        kept = batch * outputs * self.width if last else 0.0
        kernels = [*before, self.product(batch, outputs, inputs, kept=kept)]
        if not last:
            dropout = self._elements(2 * outputs, 2 * outputs, outputs, outputs)
            kernels += [self._activation(outputs), dropout]
        return self.layer(name, kernels, _affine(name, inputs * outputs, outputs))


def _side(side: int, kernel: int, stride: int) -> int:
    """The side of what a kernel with a padding of half of it leaves of a square."""
    return (side + 2 * (kernel // 2) - kernel) // stride + 1


def _affine(name: str, weights: int, outputs: int) -> Tensors:
    return (f"{name}.weight", weights), (f"{name}.bias", outputs)
