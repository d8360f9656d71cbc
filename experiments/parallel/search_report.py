"""What a search of plans found: rows for files, and a report as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from experiments.output import align, counted
from experiments.parallel.plan_search import SearchResult
from experiments.profiles.interval_levels import span
from topologies.units import format_bytes, format_seconds

REASONS = 2
"""Reasons for which a plan loses that a table shows, at most."""
SHOWN = 0.02
"""Only reasons that make up this share of a loss, at least, are shown."""


@dataclass(frozen=True)
class SearchRow:
    """A plan of a search."""

    model: str
    gpus: int
    plan: str
    bound_s: float
    """No step of the plan is shorter."""
    step_s: float | None
    """Seconds of the step; None if it is not simulated."""
    tokens_per_s: float | None
    memory_bytes: float
    """Bytes of the fullest rank; at least, if the plan is not simulated."""
    left_bytes: float
    """Bytes that the fullest rank leaves."""
    loses_to: str
    """Seconds lost to the fastest plan, by what loses them."""
    expected_s: float | None = None
    """The step with each call at its expected time; None without an interval."""
    low_s: float | None = None
    """The step with each call at the lower end of its interval."""
    high_s: float | None = None
    """The step with each call at the upper end."""
    level: float | None = None
    """The share of runs that an interval holds."""


def rows(result: SearchResult) -> list[SearchRow]:
    """A row for each plan that fits in memory: the simulated ones first, the fastest first."""
    rest = [place for place in range(len(result.plans)) if place not in result.simulated]
    rest.sort(key=result.bounds.__getitem__)
    space = result.space
    listed = []
    for place in (*result.ranked, *rest):
        run, sure = result.simulated.get(place), result.intervals.get(place)
        listed.append(
            SearchRow(
                space.training.name,
                space.gpus,
                str(result.plans[place]),
                result.bounds[place],
                run.seconds if run else None,
                space.batch * space.training.seq / run.seconds if run else None,
                run.memory if run else result.memory[place],
                result.limit - (run.memory if run else result.memory[place]),
                why(result, place) if run else "",
                *(sure[:4] if sure else ()),
            )
        )
    return listed


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
        "plans": [asdict(row) for row in rows(result)],
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
    return "\n\n".join(
        [
            title,
            align(_table(result)),
            "where a mean device spends the step\n" + align(_parts(result)),
            "left out\n" + align(_left_out(result)),
        ]
    )


def _table(result: SearchResult) -> list[list[str]]:
    best = result.simulated[result.first[0]].seconds
    level = next((each.level for each in result.intervals.values()), 0.0)
    ends = ["expected", f"{level:.0%} of steps"] if level else []
    table = [["", "step", *ends, "slower", "memory", "left", "alike", "plan", "loses"]]
    for number, place in enumerate(result.first):
        run = result.simulated[place]
        sizes = [
            format_bytes(size, binary=False) for size in (run.memory, result.limit - run.memory)
        ]
        slower = f"{run.seconds / best - 1:.1%}"
        alike = str(len(result.alike(place)) or "")
        plan, loses = str(result.plans[place]), why(result, place)
        times = [format_seconds(run.seconds)]
        if level:
            sure = result.intervals[place]
            times += [format_seconds(sure.expected), span(sure.low, sure.high)]
        table.append([str(number + 1), *times, slower, *sizes, alike, plan, loses])
    return table


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
