"""`simctl algos`."""

from __future__ import annotations

from experiments import output
from simulator.collectives import every_algorithm, of_collective


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
