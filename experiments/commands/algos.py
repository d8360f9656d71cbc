"""`simctl algos import` and `simctl algos export`: between algorithms and files of other tools."""

from __future__ import annotations

from collections import Counter
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from experiments import output
from experiments.algorithm_files import contents_of
from experiments.algorithm_files.goal import GoalProgram, read_goal, write_goal
from experiments.algorithm_files.msccl_lowering import FIFO, Lowering
from experiments.algorithm_files.msccl_program import MscclProgram, read_program, write_program
from experiments.algorithm_files.mscclpp_plan import read_plan
from experiments.options.completion import complete_algorithms
from experiments.options.machine_options import MachineOptions
from experiments.options.options import AlgorithmFile, FormatOptions, argument, option
from experiments.options.values import (
    only_rank_count,
    parse_algorithm,
    parse_rank_count,
    usual_ranks,
)
from experiments.pages.reports.result import Result
from topologies.errors import InputError
from topologies.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from simulator.collectives import Algorithm


@dataclass(frozen=True, kw_only=True)
class ImportedAlgorithm(FormatOptions):
    """Read an algorithm from a file, and prove it.

    Run it with simctl run --algo-file FILE.
    """

    EXAMPLES: ClassVar = ("algos import allreduce.xml",)

    file: str = argument("FILE", "MSCCL's XML, MSCCL++'s JSON, GOAL or Python.", default=MISSING)
    p: str | None = option("The number of ranks.  [default: the file's, or 8]", "--p", "--gpus")

    def run(self) -> int:
        """Print what the file says, and whether it is right."""
        from simulator.collectives.proof import prove

        algorithm = parse_algorithm(None, self.file)
        ranks = (
            only_rank_count(algorithm) or USUAL_RANKS
            if self.p is None
            else parse_rank_count(self.p)
        )
        schedule = algorithm.build(ranks, 1.0)
        prove(algorithm, schedule)
        unknown = algorithm.cost.unclaimed
        record = {
            "algorithm": algorithm.name,
            "collective": algorithm.collective.name,
            "ranks": str(ranks),
            "bytes moved": f"{schedule.volume:g} V",
            "steps": str(schedule.steps),
            **details(self.file),
            "proof": unknown if "not proven" in unknown else f"right on {ranks} ranks",
        }
        table = [[f"  {key}", value] for key, value in record.items()]
        Result("algorithm", [record], [record]).show(self.format, lambda: output.align(table))
        return 0


