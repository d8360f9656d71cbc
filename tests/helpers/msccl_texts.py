"""Small MSCCL files, of the shapes that published ones have."""

from collections.abc import Sequence

from experiments.algorithm_files.msccl_program import REDUCES, Gpu, MscclProgram, ThreadBlock

Steps = Sequence[str]
NOP = 'type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0"'
NO_WAIT = (-1, -1)


def step(
    kind: str,
    source: str,
    target: str,
    count: int = 1,
    wait: tuple[int, int] = NO_WAIT,
    flag: int = 0,
) -> str:
    """A step whose ends are written as a buffer and an offset, like i0."""
    ends = f'srcbuf="{source[0]}" srcoff="{source[1:]}" dstbuf="{target[0]}" dstoff="{target[1:]}"'
    return f'type="{kind}" {ends} cnt="{count}" depid="{wait[0]}" deps="{wait[1]}" hasdep="{flag}"'


def nop(wait: tuple[int, int]) -> str:
    return f'{NOP} depid="{wait[0]}" deps="{wait[1]}" hasdep="0"'


def block(send: int, receive: int, *steps: str, channel: int = 0) -> str:
    """A thread block; {n} becomes its number."""
    lines = "".join(f'<step s="{number}" {text}/>\n' for number, text in enumerate(steps))
    return f'<tb id="{{n}}" send="{send}" recv="{receive}" chan="{channel}">\n{lines}</tb>\n'


def gpu(rank: int, chunks: tuple[int, int, int], *blocks: str) -> str:
    text = "".join(each.replace("{n}", str(number)) for number, each in enumerate(blocks))
    sizes = "".join(f' {buffer}_chunks="{n}"' for buffer, n in zip("ios", chunks, strict=True))
    return f'<gpu id="{rank}"{sizes}>\n{text}</gpu>\n'


def algo(collective: str, chunks: int, *gpus: str, in_place: int = 1, channels: int = 1) -> str:
    return (
        f'<algo name="small" proto="LL" nchannels="{channels}" nchunksperloop="{chunks}" '
        f'ngpus="{len(gpus)}" coll="{collective}" inplace="{in_place}">\n{"".join(gpus)}</algo>\n'
    )


def pairs(ranks: int = 3) -> str:
    """All-reduce: everyone sends all to everyone, waits by a chain of nops, and adds."""
    gpus = []
    for rank in range(ranks):
        peers = [peer for peer in range(ranks) if peer != rank]
        blocks = [
            block(peer, peer, step("s", "i0", "i0", flag=1), step("r", "s0", f"s{place}", flag=1))
            for place, peer in enumerate(peers)
        ]
        waits = [(place, 1) for place in range(ranks - 1)]
        adds = [*map(nop, waits[:-1]), step("re", "s0", "i0", wait=waits[-1])]
        adds += [step("re", f"s{place}", "i0") for place in range(1, ranks - 1)]
        gpus.append(gpu(rank, (1, 0, ranks - 1), *blocks, block(-1, -1, *adds)))
    return algo("allreduce", 1, *gpus)


def ring() -> str:
    """All-reduce of three ranks in one chunk a rank, with fused steps."""
    gpus = []
    for rank in range(3):
        first, second, third = (f"i{(rank - k) % 3}" for k in range(3))
        steps = [
            step("s", first, first),
            step("rrs", second, second),
            step("rrcs", third, third),
            step("rcs", first, first),
            step("r", second, second),
        ]
        gpus.append(gpu(rank, (3, 0, 0), block((rank + 1) % 3, (rank - 1) % 3, *steps)))
    return algo("allreduce", 3, *gpus)


