"""What a search of plans found: rows for files, and a report as text."""

from __future__ import annotations

from typing import Any

from experiments.output import align, counted
from experiments.parallel.plan_errors import error_cells, kind_of, mean_error
from experiments.parallel.plan_search import SearchResult
from experiments.profiles.interval_levels import interval_columns, span
from topologies.units import format_bytes, format_seconds

REASONS = 2
"""Reasons for which a plan loses that a table shows, at most."""
SHOWN = 0.02
"""Only reasons that make up this share of a loss, at least, are shown."""


def rows(result: SearchResult) -> list[dict[str, Any]]:
    """A row for each plan that fits in memory: the simulated ones first, the fastest first."""
    rest = [place for place in range(len(result.plans)) if place not in result.simulated]
    rest.sort(key=result.bounds.__getitem__)
    return [_row(result, place) for place in (*result.ranked, *rest)]


def _row(result: SearchResult, place: int) -> dict[str, Any]:
    """The row of a plan. What only a simulation tells is None without one, and the memory is what
    the plan holds at least."""
    space, run = result.space, result.simulated.get(place)
    memory = run.memory if run else result.memory[place]
    tokens_per_s = space.batch * space.training.seq / run.seconds if run else None
    return {
        "model": space.training.name,
        "gpus": space.gpus,
        "plan": str(result.plans[place]),
        "bound_s": result.bounds[place],
        "step_s": run and run.seconds,
        "tokens_per_s": tokens_per_s,
        "mfu": tokens_per_s and space.training.mfu(tokens_per_s, space.gpus),
        "memory_bytes": memory,
        "left_bytes": result.limit - memory,
        "loses_to": why(result, place) if run else "",
        "fits": run and run.memory <= result.limit,
        "model_error": _error(result, place)[0],
        **interval_columns(result.intervals.get(place)),
    }


def _error(result: SearchResult, place: int) -> tuple[float | None, str]:
    """The error on measured steps of plans like one of the search."""
    space = result.space
    return mean_error(kind_of(space.training.times, result.plans[place].zero, space.span))


def why(result: SearchResult, place: int) -> str:
    """What a plan loses to the fastest one, the most first; empty for the fastest one itself."""
    best = result.simulated[result.first[0]]
    run = result.simulated[place]
    lost = {name: seconds - best.parts[name] for name, seconds in run.parts.items()}
    total = run.seconds - best.seconds
    most = sorted(lost, key=lambda name: -lost[name])[:REASONS]
    shown = [name for name in most if lost[name] > max(SHOWN * total, 1e-12)]
    return ", ".join(f"{name} +{format_seconds(lost[name])}" for name in shown)


def report(result: SearchResult) -> dict[str, object]:
    """All figures, for JSON."""
    return {
        "left_out": dict(result.left_out.most_common()),
        "plans": rows(result),
        "parts_s": {
            str(result.plans[place]): dict(run.parts) for place, run in result.simulated.items()
        },
    }


def text(result: SearchResult) -> str:
    """The fastest plans with why each loses, and what is left out."""
    space, training = result.space, result.space.training
    counts = [
        counted(len(result.plans) + sum(result.left_out.values()), "plan"),
        f"{len(result.plans)} fit and are bounded",
        f"{len(result.simulated)} simulated",
    ]
    title = (
        f"{training.name} on {counted(space.gpus, 'GPU')} ({training.times.device}), "
        f"{space.batch} sequences of {training.seq} tokens: {', '.join(counts)}"
    )
    reasons = [
        [f"{number:2d}", str(result.plans[place]), why(result, place)]
        for number, place in enumerate(result.first, 1)
    ]
    errors = dict.fromkeys(_error(result, place) for place in result.first)
    left_out = [[str(count), why] for why, count in result.left_out.most_common() if count]
    tables = {
        "the plans, and why they are slower than the first": reasons,
        "model's error on measured steps": [["", *error_cells(*error)] for error in errors],
        "where a mean device spends the step": _parts(result),
        "left out": left_out,
    }
    blocks = [f"{name}\n{align(table)}" for name, table in tables.items()]
    return "\n\n".join([title, align(_table(result)), *blocks])


def _table(result: SearchResult) -> list[list[str]]:
    fastest = [_row(result, place) for place in result.first]
    level = fastest[0]["level"]
    ends = [] if level is None else ["expected", f"{level:.0%} of steps"]
    table = [["", "step", *ends, "slower", "tokens/s", "MFU", "memory", "free", "as fast"]]
    for place, row in zip(result.first, fastest, strict=True):
        first, others = place == result.first[0], len(result.alike(place))
        times = [format_seconds(row["step_s"])]
        if ends:
            times += [format_seconds(row["expected_s"]), span(row["low_s"], row["high_s"])]
        times.append("" if first else f"{row['step_s'] / fastest[0]['step_s'] - 1:+.1%}")
        rates = f"{row['tokens_per_s']:.0f}", f"{row['mfu']:.1%}"
        sizes = (format_bytes(row[f"{part}_bytes"], binary=False) for part in ("memory", "left"))
        alike = f"{others} more" if others else ""
        table.append([str(len(table)), *times, *rates, *sizes, alike])
    return table


def _parts(result: SearchResult) -> list[list[str]]:
    """A row for each part, a column for each of the fastest plans."""
    runs = [result.simulated[place] for place in result.first]
    table = [["", *(str(number + 1) for number in range(len(runs)))]]
    for name in runs[0].parts:
        seconds = [run.parts[name] for run in runs]
        if max(seconds) > 0:
            table.append([f"  {name}", *map(format_seconds, seconds)])
    return table
