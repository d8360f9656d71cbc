"""Cuts a log into its tests: each with its preamble, its header and the rows of its table."""

import re
from dataclasses import dataclass, field

from experiments.measurements.formats.log_settings import (
    LIBRARY,
    Choices,
    Settings,
    add_choice,
    settings,
)
from experiments.measurements.formats.participants import Device, device, programs
from experiments.measurements.formats.printed_table import (
    PrintedHeader,
    PrintedRow,
    find_header,
    values_of,
)
from experiments.measurements.formats.text import numbered, too_long

_MARK = re.compile(
    r"algbw|_perf|\bRank\b|\bPid\b|nranks|nThread|Using devices|tests version|Out of bounds|Avg "
    r"bus|Reducing|-place"
    r"|[NR]CCL_|\bFI_|UCX_|OMPI_MCA|MPICH_|MPIR_CVAR|I_MPI|CCL "
    r"version|rccl-tests|[Ff]ailure|CANCELLED"
    r"|Exited with|signal|MPI_ABORT|Segmentation fault|Killed|job killed|BAD TERMINATION"
    r"|Bytes -> Algo"
)
_DIED = re.compile(
    r"CANCELLED AT|Exited with exit code [1-9]|exited on signal|Caught signal"
    r"|MPI_ABORT was invoked|Segmentation fault|\bKilled\b|job killed|BAD TERMINATION"
)
_ROW = re.compile(
    r"\b[0-9]{1,18}[ \t]{1,20}[0-9]{1,18}[ "
    r"\t]{1,20}(?:u?int|float|half|double|bfloat|char|f8|fp8)\w{0,9} "
)
_PLACES = ("out-of-place", "in-place")
_BEGINS = ("nThread", "nccl-tests version", "Collective test starting")


@dataclass
class LoggedTest:
    """One test of a log."""

    devices: list[Device] = field(default_factory=list)
    programs: list[str] = field(default_factory=list)
    """Benchmarks named before the table, and after the table of the previous test."""
    started: str | None = None
    """The benchmark that nccl-tests says it starts."""
    nranks: set[int] = field(default_factory=set)
    """Numbers of ranks in NCCL's own lines."""
    threads: int | None = None
    """Threads times GPUs of a process."""
    step: tuple[int, int] | None = None
    """What the next size is: so many times this one, and so many bytes more."""
    notes: list[str] = field(default_factory=list)
    places: tuple[str, ...] = _PLACES
    """Which half of the table is in place."""
    header: PrintedHeader | None = None
    cpu_time: bool = False
    """Whether times end when the call returned."""
    header_lost: bool = False
    """Whether rows came without a header."""
    rows: list[PrintedRow] = field(default_factory=list)
    begun: dict[int, list[str]] = field(default_factory=dict)
    """The values of rows that are not whole, by the line where they begin."""
    joined: list[int] = field(default_factory=list)
    """The lines where rows begin that go on in later lines."""
    closed: bool = False
    next_programs: list[str] = field(default_factory=list)
    """Benchmarks named after the table: those of the next test."""
    iterations: int | None = None
    capped: bool = False
    """Whether the benchmark lowered its largest size for lack of memory."""
    unit: str = "line"
    """What the numbers of rows count."""
    largest: int | None = None
    """The largest size that was asked for."""
    failed: str = ""
    """The line that says that the test died."""
    settings: Settings = field(default_factory=dict)
    """Values of variables, for this test alone."""
    next_settings: Settings = field(default_factory=dict)
    """Values of variables, for the next test."""
    exported: Settings = field(default_factory=dict)
    """Values of variables, for all tests."""
    choices: Choices = field(default_factory=dict)
    """What NCCL says that it runs."""

    @property
    def per_second(self) -> float:
        """Units of time in a second."""
        return self.header.per_second if self.header else 1e6

    @property
    def over(self) -> bool:
        """Whether the next announcement is of another test: this one has its table, or died."""
        return self.header is not None or bool(self.failed)

    @property
    def announced(self) -> bool:
        """Whether nccl-tests says that it starts a test."""
        return self.threads is not None or self.started is not None

    def next(self) -> "LoggedTest":
        """The test after this one, with what the log says of it in advance."""
        return LoggedTest(programs=self.next_programs, settings=self.next_settings)


@dataclass
class LogTests:
    """All tests of a log."""

    runs: list[LoggedTest] = field(default_factory=lambda: [LoggedTest()])
    orphans: list[int] = field(default_factory=list)
    """Lines of rows outside any table."""
    long: list[int] = field(default_factory=list)
    """Lines that are too long to read."""
    exported: Settings = field(default_factory=dict)
    """Values of variables that were exported so far."""


def cut(text: str) -> LogTests:
    """The tests in the text of a log."""
    sections = LogTests()
    for line, content in numbered(text):
        if too_long(content):
            sections.long.append(line)
            continue
        if _MARK.search(content) and _read_mark(sections, line, content):
            continue
        _read_line(sections, line, content)
    return sections


def _read_line(sections: LogTests, line: int, content: str) -> None:
    run = sections.runs[-1]
    if run.header is None or run.closed:
        if _ROW.search(content[:4096]):
            sections.orphans.append(line)
            run.header_lost = run.header is None
        return
    text = run.header.strip(content)
    _read_row(run, run.header, line, values_of(text[:4096].replace("#", " ", 1)))


