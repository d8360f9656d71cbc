"""A command line run in this process, and what is wrong with what came of it."""

import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from fuzz_findings import place_of

MAY_FAIL = ("validate", "diagnose", "measure")
"""Commands that end with 1 for what they find; of the others 1 would be a bug of the simulator."""
_BUGS = (
    "Traceback",
    "bug in simctl",
    " encountered in ",
    "cannot write the output",
    "object at 0x",
)
_LINE = 4000
STEERING = {chr(code) for code in (*range(32), *range(127, 160), 0x202E)} - {"\n", "\t"}
"""Characters by which foreign text would steer a terminal."""


class Done(NamedTuple):
    """The exit code, what was printed, and the place of an exception that came through."""

    words: Sequence[str]
    code: int
    out: str
    err: str
    broken: str = ""

    @property
    def is_partial(self) -> bool:
        """Whether some points of a sweep failed and the others were printed or kept."""
        return self.words[0] == "sweep" and self.code == 2 and "note: failed " in self.err


def run(words: Sequence[str]) -> Done:
    """What `simctl` with these words does."""
    from experiments.cli import main

    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["simctl", *words]
    code, broken = -1, ""
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else -1
    except Exception as error:
        broken = f"{place_of(error)}: {str(error)[:150]!r}"
    finally:
        sys.argv = before
    return Done(words, code, out.getvalue(), err.getvalue(), broken)


def mistakes(done: Done) -> Iterator[str]:
    """What is wrong, in words; nothing where all is as it must be."""
    if done.broken:
        yield done.broken
        return
    allowed = (0, 1, 2) if done.words[0] in MAY_FAIL else (0, 2)
    if done.code not in allowed:
        yield f"exit code {done.code}"
    if steering := set(done.out + done.err) & STEERING:
        yield f"{min(steering)!r} is printed"
    yield from (f"{bug!r} is printed" for bug in _BUGS if bug in done.err or bug in done.out)
    lines = [line for line in done.err.splitlines() if not line.startswith(("note: ", "  "))]
    if done.code == 2 and not done.is_partial:
        yield from _refusal(done, lines)
    elif not done.out and not done.err:
        yield "no output"
    elif done.code == 0 or done.is_partial:
        yield from _answer(done)


def _refusal(done: Done, lines: Sequence[str]) -> Iterator[str]:
    if len(lines) != 1:
        yield f"{len(lines)} lines for a mistake"
    elif not lines[0].startswith("simctl: ") or len(lines[0]) < 20:
        yield "an unclear line for a mistake"
    elif len(lines[0]) > _LINE:
        yield f"a line of {len(lines[0])} characters for a mistake"
    if done.out and done.words[0] != "measure":
        yield "output beside a mistake"


def _answer(done: Done) -> Iterator[str]:
    if "-h" in done.words or "--help" in done.words:
        return
    how = _format(done.words)
    try:
        if how == "json":
            json.loads(done.out, parse_constant=_refused)
        if (
            how == "csv"
            and len({len(row) for row in csv.reader(io.StringIO(done.out), strict=True)}) > 1
        ):
            yield "rows of several lengths"
    except (ValueError, csv.Error) as error:
        yield f"no {how}: {str(error)[:60]}"


def _format(words: Sequence[str]) -> str:
    """The last that is asked for."""
    values = [
        after for word, after in zip(words, [*words[1:], ""], strict=True) if word == "--format"
    ]
    return values[-1] if values else "table"


def _refused(name: str) -> None:
    raise ValueError(f"{name} in JSON")
