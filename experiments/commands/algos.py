"""`simctl algos`."""

from __future__ import annotations

from experiments import output
from simulator.collectives import algorithms


def run(how: str) -> None:
    """Print every algorithm that there is."""
    records = [
        {
            "algorithm": name,
            "collective": algorithm.collective.name,
            "summary": algorithm.summary,
            "time": algorithm.cost.latex,
            "model": algorithm.cost.model,
            "assumes": algorithm.cost.assumes,
            "ports": ", ".join(algorithm.cost.ports),
            "source": algorithm.cost.source,
        }
        for name, algorithm in algorithms().items()
    ]
    if how == "table":
        output.say("\n\n".join(_block(record) for record in records))
    else:
        output.say(output.render(records, {}, how))


def _block(record: dict[str, str]) -> str:
    lines = [
        [f"  {key}", value] for key, value in record.items() if key not in ("algorithm", "summary")
    ]
    return f"{record['algorithm']}: {record['summary']}\n{output.align([*lines])}"
