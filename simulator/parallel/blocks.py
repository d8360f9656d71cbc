"""What a rank does for a micro-batch: the blocks of a model, cut by tensor, context and expert
parallelism; units of blocks whose parameters are gathered together, and the elements that ranks
share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

Result = TypeVar("Result")


class BlockPart(NamedTuple):
    """A computation and a collective. The next part begins when both have ended."""

    seconds: float = 0.0
    group: str = ""
    """The kind of group that communicates: "tp", "cp", "ep" or "etp". Empty: none does."""
    collective: str = ""
    """The collective: all_reduce, all_gather, reduce_scatter, all_to_all or shift.

    In a shift each rank sends all bytes to the next rank of its group."""
    nbytes: float = 0.0
    """V of the collective; for a shift, the bytes that a rank sends."""
    overlaps: bool = False
    """Whether the collective runs beside the computation. Otherwise it comes after it."""
    launch: float = 0.0
    """What the CPU takes to launch the part. It launches one part after the other and runs ahead
    of the device; a part begins when it has been launched."""
    waits: bool = False
    """Whether the CPU launches the part when all parts before have ended, as it reads what they
    give. Then it is not ahead: the parts of the block run while the CPU launches their kernels."""
    hidden: bool = False
    """Whether the collective runs beside computations of another micro-batch, so that what follows
    in the pass does not wait for it."""
    kind: int = -1
    """The kind of the computation, a place in `KINDS`; -1: that of the pass."""


@dataclass(frozen=True)
class Block:
    """A layer, as each rank of a stage runs it for one micro-batch. All bytes and elements are
    those of one rank."""

    name: str
    """The kind of layer: embedding, layer, experts or head."""
    forward: tuple[BlockPart, ...]
    inputs: tuple[BlockPart, ...]
    """The backward for inputs, when it runs apart from that for weights."""
    weights: tuple[BlockPart, ...]
    """The backward for weights, when it runs apart from that for inputs."""
    backward: tuple[BlockPart, ...]
    """The whole backward. Its computations take as long as those of `inputs` and `weights`."""
    again: tuple[BlockPart, ...] = ()
    parameters: float = 0.0
    """Elements of parameters that all ranks of the data-parallel group hold."""
    expert_parameters: float = 0.0
    """Elements of parameters of this rank's experts."""
    frozen: float = 0.0
    """Further elements of parameters of the data-parallel group, which are not trained: they have
    no gradient and no optimizer."""
    frozen_experts: float = 0.0
    """Further elements of this rank's experts that are not trained."""
    tensors: tuple[float, ...] = ()
    """Elements of each parameter, in the order in which their gradients arrive, for the buckets of
    DDP. Empty: all parameters are one tensor."""
    kept: float = 0.0
    """Bytes that are kept from the forward to the backward for inputs."""
    kept_for_weights: float = 0.0
    """Bytes that are kept from the backward for inputs to that for weights."""
    working: float = 0.0
    """Bytes that the backward adds to what is kept: what is computed again, and gradients."""
    output: float = 0.0
    """Bytes that a rank sends to the next stage."""


def each_stage(
    function: Callable[[Sequence[Block]], Result], stages: Iterable[Sequence[Block]]
) -> list[Result]:
    """What a function makes of each stage. It is called once for stages of the same blocks."""
    made = dict[tuple[int, ...], Result]()
    results = []
    for stage in stages:
        key = tuple(map(id, stage))
        if key not in made:
            made[key] = function(stage)
        results.append(made[key])
    return results


class Unit(NamedTuple):
    """A unit: blocks whose parameters are gathered together."""

    blocks: tuple[int, ...]
    """Their places in the stage."""
    elements: Mapping[str, float]
    """Elements of parameters by the group that shares them: "data", and "experts" if there are."""
    root: bool
    """Whether this is the root's unit: it stays gathered behind the forward."""
    trainable: Mapping[str, float]
    """Those of the elements that have gradients."""

    @property
    def parameters(self) -> float:
        """Elements of all groups."""
        return sum(self.elements.values())

    @property
    def gradients(self) -> float:
        """Elements of all groups that have gradients."""
        return sum(self.trainable.values())


def units(stage: Sequence[Block], names: Sequence[str]) -> list[Unit]:
    """The units of a stage in the order of the forward. The first one is the root's, which has the
    blocks with `names`."""
    root = [place for place, block in enumerate(stage) if block.name in names]
    single = [(place,) for place in range(len(stage)) if place not in root]
    made, known = list[Unit](), dict[tuple[int, ...], Unit]()
    for places in (tuple(root), *single):
        blocks = [stage[place] for place in places]
        key = tuple(map(id, blocks))
        if key not in known:
            every = elements(blocks, frozen=True)
            known[key] = Unit(places, every, places == tuple(root), elements(blocks))
        if known[key].elements:
            made.append(known[key]._replace(blocks=places))
    return made


def elements(blocks: Sequence[Block], *, frozen: bool = False) -> dict[str, float]:
    """Elements of trained parameters, and of `frozen` ones if asked, by the group that shares them:
    "data", and "experts" if there are."""
    # Most blocks of a stage are one object.
    numbers, counts = Counter(map(id, blocks)), {"data": 0.0, "experts": 0.0}
    for each, block in {id(block): block for block in blocks}.items():
        counts["data"] += numbers[each] * (block.parameters + frozen * block.frozen)
        experts = block.expert_parameters + frozen * block.frozen_experts
        counts["experts"] += numbers[each] * experts
    return {group: count for group, count in counts.items() if count}
