"""The files that the answer of a command is written to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from experiments import output
from experiments.trace_choice import ALL, TraceChoice, is_folder


class Files(NamedTuple):
    """The files that an answer is written to, by the options that name them."""

    out: Path | None = None
    """The table, or the result for `simctl report`."""
    plot: Path | None = None
    report: Path | None = None
    timeline: Path | None = None
    trace: TraceChoice = ALL
    """What the timeline has if it is a trace."""

    @property
    def is_trace(self) -> bool:
        """Whether the timeline is a trace in one file."""
        return output.is_result(self.timeline)

    @property
    def has_result(self) -> bool:
        """Whether a file gets the result or a report, and not a table alone."""
        return self.report is not None or output.is_result(self.out)

    def check(
        self, endings: Sequence[str] = (*output.TABLES, output.RESULT), *, folders: bool = False
    ) -> None:
        """Raise InputError now, before any work, if a file cannot be written. `endings` are those
        of `out`; timelines may be `folders`, which are checked when the ranks are known."""
        self.trace.check(self.timeline)
        if not folders or not is_folder(self.timeline):
            output.check_writable(self.timeline, (*output.PICTURES, output.RESULT))
        output.check_table(self.out, endings)
        output.check_writable(self.plot, output.PICTURES)
        output.check_writable(self.report, output.REPORTS)
        others = {"plot": self.plot, "report": self.report}
        for written in (self.out, self.out and output.meta_of(self.out)):
            output.check_different({"timeline": self.timeline, "out": written, **others})
