"""Write a program as MSCCL's XML."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import quoteattr

from experiments.algorithm_files.msccl.msccl_program import MscclProgram, ThreadBlock


def write_program(program: MscclProgram) -> str:
    """The XML of a program, which :func:`experiments.algorithm_files.msccl.reader.read_program`
    reads back as an equal one."""
    return "\n".join([*_lines(program), ""])


def _lines(program: MscclProgram) -> Iterator[str]:
    yield (
        f"<algo name={quoteattr(program.name)} "
        + _attributes(
            proto=program.protocol,
            nchannels=program.channels,
            nchunksperloop=program.chunks,
            ngpus=len(program.gpus),
            coll=program.collective,
            inplace=int(program.in_place),
            outofplace=int(not program.in_place),
            minBytes=program.least,
            maxBytes=program.most,
        )
        + ">"
    )
    for rank, gpu in enumerate(program.gpus):
        sizes = _attributes(
            id=rank, i_chunks=gpu.inputs, o_chunks=gpu.outputs, s_chunks=gpu.scratch
        )
        yield f"  <gpu {sizes}>"
        for number, block in enumerate(gpu.blocks):
            ends = _attributes(id=number, send=block.send, recv=block.receive, chan=block.channel)
            yield f"    <tb {ends}>"
            yield from _steps(block)
            yield "    </tb>"
        yield "  </gpu>"
    yield "</algo>"


def _steps(block: ThreadBlock) -> Iterator[str]:
    for step in block.steps:
        first = step.number - max(0, len(step.waits) - 1)
        waits = [*step.waits] or [(-1, -1)]
        for place, (waited, number) in enumerate(waits):
            if place + 1 < len(waits):
                what = _attributes(type="nop", srcbuf="i", srcoff=-1, dstbuf="o", dstoff=-1, cnt=0)
                flag = 0
            else:
                what = _attributes(
                    type=step.kind,
                    srcbuf=step.source.buffer,
                    srcoff=step.source.offset,
                    dstbuf=step.target.buffer,
                    dstoff=step.target.offset,
                    cnt=step.count,
                )
                flag = int(step.flag)
            wait = _attributes(depid=waited, deps=number, hasdep=flag)
            yield f'      <step s="{first + place}" {what} {wait}/>'


def _attributes(**values: str | int) -> str:
    return " ".join(f'{name}="{value}"' for name, value in values.items())
