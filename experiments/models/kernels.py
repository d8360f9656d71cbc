"""What a device computes for a micro-batch: the operations of a layer, as a layer of a strategy and
as the parts of a block of a plan with the collectives between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from experiments.models import narrow_casts
from experiments.models.accelerators import MEMORY, NARROW, PRECISIONS, accelerator, bandwidth
from experiments.models.block_cut import BlockCut
from experiments.models.device_times import DeviceTimes
from experiments.models.separate_kernels import Separate
from simulator.parallel.blocks import BlockPart
from simulator.training.model import WIDTHS, Layer, Model, Tensor

COUNTER = 8.0
"""Bytes of the number in which a batch norm counts its batches."""
Tensors = Sequence[tuple[str, int]]
"""Names and elements."""


class Computation(NamedTuple):
    """An operation on a rank, with its seconds in each pass."""

    forward: float = 0.0
    inputs: float = 0.0
    weights: float = 0.0
    kernels: int = 1
    """Kernels of the forward."""
    kernels_back: int = 1
    """Kernels of the backward."""
    kept: float = 0.0
    """Bytes that are kept from the forward to the backward for inputs."""
    later: float = 0.0
    """Bytes that are kept from the backward for inputs to that for weights."""
    working: float = 0.0
    """Bytes of gradients that the backward adds to what is kept."""


class Gate(NamedTuple):
    """A place where ranks of a group exchange V bytes by a collective in the forward, and by
    another in the backward; empty: there is none."""

    group: str
    forward: str
    back: str
    nbytes: float
    in_pieces: bool = False
    """Whether the collective runs in pieces beside the product next to it: behind a gather, or in
    front of a reduction."""
    wire: float = 1.0
    """The bytes that a gather moves over those of V: less than 1 if its input is cast."""
    kept: bool = True
    """Whether what the forward gathers is kept. Otherwise the backward gathers it again, beside the
    backward for inputs of the operation after it."""
    counted: bool = False
    """Whether the CPU reads in the forward how much each rank sends, and waits for that."""
    hidden: bool = False
    """Whether computations of another micro-batch run beside it."""

    def part(self, collective: str, seconds: float, launch: float) -> BlockPart:
        """A computation, with a collective here at its end."""
        nbytes = self.nbytes * (self.wire if collective == "all_gather" else 1.0)
        part = BlockPart(seconds, self.group, collective, nbytes, launch=launch)
        return part._replace(hidden=self.hidden)


class Ring(NamedTuple):
    """An operation in as many steps as the ring of a group has ranks. During each step but the last
    one a rank sends bytes to the next rank."""

    group: str
    operation: Computation
    steps: int
    nbytes: float
    """Bytes that a rank sends in a step of the forward. Those of the backward are twice as many:
    gradients travel too."""


Event = Computation | Gate | Ring


def computations(events: Iterable[Event]) -> list[Computation]:
    """The computations among events, also those in rings."""
    each = (event.operation if isinstance(event, Ring) else event for event in events)
    return [event for event in each if isinstance(event, Computation)]


@dataclass
class _Parts:
    """The parts of a pass, and the computations since the last of them."""

    launch: float
    """Seconds of the launch of a kernel."""
    parts: list[BlockPart] = field(default_factory=list)
    seconds: float = 0.0
    kernels: int = 0

    def compute(self, seconds: float, kernels: int) -> None:
        """Add a computation."""
        self.seconds += seconds
        self.kernels += kernels

    def close(
        self, gate: Gate | None = None, collective: str = "", *, waits: bool = False
    ) -> tuple[BlockPart, ...]:
        """End a part, with a collective at its end if there is a gate; returns all parts."""
        if gate:
            part = gate.part(collective, self.seconds, (self.kernels + 1) * self.launch)
            self.parts.append(part._replace(waits=waits))
        elif self.seconds > 0:
            self.parts.append(BlockPart(self.seconds, launch=self.kernels * self.launch))
        self.seconds, self.kernels = 0.0, 0
        return tuple(self.parts)

    def overlap(self, seconds: float, launches: int, gate: Gate, collective: str) -> None:
        """Add a part whose collective runs beside its computation."""
        self.close()
        part = gate.part(collective, seconds, launches * self.launch)
        self.parts.append(part._replace(overlaps=True))

    def turn(self, ring: Ring, seconds: float, kernels: int, nbytes: float) -> None:
        """Add the steps of a ring."""
        self.close()
        last = BlockPart(seconds / ring.steps, launch=(kernels + 1) * self.launch)
        step = last._replace(group=ring.group, collective="shift", nbytes=nbytes, overlaps=True)
        self.parts += [*[step] * (ring.steps - 1), last]


def forward(events: Sequence[Event], launch: float) -> tuple[BlockPart, ...]:
    """The parts of a forward. The launch of a kernel takes `launch` seconds."""
    parts, latest, gathers = _Parts(launch), 0.0, list[Gate]()
    for event in events:
        if isinstance(event, Ring):
            operation = event.operation
            parts.turn(event, operation.forward, operation.kernels, event.nbytes)
        elif isinstance(event, Computation) and gathers:
            gate, latest = gathers.pop(), 0.0
            parts.overlap(event.forward, event.kernels + 1, gate, gate.forward)
        elif isinstance(event, Computation):
            parts.compute(event.forward, event.kernels)
            latest = event.forward
        elif event.in_pieces and event.forward == "all_gather":
            gathers.append(event)
            parts.close()
        elif event.in_pieces and event.forward:
            parts.seconds -= latest
            parts.overlap(latest, 1, event, event.forward)
        elif event.forward:
            if event.counted:
                parts.close()
            parts.close(event, event.forward, waits=event.counted)
    return parts.close()


def backward(
    events: Sequence[Event], launch: float, *, both: bool = True, overlap: bool = False
) -> tuple[BlockPart, ...]:
    """The parts of a backward: of `both` inputs and weights, or of that for inputs. Where they may,
    collectives of tensor parallel run beside the backward for weights of the operation before
    them."""
    parts, latest = _Parts(launch), Computation(kernels=0, kernels_back=0)
    gathers = list[Gate]()
    for event in reversed(events):
        if isinstance(event, Ring):
            operation = event.operation
            parts.turn(event, operation.inputs, operation.kernels_back, 2 * event.nbytes)
            continue
        if isinstance(event, Computation):
            latest = event
            if gathers:
                gate = gathers.pop()
                parts.overlap(event.inputs, 2, gate, gate.back)
                parts.compute(both * event.weights, both * 1)
            else:
                seconds = event.inputs + both * event.weights
                parts.compute(seconds, event.kernels_back if both or not event.weights else 1)
            continue
        if event.in_pieces and event.back == "all_gather":
            parts.close()
            gathers.append(event)
            continue
        waiting = latest.weights if both and overlap and event.group == "tp" else 0.0
        if not event.kept and both:
            # What was gathered in the forward is gathered again beside the backward for
            # inputs, the last that was added.
            parts.seconds -= latest.inputs + waiting
            parts.kernels = max(parts.kernels - 2, 0)
            parts.overlap(latest.inputs, 2, event, event.forward)
        elif event.back:
            parts.seconds -= waiting
        if event.back and waiting:
            parts.overlap(waiting, 1, event, event.back)
        elif event.back:
            parts.close(event, event.back)
    return parts.close()


def weights(events: Sequence[Event], launch: float) -> tuple[BlockPart, ...]:
    """The backward for weights, when it runs apart. What the forward did not keep is gathered
    again."""
    mine = [each for each in computations(events) if each.weights]
    gathers = [event for event in events if isinstance(event, Gate) and not event.kept]
    number, parts = max(1, len(gathers)), _Parts(launch)
    seconds, kernels = sum(each.weights for each in mine) / number, -(-len(mine) // number)
    for gate in gathers:
        parts.overlap(seconds, kernels + 1, gate, gate.forward)
    if not gathers:
        parts.compute(seconds, kernels)
    return parts.close()


@dataclass(frozen=True)
class Kernels:
    """Computations for a micro-batch on a device."""

    times: DeviceTimes
    cut: BlockCut

    @property
    def width(self) -> float:
        """Bytes of an activation."""
        return PRECISIONS[self.times.dtype].width

    @property
    def wide(self) -> Self:
        """The computations that stay in 16 bits."""
        return replace(self, times=self.times.wide) if self.times.narrow else self

    @property
    def wire(self) -> float:
        """Bytes of a cast input of a product over those of the input: 1 in 16 bits and more, and
        where rows are scaled, whose casts each product makes."""
        casts = self.times.narrow and self.cut.scaling != "rowwise"
        return NARROW[self.times.math] / self.width if casts else 1.0

    def product(
        self,
        rows: float,
        columns: float | Sequence[float],
        inner: float,
        number: int = 1,
        *,
        kept: float = 0.0,
        later: float = 0.0,
        part: str = "",
    ) -> Computation:
        """`number` products of `rows` x `inner` by `inner` x `columns` elements of weights, or of
        several matrices with the same input. The gradients of a micro-batch are added to those
        before it. Below 16 bits, input, gradients and, unless they are kept, weights are cast.

        Under LoRA the matrix is frozen: its backward is that for inputs. If its `part` of a block
        has adapters, their two products in 16 bits follow it, and its input is kept for them.
        """
        cut, matrices = self.cut, columns if isinstance(columns, Sequence) else [columns]
        outputs = sum(matrices)
        whole = self._whole_product(rows, outputs, inner, number)
        if len(matrices) > 1 and not cut.merged and not cut.lora:
            whole = self._apart(rows, matrices, inner, number, whole)
        if not cut.lora:
            # What Transformer Engine keeps for the backward is cast; torchao casts it again.
            bytes_kept = self.wire if cut.keeps_casts else 1.0
            return whole._replace(kept=kept * bytes_kept, later=later * bytes_kept)
        launched = self._launches(number)
        frozen = whole._replace(weights=0.0, kernels_back=whole.kernels_back - launched)
        if cut.holds_once and narrow_casts.transposes(self.times):
            nbytes = narrow_casts.stored(self.times) * number * outputs * inner
            turned = self.times.traffic(nbytes)
            seconds, kernels = frozen.inputs + turned, frozen.kernels_back + launched
            frozen = frozen._replace(inputs=seconds, kernels_back=kernels)
        if not part or (part != "attention" and cut.adapters == "attention"):
            return frozen
        moved = 3 * rows * number * outputs * self.width
        each = (
            frozen,
            self.wide._whole_product(rows, cut.lora, inner, number),
            self.wide._whole_product(rows, outputs, cut.lora, number),
            self.memory(moved, moved),
        )
        total = Computation._make(map(sum, zip(*each, strict=True)))
        return total._replace(kept=kept, later=later)

    def _apart(
        self, rows: float, matrices: Sequence[float], inner: float, number: int, whole: Computation
    ) -> Computation:
        """A product for each matrix, instead of the `whole` one. The backward adds their gradients
        of the input: two by two, or all at once where a compiler fuses sums. Casts take as long."""
        more = len(matrices) - 1
        merged, *each = (
            self._multiplications(rows, columns, inner, number)
            for columns in (sum(matrices), *matrices)
        )
        moved = (3 * more if self.cut.eager else more + 2) * rows * number * inner * self.width
        sums = Computation(inputs=self.times.memory(moved), kernels=0)
        added = Computation._make(map(sum, zip(whole, sums, *each, strict=True)))
        return Computation._make(a - b for a, b in zip(added, merged, strict=True))

    def _launches(self, number: int) -> int:
        """Kernels of so many products. torchtitan's grouped ones are one kernel."""
        return number if self.cut.keeps_casts else 1

    def _multiplications(
        self, rows: float, outputs: float, inner: float, number: int
    ) -> Computation:
        """Products without casts, and without the bytes that they keep."""
        times, launched = self.times, self._launches(number)
        summed = number * times.traffic(self.cut.accumulated * outputs * inner)
        slower = number if self.cut.pads else number * times.misaligned(outputs, inner)
        return Computation(
            slower * times.product(rows, outputs, inner),
            slower * times.product(rows, inner, outputs),
            slower * times.product(outputs, inner, rows) + summed,
            launched,
            2 * launched,
        )

    def _whole_product(self, rows: float, outputs: float, inner: float, number: int) -> Computation:
        """Products without the bytes that they keep."""
        times, cut, launched = self.times, self.cut, self._launches(number)
        wide = self._multiplications(rows, outputs, inner, number)
        if not times.narrow:
            return wide
        pieces = launched if narrow_casts.alone(times, cut.scaling) else 1
        tokens = rows * number / pieces
        # A cast stands for both products of a matrix, but for those that the backward makes anew.
        inputs = (tokens, inner), 2 if cut.keeps_casts else 1
        matrices = inputs, ((tokens, outputs), 2), ((number * outputs / pieces, inner), 1)
        cast, gradients, weights = (
            pieces * narrow_casts.cast(times, *matrix, cut.scaling, products)
            for matrix, products in matrices
        )
        weights *= cut.casts_weights
        passes = pieces * narrow_casts.reads(times, cut.scaling) * (1 + cut.casts_weights)
        return Computation(
            wide.forward + cast + weights,
            wide.inputs + gradients + weights,
            wide.weights + (0.0 if cut.keeps_casts else cast),
            launched + passes,
            2 * launched + passes,
        )

    def memory(self, nbytes: float, nbytes_back: float, kept: float = 0.0) -> Computation:
        """A kernel that moves so many bytes in the forward and in the backward."""
        return Computation(self.times.memory(nbytes), self.times.memory(nbytes_back), kept=kept)

    def separate(self, kernels: Separate, nbytes: float) -> Computation:
        """Kernels on a tensor of so many bytes that run one after the other."""
        number, number_back = kernels.kernels, kernels.kernels_back
        return Computation(
            number * self.times.memory(kernels.forward * nbytes / number),
            number_back * self.times.memory(kernels.backward * nbytes / number_back),
            kernels=number,
            kernels_back=number_back,
            kept=kernels.kept * nbytes,
        )

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

    def model(self, layers: Iterable[Layer], inputs: float, outputs: float, state: float) -> Model:
        """The model with these layers in the order in which they run.

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
        )
