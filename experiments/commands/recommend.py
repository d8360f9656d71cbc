"""`simctl recommend`: the best algorithm by size, or which wins where by size and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from experiments import output
from experiments.options.completion import complete_algorithms
from experiments.options.machine_options import library_of
from experiments.options.options import CollectiveName, ReportOptions, option
from experiments.options.profile_options import SimulationOptions
from experiments.options.values import parse_algorithms, parse_ranks, usual_ranks
from experiments.pages.reports.result import Picture, Result
from topologies.errors import InputError
from topologies.units import format_bytes, parse_bytes, parse_sizes

if TYPE_CHECKING:
    from experiments.simulations.recommendation import Advice, Question
    from experiments.simulations.winners import Line

USUAL_SIZES = "1KiB..1GiB:x4"
PLAN_SIZES = "1MiB,64MiB,1GiB"


@dataclass(frozen=True, kw_only=True)
class Recommend(SimulationOptions, ReportOptions):
    """Say which algorithm is best at each size, and why.

    The table has the algorithm, its protocol, channels and messages, how far it is from the best
    lower bound, and what it gains over the default of the library. With several numbers of ranks,
    the table is a map: the winner at each size and number, and its lead over the second. The
    collective is all_reduce, if neither --collective nor --algo says another one.
    """

    EXAMPLES: ClassVar = (
        "recommend --topology hgx_h100:nodes=2 --collective all_reduce --nccl-tuner tuner.csv",
    )

    algo: str | None = option(
        "Choose from these algorithms, comma-separated.  [default: all]",
        autocompletion=complete_algorithms,
    )
    collective: CollectiveName = None
    p: str | None = option("Numbers of ranks: 8, 8..128:x2. Several make a map.", "--p", "--gpus")
    size: str | None = option(f"Sizes as nccl-tests counts them.  [default: {USUAL_SIZES}]")
    explain: str | None = option("Compare all algorithms at this one size, like 64KiB.")
    plan: str | None = option(
        "Say what the hosts of --placement cost the collectives of a plan: tp=8,pp=2."
    )
    nccl_tuner: Path | None = option(
        "Write FILE.csv or .conf for the example tuner plugin of NCCL.", writable=True
    )

    @cached_property
    def sizes(self) -> list[float]:
        """In bytes, from the least."""
        return sorted(parse_sizes(self.size or USUAL_SIZES))

    @cached_property
    def point(self) -> float | None:
        """The size at which all algorithms are compared, in bytes."""
        return None if self.explain is None else parse_bytes(self.explain)

    @cached_property
    def ranks(self) -> list[int]:
        """Numbers of ranks; several make a map."""
        from simulator.collectives import of_collective

        listed = of_collective(self.question.collective)
        return parse_ranks(usual_ranks(self.machine, listed, "8") if self.p is None else self.p)

    @cached_property
    def question(self) -> Question:
        """The question without its number of ranks. Raises InputError for options that have no
        meaning."""
        from experiments.calibration import libraries
        from experiments.calibration.libraries import NCCL
        from experiments.simulations.recommendation import Question
        from simulator.collectives import of_collective

        chosen = tuple(parse_algorithms(self.algo)) if self.algo else ()
        usual = chosen[0].collective.name if chosen else "all_reduce"
        name = of_collective(self.collective or usual)[0].collective.name
        if other := next((each for each in chosen if each.collective.name != name), None):
            raise InputError(f"--algo {other.name}: it is {other.collective.name}, expected {name}")
        known = library_of(self.profile, self.library)
        if self.nccl_tuner is not None and known not in (None, NCCL):
            raise InputError(f"--nccl-tuner {self.nccl_tuner}: it is NCCL's, the library is not")
        runs = self.calibration.runs if self.calibration else None
        if self.nccl_tuner is not None:
            runs = partial(libraries.runs, NCCL.on(self.machine))
        return Question(name, 0, self.machine.build, self.rules, self.calibration, runs, chosen)

    @property
    def resolved(self) -> output.Record:
        """The machine, the collective and the points; of a plan the machine and its sizes."""
        if self.plan is not None:
            return {**super().resolved, "size": self.size or PLAN_SIZES}
        size = format_bytes(self.point) if self.point else self.size or USUAL_SIZES
        points = {"p": ",".join(map(str, self.ranks)), "size": size}
        return {**super().resolved, "collective": self.question.collective, **points}

    def records(self) -> list[output.Record]:
        """The rows, without printing them."""
        if self.plan is not None:
            return [*_placed(self).records]
        answer, _ = _advised(self)
        return [*answer.records]

    def run(self) -> int:
        """Print the best algorithms; 0."""
        from experiments.simulations.winners import check_tuner, write_tuner

        if self.explain is not None:
            names, alone = ("size", "plot", "nccl_tuner"), f"--explain {self.explain} and "
            self.refuse(names, ": leave one of them out", alone)
            if len(self.ranks) > 1:
                raise InputError(
                    f"--explain {self.explain}: give one number of ranks in --p, not {self.p}"
                )
        self.written_files.check()
        output.check_writable(self.nccl_tuner, (".csv", ".conf"))
        if self.nccl_tuner:
            check_tuner(self.question.collective, self.sizes[0])
        if self.plan is not None:
            answer = _placed(self)
        elif self.explain is not None:
            answer = _explained(self)
        else:
            answer, lines = _advised(self)
        if self.nccl_tuner:  # --explain goes without it
            write_tuner(self.nccl_tuner, lines, _title(self), self.calibration)
        answer.publish(self.written_files, self.format)
        return 0


def _answer(
    request: Recommend,
    kind: str,
    report: Any,
    records: Sequence[output.Record],
    drawn: Sequence[Any] = (),
) -> Result:
    """An answer, with a picture of a title and its arguments."""
    about = request.parameters, request.machine, request.calibration
    pictures = [Picture(drawn[0], tuple(drawn[1:]))] if drawn else []
    return Result(kind, report, records, *about, pictures)


def _advised(request: Recommend) -> tuple[Result, list[Line]]:
    """The best algorithm of each number of ranks and size; of several numbers, a map of winners."""
    from experiments.simulations.winners import tuner_lines, winner

    several, sizes = len(request.ranks) > 1, request.sizes
    rows: list[Any] = []
    lines: list[Line] = []
    untried: dict[tuple[str, str], None] = {}
    progress = output.Progress("points" if several else "sizes")
    total = len(request.ranks) * len(sizes)
    for ranks in request.ranks:
        answers = replace(request.question, ranks=ranks)
        untried.update(dict.fromkeys(answers.untried.items()))
        for size in sizes:
            progress(len(rows), total)
            rows.append(winner(answers, size) if several else answers.advice(size))
        lines += tuner_lines(answers, sizes) if request.nccl_tuner else []
    progress(total, total)
    records, title = [row.record() for row in rows], _title(request)
    collective, where = request.question.collective, {"machine": request.machine.text}
    not_tried = {"not_tried": [{"name": name, "why": why} for name, why in untried]}
    if several:
        report: Any = {"collective": collective, **where, "winners": records, **not_tried}
        title += ": the fastest algorithm by size and ranks"
        return _answer(request, "winners", report, records, ("Who wins where", rows, title)), lines
    crossovers = answers.crossovers(sizes)
    changes = [vars(crossover) for crossover in crossovers]
    report = {"collective": collective, "ranks": ranks, **where, "advice": records}
    report |= {"crossovers": changes, **not_tried}
    drawn = "All sizes", rows, partial(_curves, answers, rows), crossovers, title
    return _answer(request, "recommend", report, records, drawn), lines


def _placed(request: Recommend) -> Result:
    from experiments.parallel.plan_text import parse_plan
    from experiments.simulations.placement_costs import placement_costs
    from topologies.host_machines import room

    others = "algo", "collective", "p", "explain", "nccl_tuner", "plot"
    request.refuse(others, ": leave one of them out", f"--plan {request.plan} and ")
    hosts, machine = request.hosts, request.machine
    if hosts is None:
        raise InputError(
            f"--plan {request.plan}: say on which hosts: --placement topology.conf:n[1-4], or a "
            f"file with nvidia-smi -q of each"
        )
    degrees = parse_plan(request.plan or "", machine.size).degrees
    sizes = sorted(parse_sizes(request.size or PLAN_SIZES))
    rows = [*placement_costs(machine, hosts, degrees, sizes, request.calibration)]
    records = [row._asdict() | {"cost": row.cost} for row in rows]
    report = {
        "plan": str(degrees),
        "machine": machine.text,
        "shared": hosts.noun,
        "hosts": len(hosts.names),
        "groups": len({*hosts.group.tolist()}),
        "fewest": -(-len(hosts.names) // room(machine, hosts).hosts),
        "collectives": records,
        "order": hosts.grouped().names,
    }
    return Result("placement", report, records, request.parameters, machine, request.calibration)


def _title(request: Recommend) -> str:
    question = request.question
    ranks = f" of {request.ranks[0]} ranks" if len(request.ranks) == 1 else ""
    return f"{question.collective}{ranks} on {request.machine.text}"


def _explained(request: Recommend) -> Result:
    question = replace(request.question, ranks=request.ranks[0])
    records = question.explained(request.point or 0.0)
    return _answer(request, "explain", records, records)


def _curves(answers: Question, rows: Sequence[Advice]) -> dict[str, list[float]]:
    """Seconds of the algorithms that are worth a curve."""
    names = dict.fromkeys(name for row in rows for name in (row.algorithm, row.default))
    return {
        case.algorithm.name: [answers.seconds(case, row.size_B) for row in rows]
        for case in answers.cases
        if case.algorithm.name in list(names)[:12]  # more curves cannot be told apart
    }
