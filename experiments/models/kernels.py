"""What a device computes, as blocks of plans and layers of strategies take it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from experiments.models.accelerators import MEMORY, PRECISIONS, accelerator, bandwidth
from experiments.models.block_cut import BlockCut
from experiments.models.block_passes import Computation, Event, computations
from experiments.models.device_times import DeviceTimes
from simulator.training.model import WIDTHS, Layer, Model, Tensor

COUNTER = 8.0
"""Bytes of the number in which a batch norm counts its batches."""
Tensors = Sequence[tuple[str, int]]
"""Names and elements."""


@dataclass(frozen=True)
class Kernels:
    """Computations for a micro-batch on a device."""

    times: DeviceTimes
    cut: BlockCut

    @property
    def width(self) -> float:
        """Bytes of an activation."""
        return PRECISIONS[self.times.dtype].width

    def product(
        self,
        rows: float,
        outputs: float,
        inner: float,
        number: int = 1,
        *,
        kept: float = 0.0,
        later: float = 0.0,
    ) -> Computation:
        """`number` products of `rows` x `inner` by `inner` x `outputs` elements of weights. The
        gradients of a micro-batch are added to those before it."""
        times, summed = self.times, self.cut.accumulated * outputs * inner
        return Computation(
            number * times.product(rows, outputs, inner),
            number * times.product(rows, inner, outputs),
            number * (times.product(outputs, inner, rows) + times.traffic(summed)),
            number,
            2 * number,
            kept,
            later,
        )

    def memory(self, nbytes: float, nbytes_back: float, kept: float = 0.0) -> Computation:
        """A kernel that moves so many bytes in the forward and in the backward."""
        return Computation(self.times.memory(nbytes), self.times.memory(nbytes_back), kept=kept)

    def layer(
        self, name: str, events: Iterable[Event], parameters: Tensors = (), channels: int = 0
    ) -> Layer:
        """A layer of a strategy, with the `channels` of a batch norm."""
        each = computations(events)
        width = WIDTHS[PRECISIONS[self.times.dtype].parameters]
        return Layer(
            name,
            forward=sum(kernel.forward for kernel in each),
            backward=sum(kernel.inputs + kernel.weights for kernel in each),
            activation=sum(kernel.kept for kernel in each),
            tensors=tuple(Tensor(tensor, size * width) for tensor, size in parameters),
            buffers=2 * channels * WIDTHS["fp32"] + COUNTER if channels else 0.0,
            channels=channels,
        )

    def model(
        self,
        layers: Iterable[Layer],
        *,
        inputs: float,
        outputs: float,
        state: float,
        registration: tuple[int, ...] = (),
    ) -> Model:
        """The model with these layers in the order in which they run. They are registered in the
        order `registration`; empty: in the same one.

        A sample's input has `inputs` bytes, and its output `outputs` elements. The optimizer keeps
        `state` elements for a parameter: 1 for SGD with momentum, 2 for Adam.
        """
        device, precision = self.times.device, PRECISIONS[self.times.dtype]
        chosen, batch, layers = accelerator(device), self.cut.micro, tuple(layers)
        moved = 2 * (1 + state) + WIDTHS[precision.gradients] / WIDTHS[precision.parameters]
        return Model(
            name="",
            batch=batch,
            layers=layers,
            dtype=precision.parameters,
            gradient_dtype=precision.gradients,
            optimizer=moved * sum(layer.nbytes for layer in layers) / bandwidth(device),
            state=state,
            inputs=batch * inputs,
            outputs=batch * outputs * precision.width,
            memory_bandwidth=chosen.bandwidth,
            multiprocessors=chosen.multiprocessors,
            device=device,
            source=f"estimated, not measured: FLOPs at what products of such sizes reach of the "
            f"{chosen.peak[self.times.math] / 1e12:g} TFLOP/s in {self.times.math} of {device}, "
            f"bytes at {MEMORY:.0%} of {chosen.bandwidth / 1e9:g} GB/s",
            registration=registration,
        )
