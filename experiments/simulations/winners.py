"""Which algorithm wins at each number of ranks and size, by how much; and as a file of NCCL's
example tuner.

The format of that file is that of `plugins/tuner/example` of NVIDIA/nccl: a line has the
collective, the least and the most bytes, algorithm, protocol, channels, nodes, ranks, pipe
operations and whether buffers are registered. -1 is any, or the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from experiments import output
from experiments.output import Record
from experiments.profiles.interval_levels import RUNS
from experiments.simulations.candidates import nccl_name
from experiments.simulations.recommendation import Advice, Question
from experiments.templates import headed
from simulator.profile import Profile
from topologies.columns import distinct
from topologies.errors import InputError
from topologies.units import format_bytes

ADVICE = {
    **headed("size_B", "algorithm", "protocol", "channels"),
    "message": "segment_B",
    "time": "time_s",
    "of bound": "over_bound",
    "gain": "gain",
    **RUNS,
    "or": "rival",
}
"""The columns of a table of the best algorithms."""
EXPLAINED = {
    **headed("algorithm", "time_s"),
    **RUNS,
    "perhaps as fast": "rival",
    "of best": "over_best",
    **headed("steps", "protocol"),
    "where the time goes": "path",
}
"""The columns of a table of all algorithms at one size."""


@dataclass(frozen=True)
class Winner:
    """The best algorithm at a number of ranks and a size, and the second."""

    ranks: int
    advice: Advice
    name: str
    """The algorithm without its options."""
    second: str
    """The fastest algorithm of another name, empty if there is none."""
    second_time_s: float | None
    margin: float | None
    """How many times as long the second takes."""

    def record(self) -> Record:
        """The fields by name, as files show them."""
        second = {"second": self.second, "second_time_s": self.second_time_s}
        return {"ranks": self.ranks, **self.advice.record(), **second, "margin": self.margin}


def winner(question: Question, nbytes: float) -> Winner:
    """The best algorithm at one size, and the best of another name."""
    advice, best = question.advice(nbytes), question.best(nbytes).algorithm
    seconds, second = question.second(nbytes) or (None, None)
    return Winner(
        question.ranks,
        advice,
        best.listed_name,
        second.algorithm.name if second else "",
        seconds,
        seconds / advice.seconds if seconds is not None and advice.seconds > 0 else None,
    )


COLLECTIVES = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
"""The file's names of our collectives."""
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
