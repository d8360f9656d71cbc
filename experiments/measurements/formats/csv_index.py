"""What an index, or the name of a CSV file, says of the file's curves."""

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from experiments.measurements.collectives import UNKNOWN, canonical
from experiments.measurements.curve import COLLECTIVE, Curve
from experiments.measurements.formats.log_settings import read_label
from experiments.measurements.formats.osu_table import PROGRAMS
from experiments.measurements.formats.text import load, whole_number
from experiments.measurements.networks import parse_ports
from topologies.errors import InputError

INDEX = "index.csv"
Entry = dict[str, str]
MOST_LINES = 100_000
"""The most lines of a CSV. To read so many takes about two seconds."""


def lines(text: str, path: Path) -> Iterator[str]:
    """The lines in the text of the CSV at `path`, with their ends, one at a time: a copy of a large
    text would take much memory. Raises InputError if there are too many."""
    count = text.count("\n") or text.count("\r")
    count += not text.endswith(("\n", "\r"))
    if count > MOST_LINES:
        raise InputError(
            f"{path} has {count} lines: expected at most {MOST_LINES}, split it by collective"
        )
    return (line[0] for line in re.finditer(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text))


def about(path: Path) -> tuple[Curve, bool]:
    """What `index.csv`, beside the file at `path` or one folder up, says of its curves; else what
    its name says. The second value is whether only the name says it.

    The curve has no points. None and empty: nothing is said.
    """
    notes: tuple[str, ...] = ()
    for folder in path.absolute().parents[:2]:
        index = folder / INDEX
        try:
            entry = entries(index).get(path.stem) if index.is_file() else None
        except (InputError, OSError) as error:
            notes += (f"index not used: {error}",)
            continue
        if entry is not None:
            return _by_index(entry, index), False
    return replace(by_name(path.stem), notes=notes), True


def by_name(stem: str) -> Curve:
    """What a file's name says, by the convention `MACHINE_..._COLLECTIVE_pRANKS`.

    >>> by_name("leo_allgather_reduce_ompi_ar_p16").collective
    'all_reduce'
    >>> by_name("a2a_p8").ranks, by_name("run3").ranks
    (8, None)
    """
    words = re.sub(
        r"(all|reduce|send)_(reduce|gather|scatter|recv|to_all)(?=_|$)",
        lambda pair: pair[0].replace("_", ""),
        stem.lower().replace("-", "_"),
    ).split("_")
    collective = next((name for word in reversed(words) if (name := canonical(word))), None)
    numbers = [int(word[1:]) for word in words if re.fullmatch(r"p[0-9]{1,7}", word)]
    return Curve(collective or "", (numbers[-1] if numbers else 0) or None, None, (), ())


def entries(index: Path) -> dict[str, Entry]:
    """The rows of an index by their `case`, the first of each.

    Raises InputError when the file cannot be read or is not a CSV.
    """
    status = index.stat()
    return _entries(index, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _entries(index: Path, _modified: int, _size: int) -> dict[str, Entry]:
    """By the time and size of the file too, for it may be written anew."""
    rows: dict[str, Entry] = {}
    try:
        for row in csv.DictReader(lines(load(index), index)):
            rows.setdefault(
                row.get("case") or "", {name: text or "" for name, text in row.items() if name}
            )
    except csv.Error as error:
        raise InputError(f"{index}: not a CSV: {error}") from None
    return rows


def _by_index(entry: Entry, index: Path) -> Curve:
    printed, label = entry.get("collective", ""), entry.get("algorithm", "")
    network, version = entry.get("inter", ""), entry.get("nccl_or_mpi_version", "")
    version = version.partition(" (_over")[0]
    library = f"NCCL {version}" if version[:1].isdigit() else version
    ranks, nodes, per_node = (
        whole_number(entry.get(name, ""), digits=9) or None
        for name in ("ranks", "nodes", "gpus_per_node")
    )
    forced = read_label(label, canonical(printed) or UNKNOWN)
    notes = [f"{name}: {entry[name]}" for name in ("algorithm", "note") if entry.get(name)]
    if printed and canonical(printed) is None:
        notes.append(f"unknown collective {printed!r} in {index.name}")
    return Curve(
        canonical(printed) or UNKNOWN,
        ranks,
        nodes,
        (),
        (),
        notes=(*notes, *forced.notes),
        algorithm=forced.algorithm,
        protocol=forced.protocol,
        library=f"{library}, the authors' own algorithm" if label.endswith("_over") else library,
        gpus_per_node=per_node,
        device=entry.get("gpu_model", ""),
        family=entry.get("family", ""),
        machine="; ".join(
            entry[name] for name in ("gpu_model", "intra", "inter") if entry.get(name)
        ),
        kind=_kind(entry.get("note", ""), label),
        label=label,
        ignored_algorithm=forced.ignored,
        pairs=any("pairs" in note for note in notes),
        single_node=network.startswith("none"),
        ports=parse_ports(network),
    )


def _kind(*words: str) -> str:
    """What the OSU program that an index names measures, or a bandwidth of many messages; else the
    time of a collective."""
    text = "\n".join(words)
    for name in re.findall(r"\bosu_(\w+)", text):
        if name in PROGRAMS:
            return PROGRAMS[name]
    return "bandwidth" if "windowed streaming" in text else COLLECTIVE
