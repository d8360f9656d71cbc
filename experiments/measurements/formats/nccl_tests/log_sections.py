"""One log cut into its tests: what stands around each table, and the lines that may be its rows."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from experiments.measurements.formats.log_settings import LIBRARY, Said, settings
from experiments.measurements.formats.nccl_tests.participants import Device, device, programs
from experiments.measurements.formats.nccl_tests.printed_table import Header, find_header
from experiments.measurements.formats.nccl_tests.torn_rows import Line, Step, may_matter
from experiments.measurements.formats.text import numbered, too_long

_MARK = re.compile(
    r"algbw|_perf|\bRank\b|\bPid\b|nranks|nThread|Using devices|tests version|Out of bounds|Avg "
    r"bus|Reducing|-place"
    r"|[NR]CCL_|\bFI_|UCX_|OMPI_MCA|MPICH_|MPIR_CVAR|I_MPI|CCL "
    r"version|rccl-tests|[Ff]ailure|CANCELLED"
    r"|Exited with|signal|MPI_ABORT|Segmentation fault|Killed|job killed|BAD TERMINATION"
)
_FAILURE = re.compile(r"Test (?:[A-Z]{1,9} )?failure")
_DIED = re.compile(
    r"CANCELLED AT|Exited with exit code [1-9]|exited on signal|Caught signal"
    r"|MPI_ABORT was invoked|Segmentation fault|\bKilled\b|job killed|BAD TERMINATION"
)
_ITERATIONS = re.compile(r"warmup iters: [0-9]{1,9} iters: ([0-9]{1,9})\s")
_RANKS = re.compile(r"\bnranks ([0-9]{1,7})\b")
_THREADS = re.compile(r"\bnThread ([0-9]{1,5}) nGpus ([0-9]{1,5})\b")
_LARGEST = re.compile(r"\bmaxBytes ([0-9]{1,18})\b")
_STEP = re.compile(r"\bstep: ([0-9]{1,15})\((factor|bytes)\)")
_REDUCED = re.compile(r"Reducing maxBytes to [0-9]{1,20}[ a-z]{0,60}")
_FAILED = re.compile(r"Out of bounds values\s{0,9}:\s{0,9}[0-9]{1,20} FAILED")
_ROW = re.compile(
    r"\b[0-9]{1,18}[ \t]{1,20}[0-9]{1,18}[ "
    r"\t]{1,20}(?:u?int|float|half|double|bfloat|char|f8|fp8)\w{0,9} "
)
_LONGEST_ROW = 4096
_PLACES = ("out-of-place", "in-place")
_BEGINS = ("nThread", "nccl-tests version", "Collective test starting")
_PREAMBLE = (*_BEGINS, "Using devices")


@dataclass
class Run:
    """One run of a benchmark: its preamble, its header (None until it comes) and the lines below.

    `header_lost`: rows came, and no header above them.
    """

    devices: list[Device] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    started: str | None = None
    nranks: set[int] = field(default_factory=set)
    threads: int | None = None
    step: Step | None = None
    notes: list[str] = field(default_factory=list)
    places: tuple[str, ...] = _PLACES
    header: Header | None = None
    header_lost: bool = False
    lines: list[Line] = field(default_factory=list)
    closed: bool = False
    named_after: list[str] = field(default_factory=list)
    iterations: int | None = None
    capped: bool = False
    unit: str = "line"
    largest: int | None = None
    failed: str = ""
    own: Said = field(default_factory=dict)
    own_after: Said = field(default_factory=dict)
    exported: Said = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether what announces a test announces another one: this one has its table, or died
        before it."""
        return self.header is not None or bool(self.failed)

    @property
    def announced(self) -> bool:
        """Whether nccl-tests itself has said that it starts a test."""
        return self.threads is not None or self.started is not None

    def next(self) -> "Run":
        """The test after this one, with what was said of it in advance."""
        return Run(named=self.named_after, own=self.own_after)

    def said(self) -> Said:
        """What the log says of this test's environment: its own settings before those exported for
        all."""
        return self.exported | self.own


@dataclass
class Sections:
    """All tests of a log; the lines of rows outside any table, and of lines too long to read."""

    runs: list[Run] = field(default_factory=lambda: [Run()])
    orphans: list[int] = field(default_factory=list)
    long: list[int] = field(default_factory=list)
    exported: Said = field(default_factory=dict)

    def tables(self) -> Iterator[tuple[Run, Header]]:
        """The tests that came as far as a table."""
        for run in self.runs:
            if run.header is not None:
                yield run, run.header


