"""The fastest of NCCL's algorithms as lines of a tuner file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments import output
from experiments.simulations.candidates import nccl_name
from experiments.simulations.recommendation import Question
from experiments.simulations.tuner_file import COLLECTIVES, LAST, Line, ranges, written
from simulator.profile import Profile
from topologies.columns import distinct
from topologies.errors import InputError
from topologies.units import format_bytes

FROM_LINKS = (
    "made from links alone, without launch and protocol: do not use it unmeasured (--library nccl "
    "or --profile adds them)"
)


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
            starts.append(_between(previous, size) if choices else size)
            choices.append(chosen)
        previous = size
    return [
        Line(COLLECTIVES[question.collective], *span, *chosen, nodes=nodes, ranks=question.ranks)
        for span, chosen in zip(ranges(starts), choices, strict=True)
    ]


def _between(low: float, high: float) -> float:
    return float(round((low * high) ** 0.5))
