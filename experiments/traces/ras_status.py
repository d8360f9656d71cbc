"""Reads what NCCL's RAS says of a job's communicators as JSON (`ncclras -f json`), as
client_support.cc writes it. It has no times: only which ranks answer, their states and how many
calls they made. Ranks are those of the communicator, not of the job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BaseModel, Field

from experiments.models.kineto import contents
from experiments.output import counted
from experiments.traces.job_folder import job_files
from experiments.traces.job_tables import Problem, first_problems, listed_ranks
from topologies.errors import InputError, spelling
from topologies.readers.contents import decoded
from topologies.readers.mistakes import Mistakes
from topologies.readers.plain_files import load_json

ERRORS = {
    1: "an unhandled CUDA error",
    2: "a system error",
    3: "an internal error",
    4: "an invalid argument",
    5: "an invalid usage",
    6: "an error of a remote process",
    8: "a timeout",
}
"""NCCL's results (ncclResult_t) that are errors. 0 is success, 7 is in progress."""
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Name = Annotated[str, Field(pattern="^[0-9A-Za-z]{1,40}$")]


class CommunicatorRow(NamedTuple):
    """A communicator."""

    communicator: str
    """Its hash."""
    ranks: int
    answered: int
    """The ranks that answer RAS."""
    state: str
    calls: str
    """The calls of each collective, from the rank with fewest to the one with most."""


class _State(BaseModel, strict=True):
    init_state: _Count
    async_error: _Count
    finalize_called: bool
    destroy_flag: bool
    abort_flag: bool

    @property
    def word(self) -> str:
        if self.abort_flag:
            return "aborted"
        ends = self.finalize_called or self.destroy_flag
        return "ending" if ends else "starting" if self.init_state else "running"


class _Rank(BaseModel, strict=True):
    rank: _Count
    status: _State
    collective_counts: dict[_Name, _Count]


class _Silence(BaseModel, strict=True):
    unresponsive: bool
    considered_dead: bool


class _MissingRank(BaseModel, strict=True):
    rank: _Count
    status: _Silence


class _Communicator(BaseModel, strict=True):
    hash: _Name
    size: _Count
    ranks: list[_Rank]
    missing_ranks: list[_MissingRank]


class _Collection(BaseModel, strict=True):
    timeouts_count: _Count


class _Document(BaseModel, strict=True):
    communicators_count: _Count
    communicators: list[_Communicator]
    ras: _Collection


def read_status(paths: Sequence[Path]) -> tuple[list[CommunicatorRow], list[Problem]] | None:
    """The communicators of a job and what is abnormal, if `paths` name one file and it is from RAS;
    else None. Raises InputError for damage."""
    files = [file for path in paths for file in job_files(path)]
    data = contents(files[0]) if len(files) == 1 else b""
    if b'"communicators"' not in data[:4096]:
        return None
    name, mistakes, rows = files[0].name[:80], Mistakes(), list[CommunicatorRow]()
    status = mistakes.checked(_Document, load_json(decoded(data, name), name))
    mistakes.report(lambda location: f"{name}: {spelling(location)}")
    number, late = len(status.communicators), status.ras.timeouts_count
    if number != status.communicators_count:
        expected = f"expected the communicators_count {status.communicators_count}"
        raise InputError(f"{name} has {counted(number, 'communicator')}: {expected}")
    problems = [Problem("missing", f"{counted(late, 'answer')} did not come in time")] * bool(late)
    for each in status.communicators:
        label = f"communicator {each.hash}"
        rows.append(_row(each, f"{name}: {label}"))
        faults = (*_missing(each), *_errors(each), *_behind(each))
        problems += [Problem(kind, f"{label}: {text}") for kind, text in faults]
    kinds = ("missing", "error", "mismatch")
    return rows, first_problems([each for each in problems if each.kind == kind] for kind in kinds)


def _row(each: _Communicator, where: str) -> CommunicatorRow:
    missing = [rank.rank for rank in each.missing_ranks]
    numbers = sorted([*(rank.rank for rank in each.ranks), *missing])
    if len(numbers) != each.size or numbers != [*range(each.size)]:
        raise InputError(
            f"{where} has {counted(len(numbers), 'rank')}: expected each from 0 to "
            f"{each.size - 1} once, in ranks or missing_ranks"
        )
    if len({frozenset(rank.collective_counts) for rank in each.ranks}) > 1:
        raise InputError(f"{where} has collective_counts with other names: expected the same")
    states = ", ".join(dict.fromkeys(rank.status.word for rank in each.ranks)) or "unknown"
    spans = {name: (min(calls), max(calls)) for name, calls in _calls(each).items() if any(calls)}
    calls = [f"{name} {low}" + f" to {high}" * (high > low) for name, (low, high) in spans.items()]
    return CommunicatorRow(
        each.hash, each.size, len(each.ranks), states, ", ".join(calls) or "none"
    )


def _calls(each: _Communicator) -> Mapping[str, list[int]]:
    """The calls of each rank, by collective."""
    names = each.ranks[0].collective_counts if each.ranks else ()
    return {name: [rank.collective_counts[name] for rank in each.ranks] for name in names}


def _missing(each: _Communicator) -> Iterator[Problem]:
    """The ranks that do not answer, by the reason."""
    reasons = defaultdict[str, list[int]](list)
    for rank in each.missing_ranks:
        reason = "no answer" if rank.status.unresponsive else "an answer without this communicator"
        reasons["dead" if rank.status.considered_dead else reason].append(rank.rank)
    for reason, ranks in reasons.items():
        yield Problem("missing", f"{listed_ranks(ranks)}: {reason}")


def _errors(each: _Communicator) -> Iterator[Problem]:
    """The ranks with an error or an abort, and states that differ."""
    errors, states = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for rank in each.ranks:
        states[rank.status.word].append(rank.rank)
        for result in {rank.status.init_state, rank.status.async_error} - {0, 7}:
            errors[ERRORS.get(result, f"the unknown result {result}")].append(rank.rank)
    if "aborted" in states:
        errors["an abort"] = states["aborted"]
    for error, ranks in errors.items():
        yield Problem("error", f"{listed_ranks(ranks)}: {error}")
    if len(states) > 1:
        words = "; ".join(f"{state}: {listed_ranks(ranks)}" for state, ranks in states.items())
        yield Problem("mismatch", f"states differ, {words}")


def _behind(each: _Communicator) -> Iterator[Problem]:
    """The ranks whose number of calls is not that of most."""
    for name, calls in _calls(each).items():
        usual = Counter(calls)
        most = max(usual, key=lambda number: (usual[number], number))
        for number in sorted({*usual} - {most}):
            ranks = [
                rank.rank for rank, made in zip(each.ranks, calls, strict=True) if made == number
            ]
            # RAS asks one rank after another
            again = ": ask again, ranks of a sound job may differ by one" * (
                abs(number - most) == 1
            )
            yield Problem(
                "mismatch",
                f"{listed_ranks(ranks)} made {counted(number, 'call')} of {name}, and "
                f"{counted(usual[most], 'rank')} made {most}{again}",
            )