def cut(text: str) -> Sections:
    """The tests in the text of a log."""
    sections = Sections()
    for line, content in numbered(text):
        if too_long(content):
            sections.long.append(line)
            continue
        if _MARK.search(content) and _read_mark(sections, line, content):
            continue
        _read_line(sections, line, content)
    return sections


def _read_line(sections: Sections, line: int, content: str) -> None:
    """Keep what may be a row."""
    run = sections.runs[-1]
    if run.header is None or run.closed:
        if _ROW.search(content[:_LONGEST_ROW]):
            sections.orphans.append(line)
            run.header_lost = run.header is None
        return
    text = run.header.strip(content)
    if text.lstrip().startswith("#"):
        text = text.replace("#", " ", 1)
        if run.header.row(line, text) is None:
            return
    if may_matter(text):
        run.lines.append((line, text))


def _read_mark(sections: Sections, line: int, content: str) -> bool:
    """Read a line with something to say about a test; whether it was a header, hence surely no
    row."""
    header = find_header(line, content)
    if header is None:
        _read_settings(sections, content)
    if header is not None:
        _open(sections, header)
    elif any(mark in content for mark in _PREAMBLE) or _lists_device(sections.runs[-1], content):
        _begin(sections, content)
        _read_preamble(_preamble(sections), content)
    else:
        _read_failure(sections, content)
        _read_remark(sections.runs[-1], content)
    return header is not None


def _read_failure(sections: Sections, content: str) -> None:
    """A line that says that a test died: nccl-tests' own of any test, others' of one that has begun
    and not ended."""
    own, run = _FAILURE.search(content), sections.runs[-1]
    if own and run.closed:
        run = _preamble(sections)
    begun = run.header is not None or run.threads is not None or bool(run.devices)
    if not run.failed and (own or (begun and not run.closed and _DIED.search(content))):
        run.failed = content.strip()


def _read_settings(sections: Sections, content: str) -> None:
    """What a line says of the library and forced choices: of its own test, of the next, or of all
    that follow."""
    run = sections.runs[-1]
    if "nccl-library=" in content:
        run = _preamble(sections)
        run.own.pop(LIBRARY, None)
    for name, value, scope in settings(content):
        if scope == "all":
            sections.exported[name] = {value} if value else set()
            continue
        here = not run.over or (scope == "this" and not run.closed)
        (run.own if here else run.own_after).setdefault(name, set()).add(value)


def _lists_device(run: Run, content: str) -> bool:
    """Whether a line is of a list of devices; a piece of such a line counts only where a list can
    be."""
    found = device(content)
    return found is not None and (found.rank >= 0 or run.header is None)


def _open(sections: Sections, header: Header) -> None:
    run = _preamble(sections)
    run.header = header
    run.exported = dict(sections.exported)


def _preamble(sections: Sections) -> Run:
    """The test that is being announced: a new one if the current one has its table already, or died
    before it."""
    if sections.runs[-1].over:
        sections.runs.append(sections.runs[-1].next())
    return sections.runs[-1]


def _begin(sections: Sections, content: str) -> None:
    """Begin a new test where nccl-tests announces one after the list of devices: the test before
    hangs or died."""
    run = sections.runs[-1]
    if run.announced and run.devices and any(mark in content for mark in _BEGINS):
        sections.runs.append(run.next())


def _read_preamble(run: Run, content: str) -> None:
    if found := device(content):
        run.devices.append(found)
    if "Collective test starting" in content:
        run.started = next(iter(programs(content)), None)
    if threads := _THREADS.search(content):
        run.threads = int(threads[1]) * int(threads[2])
    if largest := _LARGEST.search(content):
        run.largest = int(largest[1])
    if iterations := _ITERATIONS.search(content):
        run.iterations = int(iterations[1])
    if step := _STEP.search(content):
        amount = int(step[1])
        run.step = Step(factor=amount) if step[2] == "factor" else Step(bytes=amount)


def _read_remark(run: Run, content: str) -> None:
    if "Out of bounds" in content or "Avg bus" in content or "test concluded" in content:
        run.closed = run.header is not None
        _read_footer(run, content)
    elif all(place in content for place in _PLACES) and run.header is None:
        run.places = tuple(sorted(_PLACES, key=content.find))
    elif "# " in content and content.rstrip().endswith(" in-place") and run.header is None:
        run.places = ("in-place", "out-of-place")
    elif note := _REDUCED.search(content):
        run.notes.append(note[0].strip())
        run.capped = True
    elif run.header is None:
        run.nranks |= {int(count) for count in _RANKS.findall(content)}
    (run.named_after if run.over else run.named).extend(programs(content))


def _read_footer(run: Run, content: str) -> None:
    if failed := _FAILED.search(content):
        run.notes.append(failed[0])
    if "test concluded" in content and run.header is not None:
        run.named = run.named or programs(content)