def gather_out_of_place() -> str:
    """All-gather of four ranks round a ring, from one buffer into another."""
    gpus = []
    for rank in range(4):
        places = [f"o{(rank - k) % 4}" for k in range(4)]
        ring_steps = [
            step("s", "i0", places[0]),
            step("rcs", "i0", places[1]),
            step("rcs", "i0", places[2]),
            step("r", "i0", places[3]),
        ]
        ring_block = block((rank + 1) % 4, (rank - 1) % 4, *ring_steps)
        copied = block(-1, -1, step("cpy", "i0", places[0]))
        gpus.append(gpu(rank, (1, 4, 0), ring_block, copied))
    return algo("allgather", 4, *gpus, in_place=0)


def all_to_all_out_of_place(ranks: int = 3) -> str:
    gpus = []
    for rank in range(ranks):
        blocks = [
            block(peer, peer, step("s", f"i{peer}", f"o{rank}"), step("r", f"i{peer}", f"o{peer}"))
            for peer in range(ranks)
            if peer != rank
        ]
        copied = block(-1, -1, step("cpy", f"i{rank}", f"o{rank}"))
        gpus.append(gpu(rank, (ranks, ranks, 0), *blocks, copied))
    return algo("alltoall", ranks, *gpus, in_place=0)


def scattered() -> str:
    """Reduce-scatter of two ranks, out of place, with a result that is a sum of two buffers."""
    gpus = []
    for rank in range(2):
        steps = step("s", f"i{1 - rank}", "o0"), step("rrc", f"i{rank}", "o0")
        gpus.append(gpu(rank, (2, 1, 0), block(1 - rank, 1 - rank, *steps)))
    return algo("reduce_scatter", 2, *gpus, in_place=0)


def shifted() -> str:
    """A collective for which MSCCL has no word: every rank sends to the next."""
    gpus = [
        gpu(
            rank,
            (1, 1, 0),
            block((rank + 1) % 3, (rank - 1) % 3, step("s", "i0", "o0"), step("r", "i0", "o0")),
        )
        for rank in range(3)
    ]
    return algo("custom", 1, *gpus, in_place=0)


def exchange(*steps: str) -> str:
    """Two ranks with the same steps of one thread block that sends and receives."""
    gpus = (gpu(rank, (1, 0, 9), block(1 - rank, 1 - rank, *steps)) for rank in (0, 1))
    return algo("allreduce", 1, *gpus)


SHAPES = {
    "pairs": pairs(),
    "ring": ring(),
    "gather": gather_out_of_place(),
    "all to all": all_to_all_out_of_place(),
    "scattered": scattered(),
    "shifted": shifted(),
}


def canonical(program: MscclProgram) -> tuple[object, ...]:
    """The same for all files that say the same: without names, sizes, lines, nops, and the numbers
    of thread blocks and steps.

    Thread blocks are numbered by channel, peers and steps.
    """
    gpus = tuple(_canonical(gpu) for gpu in program.gpus)
    return program.collective, program.chunks, program.in_place, gpus


def _canonical(gpu: Gpu) -> tuple[object, ...]:
    order = sorted(range(len(gpu.blocks)), key=lambda number: _key(gpu.blocks[number]))
    rank = {number: place for place, number in enumerate(order)}
    places = [
        {step.number: place for place, step in enumerate(block.steps)} for block in gpu.blocks
    ]
    blocks = tuple(
        (
            gpu.blocks[number].send,
            gpu.blocks[number].receive,
            gpu.blocks[number].channel,
            tuple(
                (
                    step.kind,
                    step.source if step.kind in ("s", "cpy", *REDUCES) else None,
                    None if step.kind in ("s", "rrs") else step.target,
                    step.count,
                    tuple(
                        sorted((rank[other], places[other][waited]) for other, waited in step.waits)
                    ),
                    step.flag,
                )
                for step in gpu.blocks[number].steps
            ),
        )
        for number in order
    )
    return gpu.inputs, gpu.outputs, gpu.scratch, blocks


def _key(block: ThreadBlock) -> tuple[object, ...]:
    steps = tuple((step.kind, step.source, step.target, step.count) for step in block.steps)
    return block.channel, block.send, block.receive, steps
