"""Titles, headers and rows of OSU micro-benchmarks."""

import re
from typing import NamedTuple

from experiments.measurements.curve import COLLECTIVE
from experiments.measurements.formats.text import TableHeader, prefix_pattern

_TITLE = re.compile(
    r"#[ \t]{0,9}OSU (\w{2,9}?)(?:-(\w{2,9}))? (\S[\w /-]{0,60}?) Test\b(?: v([0-9.]{1,9}))?"
)
_COLUMN = re.compile(
    r"(?P<time>(?:Avg )?Lat(?:ency)? ?\(us\))|(?P<least>Min Lat(?:ency)? ?\(us\))|(?P<most>Max "
    r"Lat(?:ency)? ?\(us\))"
    r"|(?P<rate>Bandwidth "
    r"\(MB/s\)|MB/s)|(?P<messages>Messages/s)|(?P<iterations>Iterations)|(?P<validation>Validation)"
    r"|(?P<percentile>P[0-9]{1,2}(?:\.[0-9]{1,4})? Tail (?:Lat|BW|Bandwidth) "
    r"?\((?:us|MB/s)\))|(?P<sent>Transmit Size)"
)
_VALUE = re.compile(
    r"[0-9]{1,15}\.[0-9]{2}|-?(?:inf|nan)|[0-9]{1,18}(?:\.[0-9]{1,9})?e\+?[0-9]{3,4}"
)
"""OSU prints values that are not finite, or endless, after it has divided by a time of 0."""
_WHOLE = re.compile(r"0|[1-9][0-9]{0,17}")
_VERDICTS = ("Pass", "Fail", "-")


BENCHMARKS = {
    "Allreduce Latency": ("all_reduce", COLLECTIVE),
    "Broadcast Latency": ("broadcast", COLLECTIVE),
    "Reduce Latency": ("reduce", COLLECTIVE),
    "Reduce_scatter Latency": ("reduce_scatter", COLLECTIVE),
    "Allgather Latency": ("all_gather", COLLECTIVE),
    "All-to-All Personalized Exchange Latency": ("all_to_all", COLLECTIVE),
    "Gather Latency": ("gather", COLLECTIVE),
    "Scatter Latency": ("scatter", COLLECTIVE),
    "Latency": ("send_recv", "latency"),
    "Multi Latency": ("send_recv", "multi-pair latency"),
    "Multi-pair Latency": ("send_recv", "multi-pair latency"),
    "Bandwidth": ("send_recv", "bandwidth"),
    "Bi-Directional Bandwidth": ("send_recv", "bidirectional bandwidth"),
    "Multiple Bandwidth / Message Rate": ("send_recv", "multi-pair bandwidth"),
}
"""The collective and the kind of a curve, by the title between "OSU MPI" and "Test"."""
PER_RANK = ("all_gather", "all_to_all", "gather", "scatter")
"""Collectives whose sizes are a rank's part of the total."""
PROGRAMS = {
    "latency": "latency",
    "multi_lat": "multi-pair latency",
    "bw": "bandwidth",
    "bibw": "bidirectional bandwidth",
    "mbw_mr": "multi-pair bandwidth",
}
"""What a program between pairs of ranks measures, by its name without osu_."""


class Title(NamedTuple):
    """The title of a benchmark."""

    library: str
    device: str
    """The accelerator, like "CUDA"."""
    name: str
    version: str


class OsuRow(NamedTuple):
    """A row of a table."""

    line: int
    size: int
    """The size in bytes, as printed."""
    values: dict[str, float]
    right: bool | None
    """Whether the result was right; None if nobody checked."""
    text: str
    """The row up to the end of the last value."""


def read_row(header: TableHeader, line: int, text: str) -> OsuRow | None:
    """The row in `text` (without prefix), or None if it is not one complete row of this table."""
    size, *tokens = text.split() or [""]
    verdicts = [token for token in tokens if token in _VERDICTS]
    values = [token for token in tokens if token not in _VERDICTS]
    names = [name for name in header.columns if name != "validation"]
    complete = len(values) == len(names) and len(verdicts) == ("validation" in header.columns)
    if not complete or not _WHOLE.fullmatch(size) or not all(map(_fits, names, values)):
        return None
    right = None if not verdicts or verdicts[0] == "-" else verdicts[0] == "Pass"
    numbers = dict(zip(names, map(float, values), strict=True))
    return OsuRow(line, int(size), numbers, right, text.rstrip())


def find_title(text: str) -> Title | None:
    """The title in a line.

    >>> find_title("# OSU MPI-CUDA Allreduce Latency Test v7.5")
    Title(library='MPI', device='CUDA', name='Allreduce Latency', version='7.5')
    """
    match = _TITLE.search(text)
    return Title(match[1], match[2] or "", match[3], match[4] or "") if match else None


def find_header(line: int, text: str) -> TableHeader | None:
    """The header in a line, None if it has no size or a column that is not known here."""
    start = re.search(r"#[ \t]{0,9}Size\b", text)
    if start is None or len(text) > 2000:
        return None
    columns_text = text[start.start() :]
    first_column = start.end() - start.start()
    matches = list(_COLUMN.finditer(columns_text, first_column))
    if not matches or _COLUMN.sub("", columns_text[first_column:]).strip():
        return None
    names = tuple(_name(match) for match in matches)
    return TableHeader(line, names, prefix_pattern(text[: start.start()]))


def _name(match: re.Match[str]) -> str:
    name = match.lastgroup or ""
    return match[0].partition(" ")[0] if name == "percentile" else name


def _fits(name: str, token: str) -> bool:
    return (_WHOLE if name in ("iterations", "sent") else _VALUE).fullmatch(token) is not None
