"""The rank of this process by its launcher, and the rank that caused a failure."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import NamedTuple

from topologies.errors import InputError
from topologies.readers.placements import host_names

TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
SRUN = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
MPIRUN = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
_PORTS = 20_000


class RankPlace(NamedTuple):
    """A rank among `ranks`, and its number on its own machine."""

    rank: int
    ranks: int
    local: int


def find_place(environment: Mapping[str, str]) -> RankPlace | None:
    """The rank that this process was started as, or None without a launcher.

    Raises InputError if the variables contradict each other.
    """
    for names in (TORCHRUN, SRUN, MPIRUN):
        if names[0] in environment and names[1] in environment:
            texts = [environment.get(name, "0") for name in names]
            if not all(re.fullmatch(r"\d{1,7}", text, re.ASCII) for text in texts):
                raise InputError(
                    f"{', '.join(names)} are {', '.join(map(repr, texts))}: expected whole numbers"
                )
            place = RankPlace(*map(int, texts))
            if not place.rank < place.ranks:
                raise InputError(
                    f"{names[0]} is {place.rank} and {names[1]} {place.ranks}: ranks run from 0"
                )
            return place
    return None


def meeting_point(environment: Mapping[str, str]) -> dict[str, str]:
    """MASTER_ADDR and MASTER_PORT as they are set, or the first host and a port of the Slurm job.

    Raises InputError if neither is known, or the port is not valid.
    """
    if "MASTER_PORT" in environment:
        check_port(f"MASTER_PORT {environment['MASTER_PORT'][:40]!r}", environment["MASTER_PORT"])
    if "MASTER_ADDR" in environment and "MASTER_PORT" in environment:
        return {name: environment[name] for name in ("MASTER_ADDR", "MASTER_PORT")}
    hosts = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST")
    address = environment.get("MASTER_ADDR") or (first_host(hosts) if hosts else None)
    if address is None:
        raise InputError(
            "no address at which ranks meet: set MASTER_ADDR and MASTER_PORT, or --init "
            "tcp://HOST:PORT"
        )
    job = environment.get("SLURM_JOB_ID", "")
    port = _PORTS + (int(job[-9:]) % _PORTS if job.isdecimal() else 0)
    return {"MASTER_ADDR": address, "MASTER_PORT": environment.get("MASTER_PORT", str(port))}


def check_port(what: str, port: str) -> None:
    """Raise InputError unless `port` is a port. The message begins with `what`."""
    if not (re.fullmatch(r"\d{1,5}", port, re.ASCII) and 1 <= int(port) <= 65535):
        raise InputError(f"{what}: expected a port from 1 to 65535")


def first_host(hosts: str) -> str:
    """The first host of a list as Slurm writes it.

    >>> first_host("node[007-012,020],login1"), first_host("a1,b2")
    ('node007', 'a1')
    """
    return next(host_names(hosts))


GRACE_SECONDS = 2.0
"""Seconds in which other ranks can complain after the first failure."""
_LOST = re.compile(
    r"tim(ed?|e[- ]?) ?out|connection (was )?(closed|reset|refused)|broken pipe|closed by "
    r"peer|pair closure",
    re.IGNORECASE,
)


class Complaint(NamedTuple):
    """What a rank says before it gives up."""

    point: str
    """Where it was: "in" a point, or "at the start"."""
    message: str
    """Its error."""

    @property
    def lost(self) -> bool:
        """Whether the rank only waited for other ranks, or lost them."""
        return bool(_LOST.search(self.message))


class MeasurementFailed(Exception):
    """A measurement that cannot go on: one line names the rank, the collective and the size."""


def complaint(point: str, error: BaseException) -> Complaint:
    """The complaint about an exception, in one line."""
    text = " ".join(str(error).split())
    text = re.sub(r"^\[[^]]*/[^]]*\] ?", "", text)[:300]
    return Complaint(point, f"{type(error).__name__}: {text}" if text else type(error).__name__)


def blame(
    ranks: int,
    complaints: Mapping[int, Complaint],
    ended: Mapping[int, int],
    points: Mapping[int, str],
) -> str:
    """The rank that caused the failure, in one line.

    `ended` are the exit codes of ranks that ended without a complaint (negative: the signal).
    `points` say where each rank was.
    """
    for rank, code in sorted(ended.items(), key=lambda item: item[1]):
        how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
        return f"rank {rank} {how} {_where(rank, complaints, points)}"
    for rank, complaint in sorted(complaints.items()):
        if not complaint.lost:
            return f"rank {rank} failed {complaint.point}: {complaint.message}"
    silent = [rank for rank in range(ranks) if rank not in complaints]
    if not complaints:
        return f"no rank answers {_where(0, complaints, points)}"
    complaint = complaints[min(complaints)]
    if not silent:
        return f"all ranks wait for each other {complaint.point}: {complaint.message}"
    subject = (
        f"rank {silent[0]} does"
        if len(silent) == 1
        else f"ranks {', '.join(map(str, silent[:8]))} do"
    )
    return (
        f"{subject} not answer {complaint.point}: rank {min(complaints)} says {complaint.message}"
    )


def _where(rank: int, complaints: Mapping[int, Complaint], points: Mapping[int, str]) -> str:
    return points.get(rank) or next(iter(complaints.values()), Complaint("at the start", "")).point


def _signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"{name} (out of memory?)" if name == "SIGKILL" else name
