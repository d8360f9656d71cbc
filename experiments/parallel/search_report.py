"""What a search of plans found: rows for files, and a report as text."""

from __future__ import annotations

from typing import Any

from experiments.output import align, counted
from experiments.parallel.plan_errors import error_cells, kind_of, mean_error
from experiments.parallel.plan_search import SearchResult, Simulated
from experiments.profiles.interval_levels import interval_columns, span
from topologies.units import format_bytes, format_seconds

REASONS = 2
"""Reasons for which a plan loses that a table shows, at most."""
SHOWN = 0.02
"""Only reasons that make up this share of a loss, at least, are shown."""


def rows(result: SearchResult) -> list[dict[str, Any]]:
    """A row for each plan that fits in memory: the simulated ones first, the fastest first. What
    only a simulation tells is None in the others."""
    rest = [place for place in range(len(result.plans)) if place not in result.simulated]
    rest.sort(key=result.bounds.__getitem__)
    space = result.space
    listed = []
    for place in (*result.ranked, *rest):
        run = result.simulated.get(place)
        # Bytes of the fullest rank; at least, if the plan is not simulated.
        memory = run.memory if run else result.memory[place]
        tokens_per_s = _tokens_per_s(result, run) if run else None
        listed.append(
            {
                "model": space.training.name,
                "gpus": space.gpus,
                "plan": str(result.plans[place]),
                "bound_s": result.bounds[place],
                "step_s": run.seconds if run else None,
                "tokens_per_s": tokens_per_s,
                "mfu": tokens_per_s and space.training.mfu(tokens_per_s, space.gpus),
                "memory_bytes": memory,
                "left_bytes": result.limit - memory,
                "loses_to": why(result, place) if run else "",
                "fits": run.memory <= result.limit if run else None,
                "model_error": _error(result, place)[0],
                **interval_columns(result.intervals.get(place)),
            }
        )
    return listed


def _tokens_per_s(result: SearchResult, run: Simulated) -> float:
    return result.space.batch * result.space.training.seq / run.seconds


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
    errors = dict.fromkeys(_error(result, place) for place in result.first)
    return "\n\n".join(
        [
            title,
            align(_table(result)),
            "the plans, and why they are slower than the first\n" + align(_reasons(result)),
            "model's error on measured steps\n"
            + align([["", *error_cells(*error)] for error in errors]),
            "where a mean device spends the step\n" + align(_parts(result)),
            "left out\n" + align(_left_out(result)),
        ]
    )


def _table(result: SearchResult) -> list[list[str]]:
    best = result.simulated[result.first[0]].seconds
    level = next((each.level for each in result.intervals.values()), 0.0)
    ends = ["expected", f"{level:.0%} of steps"] if level else []
    table = [["", "step", *ends, "slower", "tokens/s", "MFU", "memory", "free", "as fast"]]
    for number, place in enumerate(result.first):
        run = result.simulated[place]
        sizes = [
            format_bytes(size, binary=False) for size in (run.memory, result.limit - run.memory)
        ]
        tokens_per_s = _tokens_per_s(result, run)
        mfu = result.space.training.mfu(tokens_per_s, result.space.gpus)
        others = len(result.alike(place))
        alike = f"{others} more" if others else ""
        slower = f"{run.seconds / best - 1:+.1%}" if number else ""
        times = [format_seconds(run.seconds)]
        if level:
            sure = result.intervals[place]
            times += [format_seconds(sure.expected), span(sure.low, sure.high)]
        rates = f"{tokens_per_s:.0f}", f"{mfu:.1%}"
        table.append([str(number + 1), *times, slower, *rates, *sizes, alike])
    return table


def _reasons(result: SearchResult) -> list[list[str]]:
    return [
        [f"{number:2d}", str(result.plans[place]), why(result, place)]
        for number, place in enumerate(result.first, 1)
    ]


def _parts(result: SearchResult) -> list[list[str]]:
    """A row for each part, a column for each of the fastest plans."""
    runs = [result.simulated[place] for place in result.first]
    table = [["", *(str(number + 1) for number in range(len(runs)))]]
    for name in runs[0].parts:
        if any(run.parts[name] > 0 for run in runs):
            cells = [format_seconds(run.parts[name]) for run in runs]
            table.append([f"  {name}", *cells])
    return table


def _left_out(result: SearchResult) -> list[list[str]]:
    return [[str(count), reason] for reason, count in result.left_out.most_common() if count]
