"""Random plans on a mesh, where streams share no wire, and on nodes, where they share NICs."""

from collections.abc import Sequence
from functools import cache

from hypothesis import strategies as st

from simulator.parallel.blocks import Block, BlockPart
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.pipelines import find
from simulator.parallel.sharding import Sharding
from simulator.parallel.step_work import Work
from topologies.shapes import full_mesh, nodes

RINGS = {
    "all_reduce": ("ring",),
    "all_gather": ("ring_all_gather",),
    "reduce_scatter": ("ring_reduce_scatter",),
}


@cache
def times(degrees: Degrees, *, shared: bool = False) -> GroupTimes:
    """Times on a mesh, where each two ranks have a wire, or on nodes of two ranks with a NIC."""
    ranks = max(2, degrees.ranks)
    if shared:
        return GroupTimes(nodes(ranks, per_node=2, bandwidth=1e9, latency=1e-3), degrees, RINGS)
    return GroupTimes(full_mesh(ranks, bandwidth=1e9, latency=1e-3), degrees, RINGS)


SMALL = [(2, 2, 1), (1, 4, 1), (4, 1, 1), (1, 2, 2), (2, 2, 2), (8, 1, 1)]
LARGE = [(4, 4, 2), (8, 4, 1), (2, 16, 1), (4, 3, 1)]


@st.composite
def works(
    draw: st.DrawFn,
    cuts: Sequence[tuple[int, int, int]] = SMALL,
    devices: int = 2,
    *,
    shared: bool = False,
) -> Work:
    """Plans with one of some degrees of tp, dp and cp, on so many devices of a pipeline."""
    name = draw(st.sampled_from(("gpipe", "1f1b", "interleaved:chunks=2", "zb_h1", "dual_pipe")))
    tp, dp, cp = draw(st.sampled_from(cuts))
    degrees = Degrees(dp=dp, tp=tp, pp=devices, cp=cp)
    pipeline = find(name).build(devices=devices, micro_batches=2 * devices)
    seconds = st.integers(0, 4).map(float)

    def parts() -> tuple[BlockPart, ...]:
        size, beside = draw(st.integers(0, 4)) * 1e9, draw(st.booleans())
        return (
            BlockPart(draw(seconds), "tp", "all_gather", size, beside),
            BlockPart(draw(seconds), "cp", draw(st.sampled_from(("all_reduce", "shift"))), size),
        )

    output = draw(st.sampled_from((1e8, 1e9)))
    stages = []
    for _ in range(pipeline.stages):
        inputs, weights = parts(), (BlockPart(draw(seconds)),)
        block = Block(
            "layer", parts(), inputs, weights, inputs + weights, parameters=1.0, output=output
        )
        stages.append((block,) * draw(st.integers(1, 2)))
    sharding = Sharding(
        nbytes=1e9,
        parameter=1e9,
        zero=draw(st.integers(0, 1)),
        overlap=cp == 1 and draw(st.booleans()),
        bucket=1e9,
        optimizer=(1.0,) * len(stages),
        tied=draw(st.sampled_from((0.0, 1e9))),
    )
    return Work(tuple(stages), pipeline, times(degrees, shared=shared), sharding)
