"""Logs of nccl-tests and rccl-tests, as launchers, debug output and lost lines leave them."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from experiments.measurements.loading import load
from experiments.measurements.measurement import Measurements, tally
from experiments.measurements.rows import read_rows
from experiments.measurements.sections import Sections, cut
from experiments.measurements.series import Skipped, curves, told
from topologies.errors import InputError

_EXPECTED = "expected a header line with size, time, algbw, busbw"


def read_log(path: Path) -> Measurements:
    """The curves in the log at `path`: one a test, or more if it has several types, reductions or roots.

    Raises InputError when the file cannot be read (see `loading.load`), has no table or no usable row.
    """
    return parse_log(load(path), str(path))


def looks_like_log(text: str) -> bool:
    """Whether a text has the columns of an nccl-tests table."""
    return "algbw" in text and "busbw" in text


def parse_log(text: str, source: str) -> Measurements:
    """The curves in the text of a log that `source` names. Raises InputError as `read_log`."""
    sections = cut(text) if "algbw" in text else Sections()
    skipped: Skipped = defaultdict(list, orphan=sections.orphans, long=sections.long)
    unfinished = None if text.endswith(("\n", "\r")) else text.count("\n") + 1
    found = [
        curve
        for run, header in sections.tables()
        for curve in curves(
            run, header, read_rows(header, run.lines, run.step, unfinished), f"{source}:{header.line}", skipped
        )
    ]
    if not found:
        raise InputError(_nothing(sections, source, told(skipped)))
    return Measurements(tuple(found), told(skipped))


def _nothing(sections: Sections, source: str, skipped: Sequence[str]) -> str:
    header = next((header for _, header in sections.tables()), None)
    if header is None:
        return f"no nccl-tests table in {source}: {_EXPECTED}"
    if skipped == (tally("table", "without rows", [header.line]),):
        return f"{source} line {header.line}: a table header with no rows below: the log was cut short"
    return f"no usable row in {source}: {'; '.join(skipped)}"
