"""`simctl algos`."""

from __future__ import annotations

from pathlib import Path

from experiments import output
from simulator.collectives import Algorithm, every_algorithm, of_collective


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
    if how == "table":
        output.say("\n\n".join(_block(record) for record in records))
    else:
        output.say(output.render(records, {}, how))


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
    record = {
        "algorithm": algorithm.name,
        "collective": algorithm.collective.name,
        "ranks": str(ranks),
        **details(file),
        "bytes moved": f"{schedule.volume:g} V",
        "steps": str(schedule.steps),
        "proof": f"right on {ranks} ranks",
    }
    if how == "table":
        output.say(output.align([[f"  {key}", value] for key, value in record.items()]))
    else:
        output.say(output.render([record], {}, how))


def export(algorithm: Algorithm, file: str | None, ranks: int, form: str, out: Path | None) -> None:
    """Print an algorithm as a program of another tool, or write it to a file."""
    output.check_writable(out)
    text = _program(algorithm, file, ranks, form)
    if out is None:
        output.say(text.rstrip("\n"))
    else:
        output.write(out, text)


def _program(algorithm: Algorithm, file: str | None, ranks: int, form: str) -> str:
    from experiments.algorithm_files.details import rewritten
    from experiments.algorithm_files.msccl.export import program_of
    from experiments.algorithm_files.msccl.writer import write_program
    from simulator.collectives.proof import prove

    prove(algorithm, algorithm.build(ranks, 1.0))
    if file is not None and (text := rewritten(file)) is not None:
        return text
    return write_program(program_of(algorithm, ranks))
