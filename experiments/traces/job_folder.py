"""The traces of all ranks of a job: Kineto's, or dumps of torch's flight recorder."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from experiments.models.kineto import contents
from experiments.traces.flight_recorder import PICKLE, read_dump, unpickled
from experiments.traces.kineto_calls import read_kineto
from experiments.traces.measured_calls import RankTrace
from topologies.errors import InputError

MOST_FILES = 4096
_NUMBER = re.compile(r"(\d{1,6})(\.json|\.pickle|\.pkl)?(\.gz)?$", re.ASCII)


def read_job(paths: Sequence[Path]) -> list[RankTrace]:
    """The traces in files and folders, by rank.

    The rank is what a Kineto trace says, else the number at the end of the file's name. Raises
    InputError for a file that is no trace, two traces of a rank, and traces of different kinds.
    """
    files = [file for path in paths for file in _files(path)]
    if len(files) > MOST_FILES:
        raise InputError(f"{len(files)} traces: at most {MOST_FILES}")
    traces = sorted((_read(file) for file in files), key=lambda trace: trace.rank)
    for first, second in pairwise(traces):
        if first.rank == second.rank:
            raise InputError(
                f"{first.source} and {second.source} are both of rank {first.rank}: give one trace "
                f"of each rank"
            )
    if len({trace.records_all for trace in traces}) > 1:
        raise InputError("some files are Kineto traces and some are dumps: give one kind")
    if len(traces) < 2:
        raise InputError(f"{traces[0].source} is of one rank: give the traces of all ranks")
    return traces


def _files(path: Path) -> list[Path]:
    shown = repr(str(path)[:200])
    if not path.exists():
        raise InputError(f"no such file or folder: {shown}: name the traces of a job")
    if not path.is_dir():
        return [path]
    try:
        files = sorted(
            file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")
        )
    except OSError as error:
        raise InputError(f"cannot read {shown}: {error.strerror}") from None
    if not files:
        raise InputError(f"{shown} holds no files: name the folder with the traces of a job")
    return files


def _read(path: Path) -> RankTrace:
    name, data = path.name[:80], contents(path)
    if data.startswith(PICKLE):
        return read_dump(unpickled(data, name), _rank(None, name), name)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is no trace of a rank: {str(error)[:80]}") from None
    if isinstance(content, dict) and "traceEvents" in content:
        return read_kineto(content, _rank(content, name), name)
    return read_dump(content, _rank(None, name), name)


def _rank(content: dict[str, Any] | None, name: str) -> int:
    """The rank that a Kineto trace says, else the number at the end of a file's name."""
    about = content.get("distributedInfo") if content else None
    rank = about.get("rank") if isinstance(about, dict) else None
    if type(rank) is int and 0 <= rank < 2**20:
        return rank
    match = _NUMBER.search(name)
    if match is None:
        raise InputError(
            f"{name} does not say its rank: let its name end in the rank, like trace_3"
        )
    return int(match[1])
