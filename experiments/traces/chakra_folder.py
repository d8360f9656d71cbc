"""The files of a Chakra workload: a trace of each rank, and the ranks of the groups."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from experiments.traces.chakra_nodes import LIMIT, METADATA, ChakraNode, read
from topologies.errors import InputError, as_text, shown
from topologies.readers.contents import contents

MOST_FILES = 4096
MOST_NODES = 1_000_000
TRACE = re.compile(r"(?P<job>.*)\.(?P<rank>\d{1,6})\.et(\.gz)?", re.ASCII)
_GROUPS_OF_TORCH = re.compile(r"\[\s*\{.*\}\s*\]", re.DOTALL)


class Folder(NamedTuple):
    """A workload as its files say it."""

    ranks: list[list[ChakraNode]]
    """The nodes of each rank."""
    files: list[str]
    """The name of each rank's file."""
    groups: dict[str, tuple[int, ...]]
    """The ranks of each group."""

    def group(self, name: str) -> tuple[int, ...] | None:
        """The ranks of a group; None if nobody says what they are."""
        # These are all ranks, unless a file or a node says otherwise.
        if name not in self.groups and name in ("", "0"):
            return tuple(range(len(self.ranks)))
        return self.groups.get(name)


def read_folder(folder: Path) -> Folder:
    """The traces NAME.RANK.et of a folder, and the groups: of its only JSON file, or of the
    metadata nodes that PyTorch writes.

    Raises InputError if ranks are missing, and for files that are damaged.
    """
    paths = _traces(folder)
    ranks, number = list[list[ChakraNode]](), 0
    for path in paths:
        ranks.append(read(path))
        number += len(ranks[-1])
        if number > MOST_NODES:
            raise InputError(
                f"{str(folder)[:80]!r} has more than {MOST_NODES} nodes: trace fewer steps"
            )
    groups = dict[str, tuple[int, ...]]()
    for path, nodes in zip(paths, ranks, strict=True):
        groups |= _of_metadata(nodes, path.name, len(ranks))
    groups |= _of_file(folder, len(ranks))
    return Folder(ranks, [path.name[:80] for path in paths], groups)


def _traces(folder: Path) -> list[Path]:
    name = repr(str(folder)[:200])
    try:
        matches = [
            (match, path) for path in folder.iterdir() if (match := TRACE.fullmatch(path.name))
        ]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {name}: {reason}: name a folder of Chakra traces") from None
    if not matches:
        raise InputError(f"{name} holds no Chakra traces: files like job.0.et, job.1.et")
    jobs = sorted({match["job"] for match, _ in matches})
    if len(jobs) > 1:
        raise InputError(
            f"{name} holds the traces of several jobs, {jobs[0][:40]!r} and {jobs[1][:40]!r}: "
            f"keep one job in a folder"
        )
    if len(matches) > MOST_FILES:
        raise InputError(f"{name} holds {len(matches)} traces: at most {MOST_FILES}")
    by_rank = {int(match["rank"]): path for match, path in matches}
    for rank in range(len(matches)):
        if rank not in by_rank:
            raise InputError(
                f"{name} has no trace of rank {rank}: ranks of {len(matches)} traces run from 0 "
                f"to {len(matches) - 1}"
            )
    return [by_rank[rank] for rank in range(len(matches))]


def _of_file(folder: Path, ranks: int) -> dict[str, tuple[int, ...]]:
    files = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    if len(files) > 1:
        raise InputError(
            f"{str(folder)[:80]!r} holds several JSON files, {files[0].name[:40]!r} and "
            f"{files[1].name[:40]!r}: keep the file of the groups alone"
        )
    if not files:
        return {}
    name = files[0].name[:80]
    try:
        data = contents(files[0], LIMIT)
        listed = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is no JSON: {str(error)[:80]}") from None
    if not isinstance(listed, dict):
        raise InputError(f'{name} holds no groups: expected {{"1": [0, 1], "2": [2, 3]}}')
    return {
        str(group): _members(members, str(group), name, ranks) for group, members in listed.items()
    }


def _of_metadata(nodes: Iterable[ChakraNode], name: str, ranks: int) -> dict[str, tuple[int, ...]]:
    """The process groups that PyTorch lists in a node. A group without ranks has all."""
    groups = dict[str, tuple[int, ...]]()
    for node in nodes:
        match = _GROUPS_OF_TORCH.search(node.values) if node.type == METADATA else None
        if match is None:
            continue
        try:
            listed = json.loads(match[0])
        except (ValueError, RecursionError):
            raise InputError(f"{name}: the process groups of node {node.id} are no JSON") from None
        for group in listed:
            if isinstance(group, dict) and "pg_name" in group:
                members = group.get("ranks") or list(range(ranks))
                called = as_text(group["pg_name"])
                groups[called] = _members(members, called, name, ranks)
    return groups


def _members(members: object, group: str, name: str, ranks: int) -> tuple[int, ...]:
    listed = members if isinstance(members, list) else []
    whole = all(type(rank) is int and 0 <= rank < ranks for rank in listed)
    if not listed or not whole or len({*listed}) < len(listed):
        raise InputError(
            f"{name[:80]}: group {group[:40]!r} is {shown(members)}: expected ranks from 0 to "
            f"{ranks - 1}, each once"
        )
    return tuple(listed)
