"""`simctl algos`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from experiments import output
from experiments.commands.answer import Answer
from simulator.collectives import Algorithm, every_algorithm, of_collective
from simulator.collectives.algorithm_options import check_values
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.topology import Topology


def run(collective: str | None, how: str) -> None:
    """Print every algorithm, or those of a collective."""
    chosen = every_algorithm().values() if collective is None else of_collective(collective)
    records = [
        {
            "algorithm": algorithm.name,
            "collective": algorithm.collective.name,
            "summary": algorithm.summary,
            "time": algorithm.cost.latex,
            "model": algorithm.cost.model,
            "assumes": algorithm.cost.assumes,
            "ports": ", ".join(algorithm.cost.ports),
            "source": algorithm.cost.source,
            "options": ", ".join(f"{key}={value}" for key, value in algorithm.options.items()),
        }
        for algorithm in chosen
    ]
    Answer("algorithms", records, records).show(how, lambda: "\n\n".join(map(_block, records)))


def _block(record: dict[str, str]) -> str:
    lines = [
        [f"  {key}", value]
        for key, value in record.items()
        if value and key not in ("algorithm", "summary")
    ]
    return f"{record['algorithm']}: {record['summary']}\n{output.align([*lines])}"


def import_file(file: str, algorithm: Algorithm, ranks: int, how: str) -> None:
    """Print what a file says, and whether it is right."""
    from experiments.algorithm_files.details import details
    from simulator.collectives.proof import prove

    schedule = algorithm.build(ranks, 1.0)
    prove(algorithm, schedule)
    unknown = algorithm.cost.unclaimed
    record = {
        "algorithm": algorithm.name,
        "collective": algorithm.collective.name,
        "ranks": str(ranks),
        "bytes moved": f"{schedule.volume:g} V",
        "steps": str(schedule.steps),
        **details(file),
        "proof": unknown if "not proven" in unknown else f"right on {ranks} ranks",
    }
    table = [[f"  {key}", value] for key, value in record.items()]
    Answer("algorithm", [record], [record]).show(how, lambda: output.align(table))


class Export(NamedTuple):
    """What to export."""

    algorithm: Algorithm
    file: str | None
    """Its file, if it is from a file."""
    ranks: int
    nbytes: float
    """V, where the format has sizes."""
    machine: Blueprint | None = None
    """The machine for which the algorithm is made, if it is made for one."""


def export(request: Export, form: str, out: Path | None) -> None:
    """Print an algorithm as a program of another tool, or write it to a file."""
    output.check_writable(out)
    check_values(request.algorithm)
    text = _short_program(request, form)
    if out is None:
        output.say(text.rstrip("\n"))
    else:
        output.write(out, text)


def _short_program(request: Export, form: str) -> str:
    """The program. If the default of its segments has too many steps, one of a single segment, as
    MSCCL itself repeats a program for pieces of each chunk."""
    from experiments.algorithm_files.msccl.export import TooManySteps
    from simulator.collectives.algorithm_options import with_values

    algorithm = request.algorithm
    try:
        return _program(request, form)
    except TooManySteps:
        if algorithm.name != algorithm.listed_name or "segments" not in algorithm.options:
            raise
    single = with_values(algorithm, {"segments": 1})
    text = _program(request._replace(algorithm=single), form)
    output.note(
        f"{algorithm.name} has too many steps for MSCCL, which itself repeats a program for pieces "
        f"of each chunk: this is {single.name}"
    )
    return text


def _program(request: Export, form: str) -> str:
    from experiments.algorithm_files.details import rewritten
    from experiments.algorithm_files.goal.goal_writer import write_goal
    from experiments.algorithm_files.lanes import MOST
    from experiments.algorithm_files.msccl.export import program_of
    from experiments.algorithm_files.msccl.writer import write_program
    from simulator.collectives.proof import prove

    algorithm, file, ranks, nbytes, machine = request
    topology: Topology | None = None
    schedule = algorithm.build(ranks, nbytes)
    if machine is not None:
        place = machine.build(ranks, algorithm.servers)
        schedule, topology, *_ = algorithm.on(place, ranks, nbytes)
    if len(schedule) > MOST:
        raise InputError(
            f"{algorithm.name} has {len(schedule)} operations on {ranks} ranks: a program has at "
            f"most {MOST}, take fewer ranks"
        )
    prove(algorithm, schedule)
    if form == "goal":
        return write_goal(schedule, algorithm.name)
    if file is not None and (text := rewritten(file)) is not None:
        return text
    return write_program(program_of(algorithm, schedule, topology))
