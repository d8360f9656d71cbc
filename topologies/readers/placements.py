"""Which hosts share a leaf or a rack: `topology.conf` of SLURM, or `nvidia-smi -q` of all hosts.

SLURM's file names the hosts of each leaf switch (SwitchName=) or block (BlockName=). `nvidia-smi
-q` names the rack of NVLink of each GPU by ClusterUUID and CliqueId: NVIDIA, NVLink Multi-Node User
Guide. Formats: topology.conf(5) of SLURM 24.11; driver 570.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from topologies.errors import InputError, naming, nearest_name, shown
from topologies.readers.contents import LIMIT, check_text, contents, decoded
from topologies.topology import Ints

MOST_HOSTS = 2**17
_NUMBERS = r"\d{1,9}(?:-\d{1,9})?"
_BRACKETS = re.compile(rf"\[({_NUMBERS}(?:,{_NUMBERS})*)\]", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_KEY = re.compile(r"(\w+)\s*=\s*(\S*)", re.ASCII)
_LABEL = re.compile(r"^ *(\d{1,6}): ?", re.ASCII)
_FIELD = re.compile(
    r"^(?: *\d{1,6}:)?\s*(Attached GPUs|CliqueId|ClusterUUID)\s*:\s*(\S.*?)\s*$", re.MULTILINE
)
_READ = re.compile(rb"NVSMI LOG|Attached GPUs|CliqueId|ClusterUUID|(?i:SwitchName|BlockName)")
_NO_RACK = re.compile(r"[0-]*|N/A|\[?N/A\]?")


class Hosts(NamedTuple):
    """The hosts of a job in the order of their ranks."""

    names: tuple[str, ...]
    group: Ints
    """The leaf or rack of each, numbered in the order of the file."""
    size: int
    """The hosts of the largest leaf or rack of the file."""
    noun: str
    """What the hosts share: "leaf", "block" or "rack"."""
    gpus: int | None
    """The GPUs of a host; None if the file does not say."""
    levels: int
    """Levels of switches: 1 if leaves are all that the file names."""

    def grouped(self) -> Hosts:
        """The same hosts, one leaf or rack after the other."""
        order = np.argsort(self.group, kind="stable")
        names = tuple(self.names[host] for host in order)
        return self._replace(names=names, group=self.group[order])

    def packed(self, room: int) -> Hosts:
        """As many hosts on as few leaves or racks as they need, each with room for some."""
        return self._replace(group=np.arange(len(self.names), dtype=np.int32) // room)


def read_hosts(path: str, chosen: str = "") -> Hosts:
    """The hosts of a file, or those of `chosen`, like "n[001-004,9]". Raises InputError."""
    larger = f"{path} is larger than {LIMIT // 2**20} MiB: expected fewer hosts"
    data = contents(Path(path), LIMIT, larger, _thin)
    text = check_text(decoded(data, path), path)
    if re.search(r"(?im)^\s*(SwitchName|BlockName)\s*=", text):
        return _of_slurm(text, path, chosen)
    if _FIELD.search(text):
        if chosen:
            raise InputError(
                f"{path}:{chosen[:40]}: nvidia-smi -q names no hosts: leave them out, and write "
                f"the job's hosts to the file alone"
            )
        return _of_racks(text, path)
    raise InputError(
        f"{path}: expected topology.conf of SLURM (SwitchName=leaf1 Nodes=n[1-4]), or nvidia-smi "
        f"-q of all hosts, with ClusterUUID and CliqueId"
    )


def _thin(lines: bytes) -> bytes:
    """What is read of `nvidia-smi -q`, whose other lines are a hundred times as many."""
    return b"".join(line for line in lines.splitlines(keepends=True) if _READ.search(line))


def host_names(text: str) -> Iterator[str]:
    """The hosts of a list as SLURM writes it.

    >>> list(host_names("a[08-10,2],b"))
    ['a08', 'a09', 'a10', 'a2', 'b']

    Raises InputError for anything else.
    """
    if "(" in text or not text:
        raise InputError(f"{shown(text)} is no list of hosts: write it like n[001-004,9],m1")
    for part in re.split(r",(?![^\[]*\])", text):
        pieces = _BRACKETS.split(part)
        if not all(_HOST.fullmatch(fixed) for fixed in pieces[::2] if fixed) or not part:
            raise InputError(f"{shown(part)} is no list of hosts: write it like n[001-004,9]")
        choices = [
            [piece] if place % 2 == 0 else [*_expanded(piece, part)]
            for place, piece in enumerate(pieces)
        ]
        yield from map("".join, product(*choices))


def _expanded(numbers: str, part: str) -> Iterator[str]:
    for run in numbers.split(","):
        first, _, last = run.partition("-")
        end = int(last or first)
        if not int(first) <= end < int(first) + MOST_HOSTS:
            raise InputError(
                f"{shown(part)}: {run} is no range of hosts: from the least to the greatest, "
                f"at most {MOST_HOSTS}"
            )
        yield from (f"{number:0{len(first)}}" for number in range(int(first), end + 1))


def _of_slurm(text: str, path: str, chosen: str) -> Hosts:
    leaf_of: dict[str, int] = {}
    leaves: list[str] = []
    parents: dict[str, str] = {}
    noun = "leaf"
    for number, line in _lines(text):
        values = {key.lower(): value for key, value in _KEY.findall(line)}
        name = values.get("switchname") or values.get("blockname")
        if name is None:
            continue
        with naming(f"{path} line {number}"):
            if children := values.get("switches"):
                parents |= dict.fromkeys(host_names(children), name)
            nodes = values.get("nodes")
            for host in host_names(nodes) if nodes else ():
                if leaf_of.setdefault(host, len(leaves)) != len(leaves):
                    raise InputError(f"{host} is on {leaves[leaf_of[host]]} already")
                if len(leaf_of) > MOST_HOSTS:
                    raise InputError(f"over {MOST_HOSTS} hosts")
        if nodes:
            noun = "block" if "blockname" in values else "leaf"
            leaves.append(name)
    if not leaf_of:
        raise InputError(f"{path}: no switch has hosts: a leaf is SwitchName=leaf1 Nodes=n[1-4]")
    size = int(np.bincount([*leaf_of.values()]).max())
    names = tuple(_chosen(chosen, leaf_of, path)) if chosen else tuple(leaf_of)
    group = np.array([leaf_of[host] for host in names], dtype=np.int32)
    return Hosts(names, group, size, noun, None, _levels(leaves, parents, path))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines without comments, with their numbers. A line that ends in a backslash goes on."""
    begun, start = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        start = start or number
        begun += line.partition("#")[0].rstrip()
        if begun.endswith("\\"):
            begun = begun[:-1] + " "
            continue
        yield start, begun
        begun, start = "", 0
    yield start, begun


