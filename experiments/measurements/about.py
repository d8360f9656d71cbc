"""What is known of a CSV besides its numbers: from an index beside it, or from its own name."""

import csv
import io
import re
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.measurements.loading import load
from experiments.measurements.measurement import UNKNOWN, canonical
from topologies.errors import InputError

_RANKS = re.compile(r"p([0-9]{1,7})")
_SPELLED = re.compile(r"(all|reduce|send)_(reduce|gather|scatter|recv|to_all)(?=_|$)")


@dataclass(frozen=True)
class About:
    """Collective, ranks and nodes (None: unknown), notes, and whether the file's name is all there was to go by."""

    collective: str | None = None
    ranks: int | None = None
    nodes: int | None = None
    notes: tuple[str, ...] = ()
    guessed: bool = False


def about(path: Path) -> About:
    """What `index.csv`, beside the file at `path` or one folder up, says of it; else what its name says."""
    notes: tuple[str, ...] = ()
    for folder in path.absolute().parents[:2]:
        index = folder / "index.csv"
        try:
            entry = _entry(index, path.stem) if index.is_file() else None
        except (InputError, csv.Error, OSError) as error:
            notes += (f"index not used: {error}",)
            continue
        if entry is not None:
            return _by_index(entry, index)
    named = by_name(path.stem)
    return replace(named, notes=notes)


def by_name(stem: str) -> About:
    """What a file's name says, by the convention `MACHINE_..._COLLECTIVE_pRANKS`.

    >>> by_name("leo_allgather_reduce_ompi_ar_p16").collective, by_name("a2a_p8").ranks, by_name("run3").ranks
    ('all_reduce', 8, None)
    """
    words = _SPELLED.sub(lambda pair: pair[0].replace("_", ""), stem.lower().replace("-", "_")).split("_")
    collective = next((name for word in reversed(words) if (name := canonical(word))), None)
    ranks = next((int(found[1]) for word in reversed(words) if (found := _RANKS.fullmatch(word))), None) or None
    return About(collective, ranks, guessed=True)


def _entry(index: Path, stem: str) -> dict[str, str] | None:
    rows = csv.DictReader(io.StringIO(load(index), newline=""))
    return next((row for row in rows if row.get("case") == stem), None)


def _by_index(entry: dict[str, str], index: Path) -> About:
    printed = entry.get("collective") or ""
    notes = [f"{name}: {entry[name]}" for name in ("algorithm", "note") if entry.get(name)]
    if printed and canonical(printed) is None:
        notes.append(f"collective {printed!r} of {index.name} is none that is known here")
    return About(canonical(printed) or UNKNOWN, _whole(entry.get("ranks")), _whole(entry.get("nodes")), tuple(notes))


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and int(text[:9]) > 0 else None
