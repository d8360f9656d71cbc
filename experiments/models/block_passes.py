"""Passes through a layer: its operations in the order of the forward, and the parts that they make
with the collectives between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from simulator.parallel.blocks import BlockPart


class Computation(NamedTuple):
    """An operation on a rank, with its seconds in each pass."""

    forward: float = 0.0
    inputs: float = 0.0
    """The backward for inputs."""
    weights: float = 0.0
    """The backward for weights."""
    kernels: int = 1
    """Kernels of the forward."""
    kernels_back: int = 1
    """Kernels of the backward."""
    kept: float = 0.0
    """Bytes that are kept from the forward to the backward for inputs."""
    later: float = 0.0
    """Bytes that are kept from the backward for inputs to that for weights."""


class Gate(NamedTuple):
    """A place where ranks of a group exchange tensors: V bytes of a collective in the forward, of
    another in the backward."""

    group: str
    forward: str
    """The collective of the forward. Empty: there is none."""
    back: str
    """The collective of the backward. Empty: there is none."""
    nbytes: float
    in_pieces: bool = False
    """Whether the collective runs in pieces beside the product next to it: behind a gather, or in
    front of a reduction."""
    kept: bool = True
    """Whether what the forward gathers is kept. Otherwise the backward gathers it again, beside the
    backward for inputs of the operation after it."""


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

    def close(self, gate: Gate | None = None, collective: str = "") -> None:
        """End a part, with a collective at its end if there is a gate."""
        if gate:
            launch = (self.kernels + 1) * self.launch
            part = BlockPart(self.seconds, gate.group, collective, gate.nbytes, launch=launch)
            self.parts.append(part)
        elif self.seconds > 0:
            self.parts.append(BlockPart(self.seconds, launch=self.kernels * self.launch))
        self.seconds, self.kernels = 0.0, 0

    def overlap(self, seconds: float, launches: int, gate: Gate, collective: str) -> None:
        """Add a part whose collective runs beside its computation."""
        self.close()
        launch = launches * self.launch
        self.parts.append(BlockPart(seconds, gate.group, collective, gate.nbytes, True, launch))

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
            parts.close(event, event.forward)
    parts.close()
    return tuple(parts.parts)


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
    parts.close()
    return tuple(parts.parts)


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
        parts.close()
    return tuple(parts.parts)