@dataclass(frozen=True, kw_only=True)
class ExportedAlgorithm(MachineOptions):
    """Write an algorithm as a program for another tool."""

    EXAMPLES: ClassVar = ("algos export ring --p 8 --format msccl --out ring.xml",)

    algo: str | None = argument(
        "[ALGO]", "One algorithm: see `simctl list algos`.", autocompletion=complete_algorithms
    )
    algo_file: AlgorithmFile = None
    p: str | None = option("The number of ranks.  [default: the machine's, or 8]", "--p", "--gpus")
    size: str = option("V of the messages in GOAL, like 1GiB.", default="64MiB")
    format: Literal["msccl", "goal"] = option("The format.", default="msccl")
    out: Path | None = option("Write FILE.  [default: print it]", writable=True)

    def run(self) -> int:
        """Print the program, or write it to a file."""
        from simulator.collectives.algorithm_options import check_values

        algorithm = parse_algorithm(self.algo, self.algo_file)
        output.check_writable(self.out)
        check_values(algorithm)
        text = self._short_program(algorithm)
        if self.out is None:
            output.say(text.rstrip("\n"))
        else:
            output.write(self.out, text)
        return 0

    def _ranks(self, algorithm: Algorithm) -> int:
        p, machine = self.p, self.optional_blueprint
        if p is None and machine is not None:
            p = usual_ranks(machine, [algorithm], str(USUAL_RANKS))
        return parse_rank_count(p or str(only_rank_count(algorithm) or USUAL_RANKS))

    def _short_program(self, algorithm: Algorithm) -> str:
        """The program. If the default of its segments has too many steps, one of a single segment,
        as MSCCL itself repeats a program for pieces of each chunk."""
        from experiments.algorithm_files.msccl_export import TooManySteps
        from simulator.collectives.algorithm_options import with_values

        try:
            return self._program(algorithm)
        except TooManySteps:
            if algorithm.name != algorithm.listed_name or "segments" not in algorithm.options:
                raise
        single = with_values(algorithm, {"segments": 1})
        text = self._program(single)
        output.note(
            f"{algorithm.name} has too many steps for MSCCL, which itself repeats a program for "
            f"pieces of each chunk: this is {single.name}"
        )
        return text

    def _program(self, algorithm: Algorithm) -> str:
        from experiments.algorithm_files.lanes import MOST_STEPS
        from experiments.algorithm_files.msccl_export import program_of
        from simulator.collectives.proof import prove

        ranks, nbytes, topology = self._ranks(algorithm), parse_bytes(self.size), None
        schedule = algorithm.build(ranks, nbytes)
        if (machine := self.optional_blueprint) is not None:
            place = machine.build(ranks, algorithm.servers)
            schedule, topology, *_ = algorithm.on(place, ranks, nbytes)
        if len(schedule) > MOST_STEPS:
            raise InputError(
                f"{algorithm.name} has {len(schedule)} operations on {ranks} ranks: a program has "
                f"at most {MOST_STEPS}, take fewer ranks"
            )
        prove(algorithm, schedule)
        if self.format == "goal":
            return write_goal(schedule, algorithm.name)
        if self.algo_file is not None and (text := rewritten(self.algo_file)) is not None:
            return text
        return write_program(program_of(algorithm, schedule, topology))


def details(text: str) -> dict[str, str]:
    """Facts of the file that the user names, by their names."""
    path, content = contents_of(text)
    suffix = path.suffix.lower()
    if suffix == ".goal":
        return _messages(read_goal(content.decode("utf-8-sig"), path.name))
    if suffix == ".json":
        plan = read_plan(content.decode("utf-8-sig"), path.name)
        where = "in" if plan.inplace else "out of"
        blocks = sum(len(gpu.threadblocks) for gpu in plan.gpus)
        return {
            "format": f"MSCCL++, {plan.protocol}, {where} place",
            "thread blocks": str(blocks),
        }
    if suffix != ".xml":
        return {}
    program = _program(path, content)
    lowering = Lowering(program)
    most = format_bytes(program.most) if program.most else "any size"
    return {
        "format": f"MSCCL, {program.protocol}, {'in' if program.in_place else 'out of'} place",
        "sizes": f"{format_bytes(program.least)} to {most}",
        "channels": str(program.channels),
        "thread blocks": str(sum(len(gpu.blocks) for gpu in program.gpus)),
        "program steps": str(program.steps),
        "chunks": str(program.chunks),
        f"deadlock with {FIFO} FIFO slots": lowering.deadlock(FIFO) or "none",
        "deadlock without FIFO slots": lowering.deadlock(0) or "none",
    }


def rewritten(text: str) -> str | None:
    """An MSCCL file that the user names, written anew; None for other files."""
    path, content = contents_of(text)
    return write_program(_program(path, content)) if path.suffix.lower() == ".xml" else None


def _program(path: Path, content: bytes) -> MscclProgram:
    return read_program(content.decode("utf-8-sig"), path.name)


def _messages(program: GoalProgram) -> dict[str, str]:
    kinds = Counter(operation.kind for operation in program.operations)
    sent = sum(each.size for each in program.operations if each.kind == "send")
    return {
        "format": "GOAL",
        "bytes moved": format_bytes(sent),
        "messages": str(kinds["send"]),
        "computations": str(kinds["calc"]),
        "checked": "every send has its receive, and nothing waits for itself",
    }


USUAL_RANKS = 8
