"""Files of measured steps: a CSV with the columns model, plan and seconds."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import NamedTuple

from topologies.errors import InputError
from topologies.readers.contents import text_of

MOST_BYTES, MOST_ROWS = 2**20, 1000
COLUMNS = "model", "plan", "seconds"


class MeasuredStep(NamedTuple):
    """A step that was measured."""

    where: str
    """Its file and line, for messages."""
    model: str
    """The model, as `--model` takes it."""
    plan: str
    """The plan, as `--plan` takes it."""
    seconds: float
    """Seconds of the step."""


def read_steps(path: Path) -> tuple[MeasuredStep, ...]:
    """The steps in a CSV with the columns model, plan and seconds. More columns count for nothing.

    Raises InputError with file and line of the first mistake.
    """
    expected = f"a CSV of {', '.join(COLUMNS)}"
    text = text_of(path, MOST_BYTES, expected, f"take at most {MOST_ROWS} steps")
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    steps = []
    try:
        missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"{path} line 1: no column {missing[0]}: expected {expected}")
        for row in reader:
            steps.append(_step(row, f"{path} line {reader.line_num}"))
            if len(steps) > MOST_ROWS:
                raise InputError(f"{path}: more than {MOST_ROWS} steps")
    except csv.Error as error:
        raise InputError(f"{path} line {reader.line_num}: {error}: expected a CSV") from None
    if not steps:
        raise InputError(f"{path} has no step: expected a line with {', '.join(COLUMNS)}")
    return tuple(steps)


def _step(row: dict[str, str | None], where: str) -> MeasuredStep:
    model, plan, text = (row[column] for column in COLUMNS)
    if not model or not plan or not text:
        raise InputError(f'{where}: a value is missing: write gpt2,"dp=2,micro=1",0.25')
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise InputError(f"{where}: seconds is {text[:40]!r}: a number above 0")
    return MeasuredStep(where, model, plan, seconds)
