"""The matrix of `nvidia-smi topo -m` as arrays, with every mistake in it as one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from topologies.columns import repeated
from topologies.errors import InputError, shown
from topologies.readers.contents import LIMIT
from topologies.readers.matrix_text import (
    GPU,
    LABEL,
    LEVELS,
    SILENT,
    MatrixRow,
    affinity,
    heading_of,
    is_link,
    is_name,
    lines_of,
    rows_of,
    start_of,
    unbroken,
    words_of,
)
from topologies.topology import Ints

UNSAID = 6
"""The level of two devices of which the file gives only NVLinks, or nothing."""
_RIGHT = "NV#, PIX, PXB, PHB, NODE, SYS, X or NS"
_SEEMS = re.compile(r"\bGPU\d{1,4}[ \t\xa0|`*]+(?:X|NV[1-9]\d?|PIX|PXB|PHB|NODE|SYS|SOC)\b")


class Matrix(NamedTuple):
    """A matrix of n devices."""

    file: str
    """The name of the file."""
    columns: tuple[str, ...]
    """The labels of the columns."""
    names: tuple[str, ...]
    """The names of the devices."""
    level: Ints
    """How far apart two devices are, shape (n, n): a value of LEVELS, or UNSAID."""
    nvlinks: Ints
    """The number of NVLinks between two devices, shape (n, n)."""
    lines: Ints
    """The line of each cell, shape (n, n); 0 if the row is missing and the cell is mirrored."""
    affinity: tuple[str | None, ...]
    """What each device shares with others of its CPU; None if the file does not say."""

    @property
    def gpus(self) -> list[int]:
        """The columns that are GPUs."""
        return [column for column, label in enumerate(self.columns) if GPU.fullmatch(label)]

    def place(self, row: int, column: int) -> str:
        """Where a cell is, in words, without the file."""
        row, column = (row, column) if self.lines[row, column] else (column, row)
        return f"line {self.lines[row, column]}, column {self.columns[column]}"

    def text(self, row: int, column: int) -> str:
        """The text of a cell."""
        if self.nvlinks[row, column]:
            return f"NV{self.nvlinks[row, column]}"
        return level_named(int(self.level[row, column]))


def looks_like(text: str) -> bool:
    """Whether some line begins as the row of a GPU does."""
    return _SEEMS.search(text) is not None


def parse(text: str, file: str) -> Matrix:
    """The first matrix of a text. Raises InputError that names the file, the line and the
    column."""
    if len(text) > LIMIT:
        raise InputError(f"{file} is larger than 16 MiB")
    lines = lines_of(text)
    top, first = start_of(lines, file)
    try:
        return _parsed(lines, top, first, file)
    except InputError as error:
        try:
            return _parsed(unbroken(lines, top, first), top, first, file)
        except InputError:
            raise error from None


def level_named(level: int) -> str:
    """The word of a level in the matrix."""
    return next((word for word, value in LEVELS.items() if value == level), "NS")


def _parsed(lines: list[str], top: int, first: int, file: str) -> Matrix:
    heading = heading_of(lines, top, first, file)
    columns, rows = heading.columns, rows_of(lines, heading, file)
    for label in columns:
        if label in rows:
            _check_row(file, label, rows[label], columns, lines)
        elif GPU.fullmatch(label):
            raise InputError(
                f"{file}: the row of {label} is missing: there is a column of that name"
            )
    level, nvlinks, places = _cells(rows, columns)
    names = _names(lines, columns, file)
    affinities = tuple(
        affinity(rows[label].rest, heading.affinities) if label in rows else None
        for label in columns
    )
    matrix = Matrix(file, columns, names, level, nvlinks, places, affinities)
    _check_cells(matrix)
    return matrix


def _check_cells(matrix: Matrix) -> None:
    level, nvlinks = matrix.level, matrix.nvlinks
    for row, column in np.argwhere((level != level.T) | (nvlinks != nvlinks.T)):
        cells = (
            f"{matrix.text(*ends)} at {matrix.place(*ends)}"
            for ends in ((row, column), (column, row))
        )
        raise InputError(f"{matrix.file}: {', but '.join(cells)}: the two are one link")
    nics = np.setdiff1d(np.arange(len(level)), matrix.gpus)
    for row, place in np.argwhere(nvlinks[:, nics] > 0):
        cell = matrix.place(row, nics[place])
        raise InputError(
            f"{matrix.file} {cell}: {matrix.text(row, nics[place])}: NVLinks join GPUs only"
        )


def _check_row(
    file: str, label: str, row: MatrixRow, columns: Sequence[str], lines: list[str]
) -> None:
    if mistake := _mistake(label, row, columns):
        blank = _blank(label, lines[row.line - 1], columns)
        where = (
            f"line {row.line}, column {blank}: the cell is empty: {_RIGHT}" if blank else mistake
        )
        raise InputError(f"{file} {where}")


def _mistake(label: str, row: MatrixRow, columns: Sequence[str]) -> str | None:
    for column, word, line in zip(columns, row.words, row.lines, strict=False):
        place = f"line {line}, column {column}"
        if not is_link(word):
            return f"{place}: {shown(word)} is no link: {_RIGHT}"
        if (word == "X") != (column == label):
            return (
                f"{place}: {word} in the row of {label}: X is right where a device meets itself, "
                f"and only there"
            )
    if len(row.words) < len(columns):
        missing = columns[len(row.words)]
        return (
            f"line {row.lines[-1]}, column {missing}: the row of {label} ends before it: {_RIGHT}"
        )
    if len(row.words) > len(columns) or (
        row.rest and is_link(row.rest[0]) and row.rest[0] not in SILENT
    ):
        return (
            f"line {row.line}: the row of {label} has more than {len(columns)} cells, as many as "
            f"there are columns"
        )
    return None


def _blank(label: str, line: str, columns: Sequence[str]) -> str | None:
    """The column of the first empty cell of a row, where tabs or bars show it."""
    fields = [part.strip(" `*\xa0") for part in re.split(r"[\t|│┃]", line)]
    cells = fields[fields.index(label) + 1 :] if label in fields else []
    return next((column for column, cell in zip(columns, cells, strict=False) if not cell), None)


def _cells(rows: dict[str, MatrixRow], columns: Sequence[str]) -> tuple[Ints, Ints, Ints]:
    """Levels, numbers of NVLinks, and lines. The cells of a missing row are those of its
    column."""
    shape = (len(columns), len(columns))
    level, nvlinks, lines = (np.full(shape, value, dtype=np.int32) for value in (UNSAID, 0, 0))
    for device, label in enumerate(columns):
        if label in rows:
            words = rows[label].words
            level[device] = [LEVELS.get(word, UNSAID) for word in words]
            nvlinks[device] = [int(word[2:]) if word.startswith("NV") else 0 for word in words]
            lines[device] = rows[label].lines
    present = np.flatnonzero([label in rows for label in columns])
    missing = np.setdiff1d(np.arange(len(columns)), present)
    for table in (level, nvlinks):
        table[np.ix_(missing, present)] = table[np.ix_(present, missing)].T
    level[missing, missing] = 0
    return level, nvlinks, lines


def _names(lines: list[str], columns: tuple[str, ...], file: str) -> tuple[str, ...]:
    """The names of the devices. GPU0 is gpu0. NICs have the names of the legend, as in "NIC0:
    mlx5_0"."""
    legend: dict[str, str] = {}
    labels = {f"{column}:": column for column in columns if not GPU.fullmatch(column)}
    for line in lines:
        words = words_of(line) if ":" in line else []
        if len(words) == 2 and words[0] in labels and is_name(words[1]):
            legend.setdefault(labels[words[0]], words[1])
    names = tuple(
        legend.get(column, column.lower() if LABEL.fullmatch(column) else column)
        for column in columns
    )
    if (twice := repeated(names)) is not None:
        raise InputError(f"{file}: two columns are the device {twice}: each has a name of its own")
    return names
