"""The files that the answer of a command is written to, and what of a run a trace has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from experiments import output
from topologies.errors import InputError

NO_TRANSFERS = "transfers=no"
CHAKRA = ".chakra"
"""The ending of a folder of Chakra traces. Without an ending it holds Kineto traces."""
WIDTH = 40
"""At most so many letters of a list of ranks are repeated in a message."""


def is_folder(timeline: Path | None) -> bool:
    """Whether a timeline is a folder of traces."""
    return timeline is not None and timeline.suffix in ("", CHAKRA)


class TraceChoice(NamedTuple):
    """The part of a run that a trace shows."""

    ranks: tuple[int, ...] | None = None
    """The ranks in order; None: all."""
    transfers: bool = True
    """Whether the transfers of the ranks are events."""
    text: str = ""
    """The ranks as the user writes them."""

    @property
    def options(self) -> list[str]:
        """The options that the user gives."""
        chosen = [] if self.ranks is None else [f"--ranks {self.text[:WIDTH]}"]
        return [*chosen, *(() if self.transfers else (f"--ranks {NO_TRANSFERS}",))]

    def check(self, timeline: Path | None) -> None:
        """Raise InputError if there is no such trace."""
        if not self.options:
            return
        option, suffix = self.options[0], timeline.suffix.lower() if timeline else None
        if suffix is None or suffix not in ("", ".json", CHAKRA):
            why = "pictures have all ranks" if suffix else "there is no trace"
            raise InputError(f"{option}: {why}, take --timeline FILE.json")
        if suffix == CHAKRA:
            raise InputError(f"{option}: Chakra traces have all of a run, leave it out")
        if suffix == "" and not self.transfers:
            raise InputError(
                f"--ranks {NO_TRANSFERS}: Kineto traces never have transfers, leave it out"
            )

    def of(self, ranks: int, what: str = "ranks") -> list[int]:
        """The chosen ones of so many ranks. Raises InputError if there are fewer."""
        if self.ranks is None:
            return [*range(ranks)]
        if self.ranks[-1] >= ranks:
            raise InputError(
                f"--ranks {self.text[:WIDTH]}: rank {self.ranks[-1]} is not in the trace, which "
                f"has {ranks} {what}, 0 to {ranks - 1}"
            )
        return [*self.ranks]


ALL = TraceChoice()


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