def _read_row(run: LoggedTest, header: PrintedHeader, line: int, values: list[str]) -> None:
    """Read a line with values. A row that mpirun tore between two values goes on in later lines."""
    is_piece = not header.begins_row(values)
    if not is_piece:
        run.begun[line] = values
    elif run.begun and values and not values[0].isalpha():
        line, first = run.begun.popitem()
        values = [*first, *values][: len(header.columns) + 1]
        run.begun[line] = values
    if row := header.row(line, values):
        if run.begun.pop(line, None) and is_piece:
            run.joined.append(line)
        run.rows.append(row)


def _read_mark(sections: LogTests, line: int, content: str) -> bool:
    """Read a line about a test; True for what is no row: a header, or a choice of NCCL."""
    if "Bytes -> Algo" in content:
        # the first size may be announced before the table
        run = _preamble(sections) if sections.runs[-1].closed else sections.runs[-1]
        add_choice(run.choices, content)
        return True
    header = find_header(line, content)
    if header is None:
        _read_settings(sections, content)
    if header is not None:
        _open(sections, header)
    elif any(mark in content for mark in (*_BEGINS, "Using devices")) or _lists_device(
        sections.runs[-1], content
    ):
        _begin(sections, content)
        _read_preamble(_preamble(sections), content)
    else:
        _read_failure(sections, content)
        _read_remark(sections.runs[-1], content)
    return header is not None


def _read_failure(sections: LogTests, content: str) -> None:
    """Read a line that says that a test died.

    A line of nccl-tests counts for any test, other lines for a test that began and did not end.
    """
    failure, run = re.search(r"Test (?:[A-Z]{1,9} )?failure", content), sections.runs[-1]
    if failure and run.closed:
        run = _preamble(sections)
    started = run.header is not None or run.threads is not None or bool(run.devices)
    if not run.failed and (failure or (started and not run.closed and _DIED.search(content))):
        run.failed = content.strip()


def _read_settings(sections: LogTests, content: str) -> None:
    """Read what a line says of the library and its variables: of its own test, the next, or all."""
    run = sections.runs[-1]
    if "nccl-library=" in content:
        run = _preamble(sections)
        run.settings.pop(LIBRARY, None)
    for name, value, scope in settings(content):
        if scope == "all":
            sections.exported[name] = {value} if value else set()
            continue
        current = not run.over or (scope == "this" and not run.closed)
        (run.settings if current else run.next_settings).setdefault(name, set()).add(value)


def _lists_device(run: LoggedTest, content: str) -> bool:
    """Whether a line is of a list of devices; a piece of such a line counts only where a list can
    be."""
    entry = device(content)
    return entry is not None and (entry.rank >= 0 or run.header is None)


def _open(sections: LogTests, header: PrintedHeader) -> None:
    run = _preamble(sections)
    run.header, run.cpu_time = header, header.cpu_time
    run.exported = dict(sections.exported)


def _preamble(sections: LogTests) -> LoggedTest:
    """The test that a line announces: a new one if the current one has its table, or died."""
    if sections.runs[-1].over:
        sections.runs.append(sections.runs[-1].next())
    return sections.runs[-1]


def _begin(sections: LogTests, content: str) -> None:
    """Begin a new test if nccl-tests announces one after the list of devices: the current test
    hangs or died."""
    run = sections.runs[-1]
    if run.announced and run.devices and any(mark in content for mark in _BEGINS):
        sections.runs.append(run.next())


def _read_preamble(run: LoggedTest, content: str) -> None:
    if entry := device(content):
        run.devices.append(entry)
    if "Collective test starting" in content:
        run.started = next(iter(programs(content)), None)
    if threads := re.search(r"\bnThread ([0-9]{1,5}) nGpus ([0-9]{1,5})\b", content):
        run.threads = int(threads[1]) * int(threads[2])
    if largest := re.search(r"\bmaxBytes ([0-9]{1,18})\b", content):
        run.largest = int(largest[1])
    if iterations := re.search(r"warmup iters: [0-9]{1,9} iters: ([0-9]{1,9})\s", content):
        run.iterations = int(iterations[1])
    if step := re.search(r"\bstep: ([0-9]{1,15})\((factor|bytes)\)", content):
        amount = int(step[1])
        run.step = (amount, 0) if step[2] == "factor" else (1, amount)


def _read_remark(run: LoggedTest, content: str) -> None:
    if "Out of bounds" in content or "Avg bus" in content or "test concluded" in content:
        run.closed = run.header is not None
        _read_footer(run, content)
    elif all(place in content for place in _PLACES) and run.header is None:
        run.places = tuple(sorted(_PLACES, key=content.find))
    elif "# " in content and content.rstrip().endswith(" in-place") and run.header is None:
        run.places = ("in-place", "out-of-place")
    elif note := re.search(r"Reducing maxBytes to [0-9]{1,20}[ a-z]{0,60}", content):
        run.notes.append(note[0].strip())
        run.capped = True
    elif run.header is None:
        run.nranks |= {int(count) for count in re.findall(r"\bnranks ([0-9]{1,7})\b", content)}
    (run.next_programs if run.over else run.programs).extend(programs(content))


def _read_footer(run: LoggedTest, content: str) -> None:
    if failed := re.search(r"Out of bounds values\s{0,9}:\s{0,9}[0-9]{1,20} FAILED", content):
        run.notes.append(failed[0])
    if "test concluded" in content and run.header is not None:
        run.programs = run.programs or programs(content)
