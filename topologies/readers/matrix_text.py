"""The text of `nvidia-smi topo -m`, however it was copied, as rows of words.

It may have tabs, aligned columns or the bars of a markdown table. Rows may continue on the next
line. Other text may stand before, between and after them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from topologies.errors import InputError, shown

LEVELS = {"X": 0, "PIX": 1, "PSB": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5, "SOC": 5}
"""The distance of two devices by PCIe. PSB and SOC are older names."""
SILENT = ("CNS", "GNS", "TNS", "NS", "OK", "N/A", "MIG", "DR", "U")
"""Words that do not tell the distance."""
MOST = 512
"""The most GPUs and NICs of a machine."""
_LONGEST, _MOST_LINES = 1 << 16, 16 * MOST
"""The most characters of a line, and the most lines of a matrix, however they are broken."""

GPU = re.compile(r"GPU\d{1,4}")
LABEL = re.compile(r"(?:GPU|NIC)\d{1,4}")
_LINK = re.compile("|".join((r"NV[1-9]\d{0,2}", *LEVELS, *SILENT)))
_AFFINITY = re.compile(r"[\d,-]+|N/A")
_RULE = re.compile(r"[-:=+]+")
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*|[()#].|.)?|[\x00-\x08\x0e-\x1f\x7f\u200b\ufeff]"
)
_FRAMES = str.maketrans(dict.fromkeys("|│┃`*", " "))


@dataclass
class MatrixRow:
    """A row of the matrix, which may go on over several lines."""

    line: int
    """The line where the row begins."""
    words: list[str] = field(default_factory=list)
    """The word of each cell."""
    lines: list[int] = field(default_factory=list)
    """The line of each cell."""
    rest: list[str] = field(default_factory=list)
    """The other words, such as affinities."""


class Heading(NamedTuple):
    """The names above the first row."""

    columns: tuple[str, ...]
    """The labels of the columns of devices."""
    affinity_first: bool
    """Whether the affinities stand before the devices."""
    affinities: tuple[str, ...]
    """The names of the columns of affinities."""
    end: int
    """The first line below the heading."""


def lines_of(text: str) -> list[str]:
    """The lines of a text without what only terminals need."""
    return _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")


def words_of(line: str) -> list[str]:
    """The words of a line; a line that is too long for a matrix has none."""
    return line.translate(_FRAMES).split() if len(line) <= _LONGEST else []


def is_link(word: str) -> bool:
    """Whether a word is the text of a cell, or of several cells without blanks between them."""
    return re.fullmatch(rf"(?:{_LINK.pattern})+", word) is not None


def is_name(word: str) -> bool:
    """Whether a word can be the name of a device."""
    return len(word) <= 64 and word.isprintable()


def start_of(lines: list[str], file: str) -> tuple[int, int]:
    """Where the heading begins, and the first row that has X in its own column."""
    first = next((number for number, line in enumerate(lines) if _begins_matrix(line)), None)
    if first is None:
        raise InputError(f"{file}: no matrix of nvidia-smi topo -m: a row begins like GPU0 X NV18")
    top = next(
        (number for number in range(first - 1, -1, -1) if _is_heading(words_of(lines[number]))),
        None,
    )
    if top is None:
        raise InputError(
            f"{file} line {first + 1}: a row without a heading: the columns are named above it"
        )
    highest = max(0, top - MOST)
    while (
        top > highest
        and GPU.match(lines[top - 1].lstrip())
        and _is_heading(words_of(lines[top - 1]))
    ):
        top -= 1
    return top, first


def heading_of(lines: list[str], top: int, first: int, file: str) -> Heading:
    """The names in the lines above the first row."""
    end = _heading_end(lines, top, first)
    words = [
        word for line in lines[top:end] for word in words_of(line) if not _RULE.fullmatch(word)
    ]
    start = next((number for number, word in enumerate(words) if GPU.fullmatch(word)), len(words))
    # The last columns: CPU Affinity, NUMA Affinity, GPU NUMA ID.
    foreign = (
        number
        for number in range(start, len(words))
        if words[number] == "NUMA"
        or words[number : number + 2] in (["CPU", "Affinity"], ["GPU", "NUMA"])
    )
    columns = tuple(words[start : next(foreign, len(words))])
    _check_columns(columns, f"{file} line {top + 1}")
    affinities = tuple(word for word, after in pairwise(words) if after == "Affinity")
    return Heading(columns, "Affinity" in words[:start], affinities, end)


def rows_of(lines: list[str], heading: Heading, file: str) -> dict[str, MatrixRow]:
    """The rows by their label, up to the next heading."""
    rows: dict[str, MatrixRow] = {}
    labels, row = set(heading.columns), None
    for number in range(heading.end, min(len(lines), heading.end + _MOST_LINES)):
        words = words_of(lines[number])
        start = next((place for place, word in enumerate(words) if word in labels), len(words))
        cells = words[start + 1 :][: len(labels)]
        if cells and 2 * sum(map(is_link, cells)) >= len(cells):
            label = words[start]
            if label in rows:
                raise InputError(
                    f"{file} line {number + 1}: a second row of {label}, see line "
                    f"{rows[label].line}"
                )
            row = rows[label] = MatrixRow(
                number + 1, rest=words[:start] if heading.affinity_first else []
            )
            _fill(row, words[start + 1 :], number + 1, heading)
        elif row and words and _goes_on(row, words[0], heading):
            _fill(row, words, number + 1, heading)
        elif words and (len(rows) == len(labels) or (rows and _is_heading(words))):
            break
    return rows


def unbroken(lines: list[str], top: int, first: int) -> list[str]:
    """The lines as they were before a terminal broke those of the matrix at its width. The other
    lines are empty."""
    blank = (number for number in range(first, len(lines)) if not lines[number])
    end = min(next(blank, len(lines)), top + _MOST_LINES)
    width, below = max(map(len, lines[top:end])), _heading_end(lines, top, first)
    labels = set(
        words_of("".join(line if len(line) == width else f"{line} " for line in lines[top:below]))
    )
    parts: dict[int, list[str]] = {}
    start = top
    for number in range(top, end):
        line = lines[number]
        begins = number >= below and (
            line[:1].isspace() or not labels.isdisjoint(words_of(line)[:1])
        )
        if begins or number == top or len(lines[number - 1]) < width:
            start = number
        parts.setdefault(start, []).append(line)
    return [
        *lines[:top],
        *("".join(parts.get(number, ())) for number in range(top, end)),
        *lines[end:],
    ]


def affinity(words: list[str], affinities: tuple[str, ...]) -> str | None:
    """The NUMA node of a row, or else its CPUs, or None."""
    text = {
        kind: word
        for kind, word in zip(affinities, words, strict=False)
        if _AFFINITY.fullmatch(word)
    }
    return next((text[kind] for kind in ("NUMA", "CPU") if text.get(kind, "N/A") != "N/A"), None)


def _is_heading(words: Sequence[str]) -> bool:
    return any(map(GPU.fullmatch, words)) and not any(map(is_link, words))


def _begins_matrix(line: str) -> bool:
    if "GPU" not in line or "X" not in line:
        return False
    words = words_of(line)
    label = next((place for place, word in enumerate(words) if GPU.fullmatch(word)), len(words))
    return "X" in words[label + 1 :]


def _heading_end(lines: list[str], top: int, first: int) -> int:
    return next(
        (number for number in range(top, first) if any(map(is_link, words_of(lines[number])))),
        first,
    )


def _check_columns(columns: Sequence[str], place: str) -> None:
    if not columns:
        raise InputError(f"{place}: no columns: they are called GPU0, GPU1, NIC0 or mlx5_0")
    if len(columns) > MOST:
        raise InputError(
            f"{place}: {len(columns)} columns are more than any machine has: at most {MOST} are "
            f"read"
        )
    known: set[str] = set()
    for column in columns:
        if not is_name(column):
            raise InputError(
                f"{place}: {shown(column)} names no device: columns are called GPU0, NIC0 or mlx5_0"
            )
        if column in known:
            raise InputError(f"{place}: column {column} is there twice: each device has one")
        known.add(column)


def _goes_on(row: MatrixRow, word: str, heading: Heading) -> bool:
    if len(row.words) < len(heading.columns):
        return is_link(word)
    return bool(heading.affinities) and not row.rest and _AFFINITY.fullmatch(word) is not None


def _fill(row: MatrixRow, words: list[str], line: int, heading: Heading) -> None:
    """Add the words of a line to a row. If columns have no blanks between them, one word is several
    links."""
    for place, word in enumerate(words):
        if len(row.words) >= len(heading.columns):
            row.rest += words[place:]
            break
        parts = _LINK.findall(word) if is_link(word) else [word]
        row.words += parts
        row.lines += [line] * len(parts)