def _chosen(text: str, known: dict[str, int], path: str) -> Iterator[str]:
    met: set[str] = set()
    for host in host_names(text):
        if host not in known:
            hint = nearest_name(host, known, f"it has hosts like {next(iter(known))}")
            raise InputError(f"{path}: no host {host[:40]!r}: {hint}")
        if host in met:
            raise InputError(f"{path}: host {host} is named twice")
        met.add(host)
        yield host


def _levels(leaves: Sequence[str], parents: dict[str, str], path: str) -> int:
    most = 1
    for leaf in leaves:
        levels, switch, met = 1, leaf, {leaf}
        while switch in parents:
            levels, switch = levels + 1, parents[switch]
            if switch in met:
                raise InputError(f"{path}: switch {switch} is above itself")
            met.add(switch)
        most = max(most, levels)
    return most


def _of_racks(text: str, path: str) -> Hosts:
    racks: list[tuple[str, str]] = []
    gpus: set[int] = set()
    for number, log in enumerate(_logs(text)):
        fields: dict[str, list[str]] = {}
        for key, value in _FIELD.findall(log):
            fields.setdefault(key, []).append(value)
        if "Attached GPUs" not in fields:
            continue
        where = f"{path}: host {number}"
        cliques = {*zip(fields.get("ClusterUUID", ()), fields.get("CliqueId", ()), strict=False)}
        count = fields["Attached GPUs"][0]
        if not count.isdecimal() or not 1 <= int(count) <= 1024:
            raise InputError(f"{where}: Attached GPUs is {shown(count)}: a number of 1 or more")
        complete = min(len(fields.get(key, ())) for key in ("ClusterUUID", "CliqueId"))
        if complete != int(count):
            raise InputError(
                f"{where} has {count} GPUs, and a rack of {complete}: is the file whole?"
            )
        if len(cliques) > 1:
            raise InputError(f"{where}: its GPUs are in {len(cliques)} cliques: expected one")
        [(uuid, clique)] = cliques
        # without a cluster NVLink ends at the host
        alone = f"host {number}", ""
        racks.append(alone if _NO_RACK.fullmatch(uuid) else (uuid, clique))
        gpus.add(int(count))
    if len(gpus) != 1:
        counts = ", ".join(map(str, sorted(gpus))) or "no"
        raise InputError(f"{path}: hosts with {counts} GPUs: expected as many on each")
    if not any(clique for _, clique in racks):
        raise InputError(f"{path}: no host has a ClusterUUID: they are in no rack of NVLink")
    numbers = {rack: number for number, rack in enumerate(dict.fromkeys(racks))}
    group = np.array([numbers[rack] for rack in racks], dtype=np.int32)
    hosts = tuple(f"host {number}" for number in range(len(racks)))
    return Hosts(hosts, group, int(np.bincount(group).max()), "rack", gpus.pop(), 1)


def _logs(text: str) -> list[str]:
    """The text of each host: by `srun --label`, else one NVSMI LOG after the other."""
    lines = text.splitlines()
    labels = [_LABEL.match(line) for line in lines]
    if any(labels):
        by_label: dict[int, list[str]] = {}
        for line, label in zip(lines, labels, strict=True):
            if label:
                by_label.setdefault(int(label[1]), []).append(line[label.end() :])
        return ["\n".join(by_label[label]) for label in sorted(by_label)]
    return re.split(r"(?m)^=+NVSMI LOG=+\s*$", text)[1:] or [text]
