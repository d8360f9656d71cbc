"""MSCCL's XML: thread blocks of GPUs and their steps. Every mistake is one line with the place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from topologies.errors import InputError
from topologies.readers.xml_elements import Element, parse

RECEIVES = ("r", "rcs", "rrs", "rrc", "rrcs")
"""Steps that receive."""
SENDS = ("s", "rcs", "rrs", "rrcs")
"""Steps that send."""
REDUCES = ("rrs", "rrc", "rrcs", "re")
"""Steps that add."""
KINDS = ("s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop")
"""The types of a step."""
MOST_STEPS = 256
"""Steps of a thread block."""
MOST_COUNT = 71
"""Chunks of a step."""
MOST_BLOCKS = 216
"""Thread blocks of a GPU."""
MOST_CHANNELS = 32
"""Channels of a program."""
BLOCKS_OF_CHANNEL = 32
"""Thread blocks of a channel that send, or that receive."""


class Chunks(NamedTuple):
    """The first of some chunks in a buffer."""

    buffer: str
    """i, o or s: input, output or scratch."""
    offset: int


@dataclass(frozen=True)
class BlockStep:
    """A step of a thread block; nops are parts of the step after them."""

    kind: str
    source: Chunks
    target: Chunks
    count: int
    waits: tuple[tuple[int, int], ...] = ()
    """The steps that it waits for: thread blocks of its GPU, and numbers of steps."""
    flag: bool = False
    """Whether it raises a flag for others."""
    number: int = 0
    """Its number in the file, nops included."""
    line: int = 0
    """Its line in the file."""


@dataclass(frozen=True)
class ThreadBlock:
    """A thread block: its steps run in order."""

    send: int
    """The peer to which it sends; -1 for none."""
    receive: int
    """The peer from which it receives; -1 for none."""
    channel: int
    steps: tuple[BlockStep, ...]


@dataclass(frozen=True)
class Gpu:
    """The program of a GPU."""

    inputs: int
    """Chunks of its input."""
    outputs: int
    """Chunks of its output."""
    scratch: int
    """Chunks of its scratch."""
    blocks: tuple[ThreadBlock, ...]


@dataclass(frozen=True)
class MscclProgram:
    """An MSCCL file."""

    name: str
    collective: str
    """As MSCCL spells it, like allreduce."""
    protocol: str
    chunks: int
    """The chunks of V."""
    channels: int
    in_place: bool
    gpus: tuple[Gpu, ...]
    least: int = 0
    most: int = 0
    """The bytes for which it is made."""

    @property
    def steps(self) -> int:
        """The steps of all GPUs."""
        return sum(len(block.steps) for gpu in self.gpus for block in gpu.blocks)


MOST_CHUNKS = 2**16
COLLECTIVES = (
    "allreduce",
    "allgather",
    "reduce",
    "broadcast",
    "alltoall",
    "reduce_scatter",
    "custom",
)
LARGEST = 10**12 - 1
_BUFFERS = ("i", "o", "s")


def read_program(text: str, file: str) -> MscclProgram:
    """The program in the XML file `file`. Raises InputError with line and reason if it is none."""
    root = parse(text, file, 300_000)
    if root.tag != "algo":
        raise InputError(
            f"{file} line {root.line}: <{root.tag}> is no MSCCL program: it begins with <algo>"
        )
    ranks = root.whole("ngpus", 1, 1024)
    chunks = root.whole("nchunksperloop", 1, MOST_CHUNKS)
    channels = root.whole("nchannels", 1, MOST_CHANNELS)
    least = root.whole("minBytes", 0, LARGEST, 0)
    most = root.whole("maxBytes", 0, LARGEST, 2**27)
    if most and least > most:
        raise root.mistake("minBytes", f"it is at most maxBytes, {most}")
    if root.whole("nthreads", 0, 2**16, 0) % 32:
        raise root.mistake("nthreads", "it is a multiple of 32")
    program = MscclProgram(
        root.text("name"),
        _word(root, "coll", COLLECTIVES),
        _word(root, "proto", ("Simple", "LL", "LL128")),
        chunks,
        channels,
        bool(root.whole("inplace", 0, 1)),
        tuple(_gpu(element, ranks, channels) for element in _numbered(root, "gpu", "id", ranks)),
        least,
        most,
    )
    for gpu, element in zip(program.gpus, _numbered(root, "gpu", "id", ranks), strict=True):
        _check_chunks(program, gpu, element)
    return program


def _word(element: Element, attribute: str, words: Sequence[str]) -> str:
    value = element.text(attribute)
    if value not in words:
        raise element.mistake(attribute, f"it is one of {', '.join(words)}")
    return value


def _numbered(parent: Element, tag: str, attribute: str, number: int | None) -> list[Element]:
    """The children with a tag, by their numbers: all from 0 on, once each."""
    children = parent.within(tag)
    strange = [child for child in parent.children if child.tag != tag]
    if strange:
        raise InputError(
            f"{parent.file} line {strange[0].line}: <{strange[0].tag}> in <{parent.tag}>: it has "
            f"<{tag}> alone"
        )
    expected = len(children) if number is None else number
    by_number: dict[int, Element] = {}
    for child in children:
        place = child.whole(attribute, 0, max(expected, 1) - 1)
        if place in by_number:
            raise child.mistake(attribute, f"line {by_number[place].line} has it already")
        by_number[place] = child
    if len(by_number) < expected:
        missing = next(place for place in range(expected) if place not in by_number)
        raise InputError(
            f"{parent.file} line {parent.line}: <{parent.tag}> has no {tag} {missing}: all from 0 "
            f"to {expected - 1} are needed"
        )
    return [by_number[place] for place in range(expected)]


def _gpu(element: Element, ranks: int, channels: int) -> Gpu:
    inputs, outputs, scratch = (
        element.whole(f"{buffer}_chunks", -1, MOST_CHUNKS) for buffer in _BUFFERS
    )
    sizes = dict(zip(_BUFFERS, (inputs, outputs, scratch), strict=True))
    elements = _numbered(element, "tb", "id", None)
    if len(elements) > MOST_BLOCKS:
        raise InputError(
            f"{element.file} line {element.line}: {len(elements)} thread blocks: a GPU has at most "
            f"{MOST_BLOCKS}"
        )
    rank = element.whole("id", 0, ranks - 1)
    blocks = tuple(_block(each, rank, ranks, channels, sizes) for each in elements)
    _check_flags(blocks, elements)
    return Gpu(max(inputs, 0), max(outputs, 0), max(scratch, 0), blocks)


def _block(
    element: Element, rank: int, ranks: int, channels: int, sizes: dict[str, int]
) -> ThreadBlock:
    peers = {name: element.whole(name, -1, ranks - 1) for name in ("send", "recv")}
    for name, peer in peers.items():
        if peer == rank:
            raise element.mistake(name, "a GPU has no channel to itself")
    channel = element.whole("chan", 0, channels - 1)
    steps: list[BlockStep] = []
    waits: list[tuple[int, int]] = []
    for number, each in enumerate(_numbered(element, "step", "s", None)):
        if number >= MOST_STEPS:
            raise each.mistake("s", f"a thread block has at most {MOST_STEPS} steps")
        kind = _kind(each)
        if (block := each.whole("depid", -1, MOST_BLOCKS - 1)) >= 0:
            waits.append((block, each.whole("deps", 0, MOST_STEPS - 1)))
        elif waits and kind not in ("nop", "re"):
            raise each.mistake("depid", "after nops that wait, it names the last step to wait for")
        if kind == "nop":
            continue
        for name, uses in (("send", SENDS), ("recv", RECEIVES)):
            if kind in uses and peers[name] < 0:
                raise each.mistake("type", f"its thread block has no {name} peer")
        steps.append(_step(each, kind, number, tuple(waits), sizes))
        waits = []
    return ThreadBlock(peers["send"], peers["recv"], channel, tuple(steps))


def _kind(element: Element) -> str:
    kind = element.text("type")
    if kind == "ra":
        raise element.mistake("type", "a residual is data that no collective has: simctl reads re")
    return _word(element, "type", KINDS)


def _step(
    element: Element,
    kind: str,
    number: int,
    waits: tuple[tuple[int, int], ...],
    sizes: dict[str, int],
) -> BlockStep:
    count = element.whole("cnt", 1, MOST_COUNT)
    ends = []
    for name, uses in (
        ("src", ("s", "cpy", *REDUCES)),
        ("dst", ("r", "rcs", "rrc", "rrcs", "cpy", "re")),
    ):
        buffer = _word(element, f"{name}buf", _BUFFERS)
        offset = element.whole(f"{name}off", -1, MOST_CHUNKS)
        if kind in uses and not 0 <= offset <= sizes[buffer] - count:
            raise element.mistake(
                f"{name}off", f"the buffer {buffer} has {max(sizes[buffer], 0)} chunks"
            )
        ends.append(Chunks(buffer, offset))
    flag = bool(element.whole("hasdep", 0, 1))
    return BlockStep(kind, ends[0], ends[1], count, waits, flag, number, element.line)


def _check_flags(blocks: Sequence[ThreadBlock], elements: Sequence[Element]) -> None:
    """A step that is waited for is there, and raises a flag, or a later step of its block does."""
    last = [max((s.number for s in block.steps if s.flag), default=-1) for block in blocks]
    for block, element in zip(blocks, elements, strict=True):
        for step in block.steps:
            for other, waited in step.waits:
                reason = ""
                if other >= len(blocks):
                    reason = f"there are thread blocks 0 to {len(blocks) - 1}"
                elif waited > last[other]:
                    reason = "neither that step nor a later step of its block has hasdep=1"
                if reason:
                    raise InputError(
                        f"{element.file} line {step.line}: it waits for step {waited} of thread "
                        f"block {other}: {reason}"
                    )


def _check_chunks(program: MscclProgram, gpu: Gpu, element: Element) -> None:
    """Buffers have as many chunks as the collective needs, unless they are not used."""
    ranks, expected = len(program.gpus), {"i": program.chunks, "o": program.chunks}
    divided = {"allgather": "i", "reduce_scatter": "o"}.get(program.collective, "")
    if (divided or program.collective == "alltoall") and program.chunks % ranks:
        raise InputError(
            f"{element.file}: nchunksperloop is {program.chunks}: {program.collective} needs a "
            f"multiple of {ranks} ranks"
        )
    if divided:
        expected[divided] = program.chunks // ranks
    for buffer, chunks in (("i", gpu.inputs), ("o", gpu.outputs)):
        if program.collective != "custom" and chunks > 0 and chunks != expected[buffer]:
            raise element.mistake(
                f"{buffer}_chunks", f"{program.collective} has {expected[buffer]} of them"
            )


def write_program(program: MscclProgram) -> str:
    """The XML of a program, which :func:`experiments.algorithm_files.msccl_program.read_program`
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
