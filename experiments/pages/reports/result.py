"""What a command answers: printed, stored, and written as a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments import output
from experiments.answer_blocks import Remarks, Story, to_text
from experiments.answer_files import Files
from experiments.output import Record
from topologies.units import format_bandwidth, format_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.pictures.timelines.spans import Spans
    from simulator.profile import Profile
    from topologies.catalogue import Blueprint

STORIES = {
    "run": "collective_story:one",
    "groups": "collective_story:several",
    "workload": "collective_story:workload",
    "sweep": "sweep_story:story",
    "train": "training_story:one",
    "runs": "training_story:several",
    "learn": "training_story:learning",
    "plan": "plan_story:one",
    "plans": "plan_story:search",
    "validate": "validation_story:validated",
    "judge": "validation_story:judged",
    "calibrate": "validation_story:calibrated",
    "diagnose": "diagnosis_story:curves",
    "job": "diagnosis_story:job",
    "expect": "diagnosis_story:expected",
    "status": "diagnosis_story:status",
    "recommend": "recommendation_story:story",
    "winners": "recommendation_story:winners",
    "explain": "recommendation_story:explained",
    "placement": "recommendation_story:placement",
    "serve": "serving_story:story",
}
"""Module and function that tell a kind of result."""
DRAWINGS = {
    "sweep": "sweep_curves:sweep_drawing",
    "runs": "training_curves:training_drawing",
    "learn": "result_curves:learning_drawing",
    "plans": "result_curves:memory_drawing",
    "validate": "result_curves:validation_drawing",
    "judge": "result_curves:prediction_drawing",
    "diagnose": "result_curves:diagnosis_drawing",
    "recommend": "result_curves:recommendation_drawing",
    "winners": "cell_maps:winner_map_drawing",
    "serve": "result_curves:serving_drawing",
    "machine": "machines.machine_picture:machine_drawing",
}
"""Module and function that draw a picture of a kind of result."""


class Picture(NamedTuple):
    """A figure of matplotlib, drawn when a file or a page needs it."""

    title: str
    arguments: tuple[Any, ...]
    """Those of the function in `DRAWINGS`."""
    name: str = ""
    """What the name of its file has before the ending, if there are several."""
    is_urgent: bool = False
    """Whether a page shows it before the others."""


def _function(package: str, name: str) -> Callable[..., Any]:
    module, _, name = name.partition(":")
    function: Callable[..., Any] = getattr(import_module(f"{package}.{module}"), name)
    return function


@dataclass(frozen=True)
class Result:
    """An answer and how it was made."""

    kind: str
    """The key of its story in `STORIES`."""
    report: Any
    """The output of `--format json`."""
    records: Sequence[Record] = ()
    """The rows of `--format csv`."""
    parameters: Record = field(default_factory=dict)
    """The options as the user writes them."""
    machine: Blueprint | None = None
    """The simulated machine: the terminal describes it, and its assumptions are named."""
    profile: Profile | None = None
    pictures: Sequence[Picture] = ()
    remarks: Sequence[str] = ()
    """Sentences on what the answer does not contain."""
    words: Mapping[str, Any] = field(default_factory=dict)
    """Facts that only the command knows that made the answer: they are not stored."""
    stored_origin: Mapping[str, Any] | None = None
    """That of a file."""
    spans: Spans | None = None
    """The intervals of a timeline."""
    use: Mapping[str, Any] | None = None
    """The links of the machine and their use."""
    memory: Mapping[str, Any] | None = None

    @cached_property
    def origin(self) -> Mapping[str, Any]:
        """Versions, parameters, files and the command, as `output.provenance` has them."""
        if self.stored_origin is not None:
            return self.stored_origin
        made: dict[str, Any] = json.loads(output.provenance(**self.parameters))
        return made

    def stated(self, name: str) -> Any:
        """An option as the user wrote it."""
        stored = self.stored_origin
        return (self.parameters if stored is None else stored.get("parameters", {})).get(name)

    @property
    def level(self) -> str:
        """The share of runs that intervals hold; empty if it is not known."""
        sure = self.profile and self.profile.uncertainty
        return f"{sure.level:.0%}" if sure else ""

    @property
    def interval(self) -> str:
        """The meaning of an interval, in a line."""
        return f"interval: of {f'{self.level} of runs' if self.level else 'a run'}."

    @property
    def story(self) -> Story:
        """The answer in words."""
        story: Story = _function("experiments.pages.reports", STORIES[self.kind])(self)
        return story

    def draw(self, picture: Picture) -> Figure:
        """One of the pictures."""
        drawing = _function("experiments.pictures", DRAWINGS[self.kind])
        figure: Figure = drawing(*picture.arguments)
        return figure

    @property
    def left_out(self) -> list[str]:
        """Sentences on what the answer does not contain, with what the machine takes for granted:
        what is missing without a profile, and links that nobody measured or described."""
        lines = [*self.remarks]
        if self.machine is None:
            return lines
        known = self.profile.uncertainty if self.profile else None
        measured = self.profile and (known is None or len(known.residuals.seen) > 0)
        if self.machine.has_default_links and not measured:
            from topologies.catalogue import BANDWIDTH, LATENCY

            lines.append(
                f"The links of {self.machine.text} have the default bandwidth "
                f"{format_bandwidth(BANDWIDTH)} and latency {format_seconds(LATENCY)}, not those "
                "of your machine. Give --bandwidth and --latency, or a machine as --topology."
            )
        if self.stated("software"):
            lines.append(
                "Collectives take what NCCL was measured to take in nodes of A100, H100, H200 and "
                "B200, also between nodes and on other GPUs. links=ideal leaves it out, and "
                "--profile or --library takes that of another machine."
            )
        elif not self.profile:
            lines.append(
                "These times do not include the library's software, which starts collectives and "
                "sends messages. Real small messages are slower: --profile or --library includes "
                "the software."
            )
        return lines

    def show(self, how: str, text: Callable[[], str] | None = None) -> None:
        """Print the answer as json, csv or text; that of its story, unless there is another."""
        if how == "json":
            output.say(output.to_json(self.report))
        elif how == "csv":
            output.say(output.to_csv(self.records).rstrip("\n"))
        else:
            machine = f"{self.machine.description}\n\n" if self.machine else ""
            output.tell(f"{machine}{text() if text else self.text()}")

    def text(self, title: str | None = None) -> str:
        """The story as the terminal prints it, with another title."""
        story = self.story
        left_out = [*story.left_out, *self.left_out]
        missing = [Remarks("What this answer leaves out", left_out)] if left_out else []
        return to_text(story.title if title is None else title, [*story.blocks, *missing])

    def write(self, files: Files, subject: Any = None) -> None:
        """Write the answer to its files. Of its `subject`, what was simulated, there is a timeline,
        and a result has its spans, use and memory."""
        out, plot, report, timeline, _ = files
        if timeline and subject is not None:
            from experiments.pages.reports.run_details import draw

            draw(self, files, subject)
        if out and not output.is_result(out):
            output.write_table(out, self.records, output.provenance(**self.parameters))
        if plot:
            from experiments.pictures.figures import write_figures

            write_figures(plot, {each.name: partial(self.draw, each) for each in self.pictures})
        if not files.has_result:
            return
        whole = self
        if subject is not None:
            from experiments.pages.reports.run_details import details

            whole = replace(self, **details(self.kind, subject))
        if report:
            from experiments.pages.reports.report_file import page_of, write_page

            write_page(report, page_of(whole, pictures=report.suffix.lower() != ".md"))
        if out and output.is_result(out):
            from experiments.pages.reports.stored_files import to_bytes

            output.write(out, to_bytes(whole))

    def publish(self, files: Files, how: str, subject: Any = None) -> None:
        """Write the answer to its files, and print it."""
        self.write(files, subject)
        self.show(how)
