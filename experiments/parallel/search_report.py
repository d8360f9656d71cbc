"""The fastest plans of a search as text."""

from __future__ import annotations

from experiments.output import align, counted
from experiments.parallel.plan_errors import error_cells
from experiments.parallel.plan_search import SearchResult
from experiments.profiles.interval_levels import span
from experiments.text_lines import bytes_cell
from topologies.units import format_seconds


def text(result: SearchResult) -> str:
    """The fastest plans with why each loses, and what is left out."""
    space, training, first = result.space, result.space.training, result.first
    number = len(result.plans)
    title = (
        f"{training.name} on {counted(space.gpus, 'GPU')} ({training.times.device}), "
        f"{space.batch} sequences of {training.seq} tokens: "
        f"{counted(number + result.left_out.total(), 'plan')}, {number} fit and are bounded, "
        f"{len(result.simulated)} simulated"
    )
    reasons = [
        [f"{number:2d}", result.rows[place]["plan"], result.rows[place]["loses_to"]]
        for number, place in enumerate(first, 1)
    ]
    errors = dict.fromkeys(result.error(place) for place in first)
    tables = {
        "the plans, and why they are slower than the first": reasons,
        "model's error on measured steps": [["", *error_cells(*error)] for error in errors],
        "where a mean device spends the step": _parts(result),
        "left out": [[str(count), why] for why, count in result.left_out.most_common() if count],
    }
    blocks = [f"{name}\n{align(table)}" for name, table in tables.items() if table]
    return "\n\n".join([title, align(_table(result)), *blocks])


def _table(result: SearchResult) -> list[list[str]]:
    best = result.rows[0]
    ends = [] if best["level"] is None else ["expected", f"{best['level']:.0%} of steps"]
    table = [["", "step", *ends, "slower", "tokens/s", "MFU", "memory", "free", "as fast"]]
    for place, others in result.alike.items():
        row = result.rows[place]
        sure = (
            [format_seconds(row["expected_s"]), span(row["low_s"], row["high_s"])] if ends else []
        )
        table.append(
            [
                str(len(table)),
                format_seconds(row["step_s"]),
                *sure,
                f"{row['step_s'] / best['step_s'] - 1:+.1%}" if place else "",
                f"{row['tokens_per_s']:.0f}",
                f"{row['mfu']:.1%}",
                bytes_cell(row["memory_bytes"]),
                bytes_cell(row["left_bytes"]),
                f"{others} more" if others else "",
            ]
        )
    return table


def _parts(result: SearchResult) -> list[list[str]]:
    """A row for each part, a column for each of the fastest plans."""
    runs = [result.simulated[place].parts for place in result.first]
    parts = {name: [run[name] for run in runs] for name in runs[0]}
    return [
        ["", *(str(number) for number in range(1, len(runs) + 1))],
        *([f"  {name}", *map(format_seconds, row)] for name, row in parts.items() if max(row) > 0),
    ]
