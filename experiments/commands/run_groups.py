"""`simctl run --groups`: several collectives at once, each beside its time alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from experiments import output
from experiments.names import wait_records
from experiments.options.profile_options import SimulationOptions
from experiments.options.run_options import parse_rank_list
from experiments.pages.reports.result import Result
from experiments.simulations.algorithm_remarks import unmeant_sizes
from experiments.simulations.rules import Rules
from simulator.analysis.bounds import best_bound
from simulator.analysis.critical_path import critical_path, waits
from simulator.collectives import Algorithm, find, proof
from simulator.schedules.semantics import WrongResult
from simulator.schedules.timeline import Timeline
from simulator.steps.buffers import Placed
from simulator.steps.group_calls import GroupCall, graph_of
from simulator.steps.written import Written, prove, write
from topologies.errors import InputError, naming
from topologies.units import parse_bytes, parse_whole

NAMED = 6
"""Ranks of a group that are named."""


def simulated(
    calls: Sequence[GroupCall], ranks: int, options: SimulationOptions
) -> tuple[Result, Timeline]:
    """The times of all calls, and which call breaks its promise."""
    machine, rules = options.machine, options.rules
    topology = machine.build(ranks)
    graph = graph_of(calls, ranks)
    written = write(graph, topology, distinct=True, phases=graph.names, force=rules.force)
    for call, placed in zip(calls, written.calls, strict=True):
        if call.algorithm.origin:
            proof.prove(call.algorithm, placed.fitted.schedule)
    for algorithm in dict.fromkeys(call.algorithm for call in calls):
        sizes = {call.nbytes for call in calls if call.algorithm == algorithm}
        output.note(*unmeant_sizes([algorithm], sorted(sizes)))
    wrong = _wrong(written)
    result = rules.simulate(written.schedule, written.topology)
    error = {"grid_error_s": result.grid_error} if result.grid else {}
    records = [
        {
            **_record(number, call, written.calls[number], _span(written, number, result), rules),
            **error,
        }
        for number, call in enumerate(calls)
    ]
    behind = waits(result, critical_path(result))
    report = {
        "time_s": result.makespan,
        **({"grid_s": result.grid, **error} if result.grid else {}),
        "wrong": wrong,
        "calls": records,
        "contention": wait_records(behind, result.schedule),
    }
    return Result("groups", report, records, options.parameters, machine), result


def _span(written: Written, number: int, timeline: Timeline) -> tuple[float, float]:
    tasks = written.calls[number].meeting.tasks
    return (
        float(timeline.start[written.first[tasks]].min()),
        float(timeline.finish[written.last[tasks]].max()),
    )


def _wrong(written: Written) -> str:
    try:
        prove(written)
    except WrongResult as error:
        return str(error)
    return ""


def _record(
    number: int, call: GroupCall, placed: Placed, span: tuple[float, float], rules: Rules
) -> output.Record:
    enters, leaves = span
    alone = rules.simulate(placed.fitted.schedule, placed.fitted.topology)
    over_alone = (leaves - enters) / alone.makespan if alone.makespan > 0 else 1.0
    collective = call.algorithm.collective
    bound = best_bound(collective, placed.fitted.topology, len(call.ranks), call.nbytes)
    return {
        "call": number,
        "ranks": _ranks(call.ranks),
        "algorithm": call.algorithm.name,
        "size_B": call.nbytes,
        "stream": call.stream,
        "enters_s": enters,
        "leaves_s": leaves,
        "time_s": leaves - enters,
        "alone_s": alone.makespan,
        "over_alone": over_alone,
        "bound_s": bound.seconds,
        **({"alone_grid_error_s": alone.grid_error} if rules.fair_tolerance else {}),
    }


def _ranks(ranks: Sequence[int]) -> str:
    """The ranks of a group in few words.

    >>> _ranks([0, 1, 2, 3]), _ranks([0, 4, 8]), _ranks([3, 1, 2])
    ('0-3', '0-8:4', '3,1,2')
    """
    step = ranks[1] - ranks[0]
    if step > 0 and list(ranks) == list(range(ranks[0], ranks[-1] + 1, step)):
        return f"{ranks[0]}-{ranks[-1]}" + (f":{step}" if step > 1 else "")
    more = [f"{len(ranks) - NAMED} more"] if len(ranks) > NAMED else []
    return ",".join([*map(str, ranks[:NAMED]), *more])


NOUNS = {"algorithm": "algorithm", "nbytes": "size", "stream": "stream", "waits": "wait"}
"""What the words of a call set, by the fields of a call."""


def parse_groups(text: str, algorithm: Algorithm, nbytes: float) -> list[GroupCall]:
    """Calls from text like "0-7; 8-15 tree 1MiB stream=1 after=0".

    A call has ranks, and words in any order: an algorithm, a size, a stream, and earlier calls to
    wait for. `algorithm` and `nbytes` are those of calls that name none.

    >>> ring = find("ring")
    >>> [call.ranks for call in parse_groups("0-3; 0-6:2,7", ring, 1.0)]
    [(0, 1, 2, 3), (0, 2, 4, 6, 7)]
    """
    return [_call(part.split(), algorithm, nbytes) for part in text.removesuffix(";").split(";")]


def _call(words: list[str], algorithm: Algorithm, nbytes: float) -> GroupCall:
    if not words:
        raise InputError("--groups: a group is empty: write ranks like 0-7;8-15")
    call = GroupCall(algorithm, parse_rank_list("--groups", words[0]), nbytes)
    values: dict[str, Any] = {}
    for word in words[1:]:
        key, value = _value(word)
        if key in values:
            raise InputError(f"--groups: {word}: the {NOUNS[key]} is given twice")
        values[key] = value
    return replace(call, **values)


def _value(word: str) -> tuple[str, Any]:
    """The field of a call that a word sets, and its value."""
    key, equals, text = word.partition("=")
    with naming(f"--groups: {word[:40]}"):
        if equals and key == "stream":
            return key, parse_whole(text)
        if equals and key == "after":
            return "waits", tuple(map(parse_whole, text.split(",")))
    return ("nbytes", parse_bytes(word)) if word[0].isdigit() else ("algorithm", find(word))
