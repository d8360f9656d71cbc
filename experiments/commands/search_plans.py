"""`simctl train --plan auto`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments import output
from experiments.commands.answer import Answer, check_files
from experiments.parallel.plan_errors import span_of
from experiments.parallel.plan_search import SearchResult, find_plans, with_intervals
from experiments.parallel.plan_space import Space
from experiments.parallel.plan_step import Setting
from experiments.parallel.search_report import report, rows, text
from experiments.profiles.interval_levels import level_of
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from topologies.topology import Topology

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class SearchRequest(Setting):
    """What to search."""

    gpus: int
    """The GPUs of the job."""
    values: Mapping[str, object]
    """What all plans have."""

    def searched(self) -> SearchResult:
        """The fastest plans."""
        topology = self.machine.build(self.gpus)
        run, degrees = self.rules.run, Degrees(dp=self.gpus)
        times = GroupTimes(topology, degrees, profile=self.profile, run=run)
        size, span = node_size(topology, self.gpus), span_of(topology, self.gpus)
        space = Space(self.training, self.gpus, size, self.values, span)
        found, level = find_plans(space, times, output.Progress), level_of(self.profile)
        return with_intervals(found, times, level) if level else found

    def records(self) -> list[output.Record]:
        """The rows of the table."""
        return [*rows(self.searched())]


def node_size(topology: Topology, gpus: int) -> int:
    """GPUs of the first node; all of a machine without nodes."""
    node = topology.node[topology.placement[:gpus]]
    return int(np.count_nonzero(node == node[0])) if node[0] >= 0 else gpus


def run(
    request: SearchRequest, out: Path | None, plot: Path | None, how: str, page: Path | None = None
) -> int:
    """Print the fastest plans, and why each loses."""
    check_files(out, plot, page)
    searched = request.searched()
    answer = Answer(
        "plans",
        report(searched),
        rows(searched),
        request.parameters,
        request.machine,
        request.profile,
        [("Memory of the fastest plans", partial(_memory, searched))],
    )
    answer.write(out, plot, page)
    answer.show(how, lambda: text(searched))
    return 0


def _memory(searched: SearchResult) -> Figure:
    from experiments.pictures.plan_pictures import memory_drawing

    return memory_drawing(searched)
