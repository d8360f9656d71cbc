"""What a command prints, and the files that it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import output
from experiments.text_lines import WIDEST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simulator.profile import Profile
    from simulator.schedules.timeline import Timeline
    from topologies.catalogue import Blueprint

Drawing = tuple[str, "Callable[[], Figure]"]
"""A title, and what draws the figure."""
Details = Callable[[], Mapping[str, Any]]
"""Makes what a result has besides its report, by field: spans, use and memory."""


def check_files(
    out: Path | None = None,
    plot: Path | None = None,
    report: Path | None = None,
    timeline: Path | None = None,
) -> None:
    """Raise InputError now, before any work, if a file cannot be written."""
    output.check_table(out)
    output.check_writable(plot, output.PICTURES)
    output.check_writable(report, output.REPORTS)
    for written in (out, out and output.meta_of(out)):
        files = {"timeline": timeline, "out": written, "plot": plot, "report": report}
        output.check_different(files)


def titled(title: str, rows: Sequence[Sequence[str]]) -> str:
    """A table, indented below its title."""
    lines = output.align(rows, WIDEST - 2).splitlines()
    return "\n".join([title, *(f"  {line}" for line in lines)])


@dataclass(frozen=True)
class Answer:
    """The answer of a command."""

    kind: str
    """The kind of a stored result."""
    report: Any
    """What json has."""
    records: Sequence[output.Record]
    """The table."""
    parameters: Mapping[str, output.Value] = field(default_factory=dict)
    """The options as the user writes them: stored with the result."""
    machine: Blueprint | None = None
    """The simulated machine. The text describes it, and a report names its assumptions."""
    profile: Profile | None = None
    pictures: Sequence[Drawing] = ()

    def show(self, how: str, text: Callable[[], str]) -> None:
        """Print the answer as json, csv or `text`."""
        if how == "json":
            output.say(output.to_json(self.report))
        elif how == "csv":
            output.say(output.to_csv(self.records).rstrip("\n"))
        else:
            machine = f"{self.machine.description}\n\n" if self.machine else ""
            output.tell(f"{machine}{text()}")

    def write(
        self,
        out: Path | None = None,
        plot: Path | None = None,
        report: Path | None = None,
        details: Details = dict,
    ) -> None:
        """Write the table or the result to `out`, and pictures and a report to their files. A
        result has `details`."""
        if out and not output.is_result(out):
            output.write_table(out, self.records, output.provenance(**self.parameters))
        if plot:
            from experiments.pictures.figure_file import write_figure

            for _, draw in self.pictures:
                write_figure(plot, draw())
        self._keep(out if output.is_result(out) else None, report, details)

    def _keep(
        self,
        out: Path | None,
        report: Path | None,
        details: Details,
        remarks: Sequence[str] = (),
    ) -> None:
        if not out and not report:
            return
        from experiments.pages.reports.kept import keep
        from experiments.pages.reports.result import Picture, Result, origin

        pictures = [Picture(*picture) for picture in self.pictures]
        left_out = [*remarks, *self._left_out()]
        made = self.kind, self.report, origin(self.parameters), pictures, left_out
        keep(Result(*made, **details()), out, report)

    def write_run(
        self, files: output.RunFiles, timeline: Timeline, title: str, remarks: Sequence[str] = ()
    ) -> None:
        """Draw the timeline of collectives, and write the result and a report."""
        if files.timeline:
            from experiments.pictures.timelines.timeline_file import write_collective

            write_collective(timeline, files, title, self.parameters)

        def details() -> Mapping[str, Any]:
            from experiments.pages.reports.kept import run_details

            return run_details(timeline)

        self._keep(files.out, files.report, details, remarks)

    def _left_out(self) -> list[str]:
        """Sentences on what the answer does not contain."""
        from experiments.pages.reports.assumptions import assumptions

        return assumptions(self.machine, profile=self.profile) if self.machine else []
