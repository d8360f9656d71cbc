"""Reads OSU micro-benchmarks, versions 5 to 7: collectives, latencies and bandwidths."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

from experiments.measurements.collectives import canonical
from experiments.measurements.curve import (
    COLLECTIVE,
    DIED,
    Curve,
    Failure,
    Measurements,
    Point,
    Skipped,
    no_rows,
    ranks_per_node,
    skipped_lines,
)
from experiments.measurements.formats.log_settings import LIBRARY, settings
from experiments.measurements.formats.osu_table import (
    BENCHMARKS,
    PER_RANK,
    PROGRAMS,
    OsuRow,
    Title,
    find_header,
    find_title,
    read_row,
)
from experiments.measurements.formats.text import TableHeader, numbered, too_long
from experiments.measurements.networks import network_of
from experiments.output import counted

_LIMITED = re.compile(r"Limiting max message size to: [0-9]{1,20}")
_LONGEST = 4096
_TIMES = {
    COLLECTIVE: "time is the average over ranks: the slowest takes longer",
    "latency": "half a round trip, the time of one message one way",
    "multi-pair latency": "half a round trip, the average over pairs that send at once",
    "bandwidth": "windowed streaming bandwidth: time = size / bandwidth, not a latency",
    "bidirectional bandwidth": (
        "windowed streaming bandwidth both ways: time = 2 size / bandwidth, not a latency"
    ),
    "multi-pair bandwidth": (
        "windowed streaming bandwidth of all pairs: time = pairs x size / bandwidth, not a latency"
    ),
}


@dataclass
class _OsuTable:
    """One table."""

    title: Title
    line: int
    """The line of the title."""
    header: TableHeader | None = None
    rows: list[OsuRow] = field(default_factory=list)
    dtype: str = ""
    pairs: int | None = None
    launch: str = ""
    """The benchmark and the command line that started it."""
    notes: list[str] = field(default_factory=list)
    capped: bool = False
    """Whether the benchmark lowered its largest size for lack of memory."""


def looks_like_osu(text: str) -> bool:
    """Whether a title of OSU micro-benchmarks stands in a text."""
    return "OSU " in text and any(
        find_title(line) for line in text.splitlines() if "OSU " in line[:_LONGEST]
    )


def parse_osu(text: str, source: str) -> Measurements:
    """The curves in `text`, the output of OSU micro-benchmarks in the file `source`: one a table.

    The benchmarks print a rank's part as the size. If the number of ranks is known, the curve has
    the size as nccl-tests counts it. Times are those of the slowest rank if the output has them
    (`-f`), else the average. Raises InputError if the text has no table or no usable row.
    """
    skipped: Skipped = defaultdict(list)
    curves = [
        curve for table in _tables(text, skipped) if (curve := _curve(table, source, skipped))
    ]
    failures = tuple(
        Failure(DIED, f"{source}:{line}", "a test has a table header and no rows")
        for line in skipped["bare"]
    )
    lines = skipped_lines(skipped)
    if not curves:
        message = (
            f"no usable row of OSU micro-benchmarks in {source}: {'; '.join(lines) or 'no title'}"
        )
        raise no_rows(message, failures)
    network, names = (
        network_of(text),
        sorted({name for name, value, _ in settings(text) if value and name != LIBRARY}),
    )
    curves = [replace(curve, network=network, variables=tuple(names)) for curve in curves]
    return Measurements(tuple(curves), lines, failures)


def _tables(text: str, skipped: Skipped) -> list[_OsuTable]:
    tables: list[_OsuTable] = []
    ahead = _OsuTable(Title("", "", "", ""), 0)
    for line, content in numbered(text):
        if too_long(content):
            skipped["long"].append(line)
        elif "OSU " in content and (title := find_title(content)):
            tables.append(replace(ahead, title=title, line=line, rows=[]))
            ahead = _OsuTable(Title("", "", "", ""), 0)
        elif not tables or tables[-1].rows:
            _read_ahead(ahead, content[:_LONGEST])
        if tables and not too_long(content):
            _read_line(tables, line, content[:_LONGEST], skipped)
    return tables


def _read_ahead(ahead: _OsuTable, content: str) -> None:
    launcher = (
        re.search(r"\b(?:mpirun|mpiexec|srun|aprun|jsrun|ibrun)\b", content)
        if "osu_" in content
        else None
    )
    if launcher and (match := re.compile(r"\bosu_(\w{1,30})").search(content, launcher.end())):
        ahead.launch = f"{match[1]} {content}"
    elif match := _LIMITED.search(content):
        ahead.notes, ahead.capped = [match[0]], True


def _read_line(tables: list[_OsuTable], line: int, content: str, skipped: Skipped) -> None:
    table = tables[-1]
    header = find_header(line, content)
    if header is not None:
        if table.header is not None:
            tables.append(_OsuTable(table.title, line, pairs=table.pairs, launch=table.launch))
        tables[-1].header = header
    elif "#" in content:
        _read_remark(tables, content)
    elif not table.rows and (match := _LIMITED.search(content)):
        table.notes, table.capped = [*table.notes, match[0]], True
    elif table.header is not None:
        _read_row(table, table.header, line, content, skipped)


def _read_remark(tables: list[_OsuTable], content: str) -> None:
    table = tables[-1]
    if match := re.search(r"# Datatype: MPI_(\w{1,20})", content):
        if table.rows:
            tables.append(
                _OsuTable(table.title, table.line, pairs=table.pairs, launch=table.launch)
            )
        tables[-1].dtype = match[1].lower()
    elif match := re.search(r"\[ pairs: ([1-9][0-9]{0,6}) \]", content):
        table.pairs = int(match[1])
    elif match := re.search(r"# (Send Buffer on .{1,80})$", content):
        table.notes.append(match[1].strip())


def _read_row(
    table: _OsuTable, header: TableHeader, line: int, content: str, skipped: Skipped
) -> None:
    """Read a row. Sizes only grow, so a row with a smaller size is a piece of another row."""
    text = header.strip(content)
    row = read_row(header, line, text)
    if row is not None and not all(map(isfinite, row.values.values())):
        skipped["infinite"].append(line)
    elif row is not None and (not table.rows or row.size > table.rows[-1].size):
        table.rows.append(row)
    elif row is not None or re.fullmatch(
        r"[ \t]*[0-9.]{1,21}([ \t]+(-?(inf|nan)|[0-9.]{1,21}(e\+?[0-9]{1,4})?)){0,9}[ \t]*", text
    ):
        skipped["torn"].append(line)


def _curve(table: _OsuTable, source: str, skipped: Skipped) -> Curve | None:
    header = table.header
    if table.title.name not in BENCHMARKS or header is None:
        skipped["unknown"].append(table.line)
        return None
    collective, kind = BENCHMARKS[table.title.name]
    if kind == "multi-pair bandwidth" and table.pairs is None:
        skipped["pairs"].append(header.line)
        return None
    command = _command(table, collective)
    ranks, nodes = _ranks(table, command, kind)
    scale = ranks if collective in PER_RANK and ranks else 1
    points = tuple(_points(table, kind, scale, skipped))
    if not points:
        skipped["bare"] += [] if table.rows else [header.line]
        return None
    return Curve(
        collective,
        ranks,
        nodes,
        points,
        (),
        f"{source}:{header.line}",
        (*_notes(table, header, collective, ranks, points), *table.notes),
        gpus_per_node=ranks_per_node(ranks, nodes),
        library="" if table.title.library == "MPI" else table.title.library,
        device=table.title.device,
        dtype=table.dtype,
        capped=table.capped,
        kind=kind,
        pairs=kind.startswith("multi-pair"),
        log=source,
        hosts=_hosts(command),
    )


def _command(table: _OsuTable, collective: str) -> str:
    """The command line above that names the benchmark; empty if there is none."""
    name, _, command = table.launch.partition(" ")
    of_pairs = name in PROGRAMS and collective == "send_recv"
    return command if of_pairs or canonical(name) == collective else ""


def _ranks(table: _OsuTable, command: str, kind: str) -> tuple[int | None, int | None]:
    """Ranks and nodes: by the kind of benchmark, else by the command line."""
    number = r"\s(?:-np|--np|-n|--ntasks)(?:[ =]|(?=[0-9]))([1-9][0-9]{0,6})\b"
    ranks = re.search(number, command)
    nodes = re.search(r"\s(?:-N|--nodes)[ =]?([1-9][0-9]{0,5})\b", command)
    nodes_of_command = int(nodes[1]) if nodes and "srun" in command else None
    if kind in ("latency", "bandwidth", "bidirectional bandwidth"):
        return 2, nodes_of_command
    if table.pairs is not None:
        return 2 * table.pairs, nodes_of_command
    return (int(ranks[1]) if ranks else None), nodes_of_command


def _hosts(command: str) -> tuple[str, ...]:
    """The nodes that the command line names, without numbers of slots."""
    pattern = r"\s(?:-H|--?hosts?|-w|--nodelist)[ =]([A-Za-z][\w.,:\[\]-]{0,999})"
    match = re.search(pattern, command)
    hosts = match[1].split(",") if match else []
    return tuple(sorted({host.partition(":")[0] for host in hosts if host}))


def _points(table: _OsuTable, kind: str, scale: int, skipped: Skipped) -> Iterator[Point]:
    """The points of the rows that end where most do, if columns are aligned to the right."""
    width = _usual_width(table.rows)
    for row in table.rows:
        time_s = _time(row, kind, table.pairs)
        # wider sizes move the values to the right
        if width not in (0, len(row.text)) and row.size < 10**10:
            skipped["torn"].append(row.line)
        elif not row.size or not time_s:
            skipped["unmeasured"].append(row.line)
        else:
            yield _point(row, row.size * scale, time_s)


def _time(row: OsuRow, kind: str, pairs: int | None) -> float:
    """Seconds: printed in microseconds, or by the bandwidth in MB/s (1e6 bytes a second)."""
    values = row.values
    if "rate" not in values:
        return values.get("most", values.get("time", 0.0)) / 1e6
    messages = {"bidirectional bandwidth": 2, "multi-pair bandwidth": pairs or 1}.get(kind, 1)
    return messages * row.size / (values["rate"] * 1e6) if values["rate"] else 0.0


def _usual_width(rows: Sequence[OsuRow]) -> int:
    """The width of most rows, if sizes and values of several lengths end there; else 0."""
    ((width, number),) = Counter(len(row.text) for row in rows).most_common(1) or [(0, 0)]
    tokens = [row.text.split() for row in rows if len(row.text) == width]
    lengths = {len(token[0]) for token in tokens}, {len(token[-1]) for token in tokens}
    return width if 2 * number > len(rows) and min(map(len, lengths)) > 1 else 0


def _point(row: OsuRow, size: int, time_s: float) -> Point:
    iterations, p90 = row.values.get("iterations"), row.values.get("P90")
    return Point(
        size,
        time_s,
        None if row.right is None else int(not row.right),
        repetitions=int(iterations) if iterations else None,
        p90_s=p90 / 1e6 if p90 and "time" in row.values else None,
    )


def _notes(
    table: _OsuTable,
    header: TableHeader,
    collective: str,
    ranks: int | None,
    points: tuple[Point, ...],
) -> Iterator[str]:
    version = f" v{table.title.version}" if table.title.version else ""
    yield f"OSU {table.title.name} Test{version}"
    yield (
        "time is that of the slowest rank (Max Latency), the mean of its iterations"
        if "most" in header.columns
        else _TIMES[BENCHMARKS[table.title.name][1]]
    )
    if collective in PER_RANK:
        yield (
            f"sizes converted from a rank's part to the total (x {ranks})"
            if ranks
            else "sizes are a rank's part of the total: the number of ranks is unknown"
        )
    if wrong := [point.size for point in points if point.wrong]:
        at = counted(len(wrong), "size")
        yield (
            f"validation failed at {at} (how many elements is not printed; counted as 1): "
            f"{wrong[0]} B"
        )
