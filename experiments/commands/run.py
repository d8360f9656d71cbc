"""`simctl run`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from experiments import output
from experiments.options.completion import complete_algorithms
from experiments.options.options import (
    ALGORITHM_HELP,
    AlgorithmFile,
    FormatOptions,
    Report,
    Size,
    option,
)
from experiments.options.pattern_options import PatternOptions
from experiments.options.profile_options import SimulationOptions
from experiments.options.run_options import TraceOptions
from experiments.options.values import (
    names_of,
    parse_algorithm,
    parse_algorithms,
    parse_rank_count,
    usual_ranks,
)
from experiments.pages.reports.result import Result
from topologies.errors import InputError
from topologies.units import parse_bytes

if TYPE_CHECKING:
    from experiments.simulations.case import Case
    from simulator.collectives import Algorithm
    from simulator.collectives.proof import WrongAlgorithm
    from simulator.schedules.timeline import ProfileRun
    from simulator.schedules.timeline import Timeline as Simulated

Answer = tuple[Result, "Simulated", bool]
"""An answer, what was simulated, and whether a check failed."""


@dataclass(frozen=True, kw_only=True)
class CollectiveRun(PatternOptions, SimulationOptions, TraceOptions, FormatOptions):
    """Simulate one collective and explain where its time goes.

    The report has the critical path, the busiest links, and what would help. With --groups several
    collectives run at once, and each is compared with its time alone.
    """

    EXAMPLES: ClassVar = ("run ring --p 8 --size 1GiB --timeline ring.png",)

    algo: str | None = option(ALGORITHM_HELP, word="[ALGO]", autocompletion=complete_algorithms)
    algo_file: AlgorithmFile = None
    p: str | None = option(
        "The number of ranks.  [default: all of the machine; 8 of a shape; with --matrix "
        "what the file says]",
        "--p",
        "--gpus",
    )
    size: Size = None
    groups: str | None = option(
        'Collectives of groups at once: "0-7;8-15" or "0-3 tree 1MiB; 0,4 stream=1 after=0".'
    )
    chakra: Path | None = option(
        "The workload of Chakra traces: a FOLDER of NAME.RANK.et. --algo may name an "
        "algorithm of each collective."
    )
    timeline: Path | None = option(
        "Draw what each rank does over time: FILE.png, .svg, .pdf, or .json for Perfetto.",
        "--timeline",
        "--plot",
        writable=True,
    )
    out: Path | None = option(
        "Store the result for simctl report: FILE.json.", "--out", writable=True
    )
    report: Report = None

    @cached_property
    def _algorithm(self) -> Algorithm:
        chosen = parse_algorithm(self.algo, self.algo_file, self.library_choices)
        return self.patterned(chosen)

    @cached_property
    def _count(self) -> str:
        return self.count_text(self.p, partial(usual_ranks, self.machine, [self._algorithm], "8"))

    @cached_property
    def _nbytes(self) -> float:
        return parse_bytes(self.size_text(self.size))

    @property
    def resolved(self) -> output.Record:
        """The machine, the algorithm and the point that are simulated; of Chakra traces the
        machine."""
        if self.chakra is not None:
            return super().resolved
        algorithm = self.algo or names_of(self._algorithm)
        point = {"algo": algorithm, "size": self.size_text(self.size)}
        ranks = {} if self.groups else {"p": self._count}
        return {**super().resolved, **point, **ranks}

    def run(self) -> int:
        """Print one collective in full, or several at once; 1 if a check failed."""
        self.written_files.check((output.RESULT,))
        if self.chakra is not None:
            answer, timeline, failed = self._workload(self.chakra)
        elif self.groups is not None:
            answer, timeline, failed = self._several(self.groups)
        else:
            answer, timeline, failed = self._one()
        answer.publish(self.written_files, self.format, timeline)
        return int(failed)

    def _one(self) -> Answer:
        from experiments.names import wait_records
        from experiments.simulations.algorithm_remarks import ineffective_labels, unmeant_sizes
        from experiments.simulations.sweep_rows import judge
        from simulator.analysis.critical_path import critical_path, parts, waits, worth

        progress = output.Progress("built and proven, simulated, explained")
        case, outcome = self._simulated(progress)
        row, path, result = judge(case, outcome), critical_path(outcome.timeline), outcome.timeline
        algorithms, build = [self._algorithm], self.machine.build
        labels = ineffective_labels(self.calibration, algorithms, [case.ranks], build)
        output.note(*labels, *unmeant_sizes(algorithms, [row.size_B]))
        progress(3, 3)
        behind = waits(result, path)
        report = {
            "summary": row.record(),
            "critical_path_s": {**outcome.overheads, **parts(path)},
            "contention": wait_records(behind, result.schedule),
            "busiest": _busiest(result),
            "worth_s": dict(worth(path)),
            "chosen": list(case.chosen),
            "ranks_simulated": row.ranks // result.schedule.members,
            **({} if row.unsure is None else {"unsure": list(row.unsure)}),
            **({"grid_s": result.grid, "grid_error_s": result.grid_error} if result.grid else {}),
        }
        about = self.parameters, self.machine, self.calibration
        return Result("run", report, [row.record()], *about), result, row.verdict.failed

    def records(self) -> list[output.Record]:
        """The row, without printing it."""
        from experiments.simulations.sweep_rows import judge

        case, outcome = self._simulated(output.Progress("built and proven, simulated"))
        return [judge(case, outcome).record()]

    def _simulated(self, progress: output.Progress) -> tuple[Case, ProfileRun]:
        from experiments.simulations import workload
        from experiments.simulations.case import Case
        from simulator.collectives.proof import WrongAlgorithm

        algorithm, nbytes = self._algorithm, self._nbytes
        ranks = parse_rank_count(self._count)
        rules, profile, build = self.rules, self.calibration, self.machine.build
        if self.written_files.is_trace:
            # A trace has events of all ranks, of which none stands for others.
            rules = rules._replace(symmetry="off")
        points = [workload.Estimates(build, rules, profile).point(algorithm, ranks)]
        if not self.force:
            workload.check_points(points, 1, jobs=1)
        workload.announce(points, 1, jobs=1)
        topology = build(ranks, algorithm.servers)
        try:
            case = Case(algorithm, ranks, topology, rules, profile).tuned(nbytes)
        except WrongAlgorithm as error:
            raise InputError(f"{error}{_drawn(error, self.timeline)}") from None
        if self.written_files.is_trace:
            self.written_files.trace.of(case.schedule.ranks)
        progress(1, 3)
        outcome = case.run(nbytes)
        progress(2, 3)
        return case, outcome

    def _several(self, text: str) -> Answer:
        """Simulate collectives of groups. Raises InputError for options that they do not take."""
        from experiments.commands import run_groups

        self.refuse(("profile", "library"), ": leave one of them out", "--groups and ")
        calls = run_groups.parse_groups(text, self._algorithm, self._nbytes)
        most = max(max(call.ranks) for call in calls) + 1
        ranks = most if self.p is None else parse_rank_count(self.p)
        result, timeline = run_groups.simulated(calls, max(2, ranks), self)
        return result, timeline, bool(result.report["wrong"])

    def _workload(self, folder: Path) -> Answer:
        """Simulate Chakra traces. Raises InputError for options that they do not take."""
        from experiments.commands import run_chakra

        unused = ("algo_file", "p", "size", "groups", "profile", "library", "level")
        names = (*unused, "root", "skew", "matrix")
        self.refuse(names, ": leave one of them out", "--chakra and ")
        chosen = [] if self.algo is None else parse_algorithms(self.algo)
        return *run_chakra.simulated(folder, chosen, self), False


def _busiest(timeline: Simulated) -> list[output.Record]:
    """The eight media of the machine that carried most, most used first."""
    import numpy as np

    share, nbytes = timeline.utilisation(), timeline.medium_bytes()
    names, standing = timeline.routed.machine.medium_names, timeline.routed.standing
    if len(standing):
        share, nbytes = (np.append(column, 0.0)[standing] for column in (share, nbytes))
    order = np.lexsort((np.arange(len(share)), -np.round(nbytes, 3), -np.round(share, 12)))
    return [
        {"medium": names[m], "busy": float(share[m]), "bytes_B": float(nbytes[m])}
        for m in order[:8].tolist()
        if nbytes[m] > 0
    ]


def _drawn(error: WrongAlgorithm, path: Path | None) -> str:
    if path is None or output.is_result(path) or not error.wrong.size:
        return ""
    from experiments.pictures.cell_maps import wrong_drawing
    from experiments.pictures.figures import write_figure

    write_figure(path, wrong_drawing(error))
    return f" (drawn in {path})"
