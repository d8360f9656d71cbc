"""Passes through a layer: its operations in the order of the forward, and the parts that they make
with the collectives between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from simulator.parallel.blocks import Part

Which = Literal["all", "inputs"]
GATHER = "all_gather"


class Operation(NamedTuple):
    """An operation on a rank, with its seconds."""

    forward: float = 0.0
    inputs: float = 0.0
    """The backward for inputs."""
    weights: float = 0.0
    """The backward for weights."""
    kernels: int = 1
    """Kernels of the forward."""
    kernels_back: int = 1
    """Kernels of the backward."""


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

    @property
    def returned(self) -> Gate:
        """The gate with the collective of the backward in the forward."""
        return self._replace(forward=self.back)


class Ring(NamedTuple):
    """An operation in as many steps as the ring of a group has ranks. During each step but the last
    one a rank sends bytes to the next rank."""

    group: str
    operation: Operation
    steps: int
    nbytes: float
    """Bytes that a rank sends in a step of the forward. Those of the backward are twice as many:
    gradients travel too."""


Event = Operation | Gate | Ring


def forward(events: Sequence[Event], launch: float) -> tuple[Part, ...]:
    """The parts of a forward. The launch of a kernel takes `launch` seconds."""
    parts, seconds, kernels = list[Part](), 0.0, 0
    latest, gathers = 0.0, list[Gate]()
    for event in events:
        if isinstance(event, Ring):
            parts += _closed(seconds, kernels, launch)
            parts += _ring(event, event.operation.forward, event.operation.kernels, 1, launch)
            seconds, kernels = 0.0, 0
        elif isinstance(event, Operation) and gathers:
            parts.append(_beside(event.forward, gathers.pop(), event.kernels, launch))
            latest = 0.0
        elif isinstance(event, Operation):
            seconds, kernels, latest = (
                seconds + event.forward,
                kernels + event.kernels,
                event.forward,
            )
        elif event.forward and event.in_pieces:
            if event.forward == GATHER:
                gathers.append(event)
                parts += _closed(seconds, kernels, launch)
            else:
                parts += _closed(seconds - latest, kernels, launch)
                parts.append(_beside(latest, event, 0, launch))
            seconds, kernels = 0.0, 0
        elif event.forward:
            parts.append(_part(seconds, kernels, launch, event.group, event.forward, event.nbytes))
            seconds, kernels = 0.0, 0
    return (*parts, *_closed(seconds, kernels, launch))


def backward(
    events: Sequence[Event], launch: float, *, which: Which = "all", overlap: bool = False
) -> tuple[Part, ...]:
    """The parts of a backward: of all, or of that for inputs. Where they may, collectives
    of tensor parallel run beside the backward for weights of the operation before them."""
    parts, seconds, kernels, latest = list[Part](), 0.0, 0, Operation(kernels=0, kernels_back=0)
    both, gathers = which == "all", list[Gate]()
    for event in reversed(events):
        if isinstance(event, Ring):
            operation = event.operation
            parts += _closed(seconds, kernels, launch)
            parts += _ring(event, operation.inputs, operation.kernels_back, 2, launch)
            seconds, kernels = 0.0, 0
        elif isinstance(event, Operation) and gathers:
            parts.append(_beside(event.inputs, gathers.pop().returned, 1, launch))
            seconds, kernels, latest = both * event.weights, both * 1, event
        elif isinstance(event, Operation):
            seconds += event.inputs + both * event.weights
            kernels += event.kernels_back if both or not event.weights else 1
            latest = event
        elif event.in_pieces and event.back == GATHER:
            parts += _closed(seconds, kernels, launch)
            gathers.append(event)
            seconds, kernels = 0.0, 0
        else:
            waiting = latest.weights if both and overlap and event.group == "tp" else 0.0
            if not event.kept and both:
                # What was gathered in the forward is gathered again beside the backward for
                # inputs, the last that was added.
                seconds -= latest.inputs + waiting
                parts += _closed(seconds, max(kernels - 2, 0), launch)
                again = Part(latest.inputs, event.group, event.forward, event.nbytes, overlaps=True)
                parts.append(again._replace(launch=2 * launch))
                seconds, kernels = 0.0, 0
            elif event.back:
                seconds -= waiting
            if event.back and waiting:
                parts += _closed(seconds, kernels, launch)
                part = Part(waiting, event.group, event.back, event.nbytes, overlaps=True)
                parts.append(part._replace(launch=launch))
                seconds, kernels = 0.0, 0
            elif event.back:
                part = _part(seconds, kernels, launch, event.group, event.back, event.nbytes)
                parts.append(part)
                seconds, kernels = 0.0, 0
    return (*parts, *_closed(seconds, kernels, launch))


def weights(events: Sequence[Event], launch: float) -> tuple[Part, ...]:
    """The backward for weights, when it runs apart. What the forward did not keep is gathered
    again."""
    operations = [event.operation if isinstance(event, Ring) else event for event in events]
    mine = [each for each in operations if isinstance(each, Operation) and each.weights]
    gathers = [event for event in events if isinstance(event, Gate) and not event.kept]
    seconds = sum(each.weights for each in mine) / max(1, len(gathers))
    kernels = -(-len(mine) // max(1, len(gathers)))
    if not gathers:
        return _closed(seconds, kernels, launch)
    return tuple(
        Part(seconds, gate.group, gate.forward, gate.nbytes, True, (kernels + 1) * launch)
        for gate in gathers
    )


def _beside(seconds: float, gate: Gate, kernels: int, launch: float) -> Part:
    """A product beside the collective of a gate in the forward."""
    launches = (kernels + 1) * launch
    return Part(seconds, gate.group, gate.forward, gate.nbytes, overlaps=True, launch=launches)


def _part(
    seconds: float, kernels: int, launch: float, group: str, collective: str, nbytes: float
) -> Part:
    return Part(seconds, group, collective, nbytes, launch=(kernels + 1) * launch)


def _closed(seconds: float, kernels: int, launch: float) -> tuple[Part, ...]:
    return (Part(max(seconds, 0.0), launch=kernels * launch),) if seconds > 0 else ()


def _ring(ring: Ring, seconds: float, kernels: int, times: int, launch: float) -> list[Part]:
    step = Part(seconds / ring.steps, launch=(kernels + 1) * launch)
    shift = step._replace(
        group=ring.group, collective="shift", nbytes=times * ring.nbytes, overlaps=True
    )
    return [shift] * (ring.steps - 1) + [step]
