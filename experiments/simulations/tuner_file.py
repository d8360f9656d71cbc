"""Files of NCCL's example tuner: which algorithm and protocol to take, by collective and size.

The format is that of `plugins/tuner/example` of NVIDIA/nccl: a line has the collective, the least
and the most bytes, algorithm, protocol, channels, nodes, ranks, pipe operations and whether buffers
are registered. The last two may be missing. -1 is any, or the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments import output
from experiments.simulations.candidates import nccl_name
from experiments.simulations.recommendation import Question
from simulator.profile import Profile
from topologies.columns import distinct
from topologies.errors import InputError
from topologies.readers.contents import text_of
from topologies.units import format_bytes

COLLECTIVES = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
"""The file's names of our collectives."""
ALGORITHMS = "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"
PROTOCOLS = "ll", "ll128", "simple"
LAST = 2**32 - 1
"""The most bytes that a line can name."""
ANY = -1
FROM_LINKS = (
    "made from links alone, without launch and protocol: do not use it unmeasured (--library nccl "
    "or --profile adds them)"
)


class Line(NamedTuple):
    """A choice for a range of sizes."""

    collective: str
    """The file's name of the collective."""
    least: int
    most: int
    algorithm: str
    protocol: str
    channels: int = ANY
    nodes: int = ANY
    ranks: int = ANY
    pipe_operations: int = ANY
    registered: int = ANY


def written(lines: Iterable[Line], comments: Sequence[str] = ()) -> str:
    """The file.

    >>> print(written([Line("allreduce", 0, 65536, "tree", "ll", ANY, 2, 16)]), end="")
    allreduce,0,65536,tree,ll,-1,2,16,-1,-1
    """
    rows = [f"# {comment}" for comment in comments]
    rows += [",".join(map(str, line)) for line in lines]
    return "\n".join(rows) + "\n"


def ranges(starts: Sequence[float]) -> list[tuple[int, int]]:
    """The ranges of bytes that begin at each size, the first at 0, up to the last that a line can
    name. A range that begins beyond that is left out.

    >>> ranges([1024.0, 65536.0])
    [(0, 65535), (65536, 4294967295)]
    """
    begins = [0, *(round(start) for start in starts[1:])]
    ends = [*(begin - 1 for begin in begins[1:]), LAST]
    return [
        (begin, min(end, LAST)) for begin, end in zip(begins, ends, strict=True) if begin <= LAST
    ]


def read_tuner(path: Path) -> list[Line]:
    """The lines of a file. Raises InputError with the number of the first line that is wrong."""
    text = text_of(path, 2**22, "a tuner file of NCCL", "no tuner file")
    return [
        _line(row, f"{path} line {number}")
        for number, row in enumerate(text.splitlines(), 1)
        if row.strip() and not row.lstrip().startswith("#")
    ]


def _line(row: str, where: str) -> Line:
    cells = [cell.strip() for cell in row.split(",")]
    if len(cells) not in (8, 9, 10):
        raise InputError(f"{where}: {len(cells)} fields, expected 8, 9 or 10")
    for name, cell, known in (
        ("collective", cells[0], tuple(COLLECTIVES.values())),
        ("algorithm", cells[3], ALGORITHMS),
        ("protocol", cells[4], PROTOCOLS),
    ):
        if cell not in known:
            raise InputError(f"{where}: {name} {cell[:40]!r}, expected one of {', '.join(known)}")
    least, most = (_whole(cell, 0, where) for cell in cells[1:3])
    if least > most:
        raise InputError(f"{where}: {least} to {most} bytes, the first is greater")
    return Line(
        cells[0], least, most, cells[3], cells[4], *(_whole(cell, ANY, where) for cell in cells[5:])
    )


def _whole(cell: str, least: int, where: str) -> int:
    try:
        value = int(cell)
    except ValueError:
        raise InputError(f"{where}: {cell[:40]!r} is no whole number") from None
    if not least <= value <= LAST:
        raise InputError(f"{where}: {value}, expected {least} to {LAST}")
    return value


def check_tuner(collective: str, least: float) -> None:
    """Raise InputError if a tuner file has no such collective or size."""
    if collective not in COLLECTIVES:
        raise InputError(
            f"--nccl-tuner: NCCL's tuner has no {collective}, only {', '.join(COLLECTIVES)}"
        )
    if least > LAST:
        raise InputError(
            f"--nccl-tuner: its sizes end at {format_bytes(LAST)}, and the least size is "
            f"{format_bytes(least)}"
        )


def write_tuner(path: Path, lines: Sequence[Line], title: str, profile: Profile | None) -> None:
    """Write the file. A comment and a note say what its times leave out."""
    comments = [f"simctl recommend: {title}", "set NCCL_TUNER_CONFIG_FILE"]
    if profile is None:
        comments.insert(0, FROM_LINKS)
        output.note(f"--nccl-tuner {path}: {FROM_LINKS}")
    output.write(path, written(lines, comments))


def tuner_lines(question: Question, sizes: Sequence[float]) -> list[Line]:
    """The fastest algorithm that NCCL can run, by ranges of sizes with the same choice."""
    topology = question.machine(question.ranks, 0)
    nodes = len(distinct(topology.node[topology.placement[: question.ranks]]))
    previous, starts = 0.0, list[float]()
    choices: list[tuple[str, str]] = []
    for size in [size for size in sizes if size <= LAST]:
        best = question.best(size)
        chosen = nccl_name(best.algorithm), (question.protocol(best, size) or "Simple").lower()
        if not choices or chosen != choices[-1]:
            # A choice holds from the geometric mean of its first size and the size before.
            starts.append(float(round((previous * size) ** 0.5)) if choices else size)
            choices.append(chosen)
        previous = size
    return [
        Line(COLLECTIVES[question.collective], *span, *chosen, nodes=nodes, ranks=question.ranks)
        for span, chosen in zip(ranges(starts), choices, strict=True)
    ]
