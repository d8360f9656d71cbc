"""ResNet-50 (stride in the 3x3 convolutions; He et al., CVPR 2016, Table 1) and VGG-16
(configuration D of Simonyan and Zisserman, ICLR 2015, without batch norms) as torchvision has
them.

`image_networks.csv` has their layers in the order in which they run: convolutions, and matrices
without a `kernel`. An image is `scale` times as wide as the input of a layer. `norm` is a batch
norm behind the layer, `weight` the name of its tensor where the layer has another one. `after` are
kernels behind it, in place. `pool` is the side of max pooling behind a convolution, or the side to
which the input of a matrix is averaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from experiments.models.kernels import Computation, Kernels, Tensors
from experiments.shipped_tables import rows_of
from simulator.training.model import Layer, Model

CHANNELS, CLASSES = 3, 1000
"""Of an image, and of its results."""
AFTER = {"relu": (2, 3, 1, 0), "sum": (3, 3, 0, 0), "dropout": (2, 2, 1, 1)}
"""What kernels behind a layer move in the forward and in the backward, what they keep, and bytes of
their masks, for each result of the layer. ReLU reads and writes; its backward reads what is kept
and the gradient, and writes."""
NUMBERS = "inputs", "outputs", "kernel", "scale", "stride", "pool"
_table = cache(rows_of)


class ImageNetworks(Kernels):
    """Networks for a batch of images. Elements are those of one image."""

    def network(self, name: str, image: int) -> Model:
        """The network of a name for images of a side. ResNet-50 has 25,557,032 parameters, and 4.09
        G multiply-adds for an image of 224 x 224; VGG-16 has 138,357,544 and 15.47 G."""
        layers, sides = list[Layer](), {1: image}
        for row in _table(Path(__file__).with_suffix(".csv")):
            if row["network"] == name:
                layer = self._convolution if row["kernel"] else self._matrix
                layers.append(layer(row, {key: int(row[key] or 0) for key in NUMBERS}, sides))
        return self.model(layers, inputs=CHANNELS * image**2 * 4, outputs=CLASSES, state=1)

    def _elements(
        self, moved: float, moved_back: float, kept: float = 0.0, masks: float = 0.0
    ) -> Computation:
        """A kernel that moves so many elements, and keeps elements and further bytes."""
        batch, width = self.cut.micro, self.cut.micro * self.width
        return self.memory(width * moved, width * moved_back, width * kept + batch * masks)

    def _pooling(self, inputs: float, outputs: float, index: float = 0.0) -> Computation:
        """Average pooling, or max pooling, which keeps an index of so many bytes a result."""
        return self._elements(inputs + outputs, inputs + outputs, outputs, index * outputs)

    def _after(self, row: Mapping[str, str], elements: float) -> list[Computation]:
        """The kernels behind a layer with so many results."""
        each = (AFTER[word] for word in row["after"].split())
        return [self._elements(*(count * elements for count in counts)) for counts in each]

    def _convolution(
        self, row: Mapping[str, str], sizes: Mapping[str, int], sides: dict[int, int]
    ) -> Layer:
        """A convolution with a bias, or with a batch norm, for which its result is kept. The first
        convolution of a network needs no gradient of its input. A batch norm reads twice and writes
        once, and in the backward reads input and gradient twice and writes. `sides` are those of
        images by the scale, and those behind the layer are added."""
        inputs, outputs, kernel, scale, stride, pool = sizes.values()
        side, name, norm = sides[scale], row["name"], row["norm"]
        small = sides[scale * stride] = _side(side, kernel, stride)
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
            weight = row["weight"] or f"{name}.weight"
            tensors = (weight, weights), *_affine(norm, outputs, outputs)
        kernels += self._after(row, written)
        if pool:
            pooled = sides[2 * scale * stride] = _side(small, pool, 2)
            kernels.append(self._pooling(written, outputs * pooled**2, 8))
        return self.layer(name, kernels, tensors, outputs if norm else 0)

    def _matrix(
        self, row: Mapping[str, str], sizes: Mapping[str, int], sides: dict[int, int]
    ) -> Layer:
        """A matrix. The last one keeps its results."""
        inputs, outputs, _, scale, _, pool = sizes.values()
        batch, kernels = self.cut.micro, list[Computation]()
        if pool:
            kernels.append(self._pooling(inputs // pool**2 * sides[scale] ** 2, inputs))
        kept = batch * outputs * self.width if outputs == CLASSES else 0.0
        kernels.append(self.product(batch, outputs, inputs, kept=kept))
        kernels += self._after(row, outputs)
        return self.layer(row["name"], kernels, _affine(row["name"], inputs * outputs, outputs))


def _side(side: int, kernel: int, stride: int) -> int:
    """The side of what a kernel leaves of a square, with the same padding at both ends."""
    return (side + 2 * ((kernel - 1) // 2) - kernel) // stride + 1


def _affine(name: str, weights: int, outputs: int) -> Tensors:
    return (f"{name}.weight", weights), (f"{name}.bias", outputs)
