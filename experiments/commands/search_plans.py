"""`simctl train --plan auto`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from experiments import output
from experiments.parallel.plan_errors import span_of
from experiments.parallel.plan_search import SearchResult, find_plans, with_intervals
from experiments.parallel.plan_space import Space
from experiments.parallel.plan_step import Training
from experiments.parallel.search_report import report, rows, text
from experiments.profiles.interval_levels import level_of
from experiments.simulations.rules import DEFAULT, Rules
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.profile import Profile
from topologies.catalogue import Blueprint
from topologies.topology import Topology


@dataclass(frozen=True)
class SearchRequest:
    """What to search."""

    training: Training
    """The model on a device."""
    machine: Blueprint
    """The machine."""
    gpus: int
    """The GPUs of the job."""
    values: Mapping[str, object] = field(default_factory=dict)
    """What all plans have."""
    rules: Rules = DEFAULT
    """How to simulate collectives."""
    profile: Profile | None = None
    """A calibrated library, whose protocols are simulated."""
    parameters: Mapping[str, output.Value] = field(default_factory=dict)
    """The options as the user writes them: stored with the result."""

    def searched(self) -> SearchResult:
        """The fastest plans."""
        topology = self.machine.build(self.gpus)
        run, degrees = self.rules.run, Degrees(dp=self.gpus)
        times = GroupTimes(topology, degrees, profile=self.profile, run=run)
        size, span = node_size(topology, self.gpus), span_of(topology, self.gpus)
        space = Space(self.training, self.gpus, size, self.values, span)
        found, level = find_plans(space, times, _Progress()), level_of(self.profile)
        return with_intervals(found, times, level) if level else found


class _Progress:
    """A line on stderr for each kind of work."""

    def __init__(self) -> None:
        self.lines: dict[str, output.Progress] = {}

    def __call__(self, noun: str, done: int, total: int) -> None:
        """Say how far the work has come."""
        for other, line in self.lines.items():
            if other != noun:
                line.clear()
        self.lines.setdefault(noun, output.Progress(noun))(done, total)


def node_size(topology: Topology, gpus: int) -> int:
    """GPUs of the first node; all of a machine without nodes."""
    node = topology.node[topology.placement[:gpus]]
    return int(np.count_nonzero(node == node[0])) if node[0] >= 0 else gpus


def run(
    request: SearchRequest, out: Path | None, plot: Path | None, how: str, page: Path | None = None
) -> int:
    """Print the fastest plans, and why each loses."""
    output.check_table(out)
    output.check_writable(plot, output.PICTURES)
    output.check_writable(page, output.REPORTS)
    output.check_different({"out": out, "plot": plot, "report": page})
    searched = request.searched()
    records = [asdict(row) for row in rows(searched)]
    if out and not output.is_result(out):
        output.write_table(out, records, output.provenance(**request.parameters))
    if plot:
        from experiments.pictures.figure_file import write_figure
        from experiments.pictures.plan_pictures import memory_drawing

        write_figure(plot, memory_drawing(searched))
    if page or output.is_result(out):
        _keep(searched, request, out if output.is_result(out) else None, page)
    if how == "csv":
        output.say(output.to_csv(records).rstrip("\n"))
    elif how == "json":
        output.say(output.to_json(report(searched)))
    else:
        output.say(f"{request.machine.description}\n\n{text(searched)}")
    return 0


def _keep(
    searched: SearchResult, request: SearchRequest, out: Path | None, page: Path | None
) -> None:
    from experiments.pages.reports.assumptions import assumptions
    from experiments.pages.reports.kept import keep
    from experiments.pages.reports.result import Picture, Result, origin
    from experiments.pictures.plan_pictures import memory_drawing

    picture = Picture("Memory of the fastest plans", lambda: memory_drawing(searched))
    missing = assumptions(request.machine, profile=request.profile)
    made = origin(request.parameters)
    keep(Result("plans", report(searched), made, [picture], left_out=missing), out, page)
