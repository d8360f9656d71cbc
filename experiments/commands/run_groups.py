"""`simctl run --groups`: several collectives at once, each beside its time alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from experiments import output
from experiments.commands.answer import Answer
from experiments.simulations.rules import DEFAULT, Rules
from experiments.simulations.size_ranges import unmeant_sizes
from experiments.terms import SOFTWARE, inexact
from experiments.wait_records import wait_cells, wait_records
from simulator.analysis.bounds import best_bound
from simulator.analysis.critical_path import critical_path
from simulator.analysis.waits import waits
from simulator.collectives import proof
from simulator.schedules.semantics import WrongResult
from simulator.schedules.timeline import Timeline
from simulator.steps.buffers import Placed
from simulator.steps.group_calls import GroupCall, graph_of
from simulator.steps.written import Written, prove, write
from topologies.catalogue import Blueprint
from topologies.units import format_bytes, format_seconds

NAMED = 6
"""Ranks of a group that are named."""


@dataclass(frozen=True)
class Request:
    """What to simulate."""

    calls: Sequence[GroupCall]
    ranks: int
    machine: Blueprint
    rules: Rules = DEFAULT
    parameters: Mapping[str, output.Value] = field(default_factory=dict)
    """The options as the user writes them: stored with a trace."""


def run(request: Request, files: output.RunFiles, how: str) -> int:
    """Print the times of all calls; 1 if a call breaks its promise."""
    files.check()
    machine = request.machine.build(request.ranks)
    graph = graph_of(request.calls, request.ranks)
    written = write(graph, machine, distinct=True, phases=graph.names, force=request.rules.force)
    for call, placed in zip(request.calls, written.calls, strict=True):
        if call.algorithm.origin:
            proof.prove(call.algorithm, placed.fitted.schedule)
    for algorithm in dict.fromkeys(call.algorithm for call in request.calls):
        sizes = {call.nbytes for call in request.calls if call.algorithm == algorithm}
        for line in unmeant_sizes([algorithm], sorted(sizes)):
            output.note(line)
    wrong = _wrong(written)
    result = request.rules.simulate(written.schedule, written.topology)
    error = {"grid_error_s": result.grid_error} if result.grid else {}
    records = [
        {
            **_record(
                number, call, written.calls[number], _span(written, number, result), request.rules
            ),
            **error,
        }
        for number, call in enumerate(request.calls)
    ]
    title = (
        f"{output.counted(len(records), 'collective')} of {request.ranks} ranks on "
        f"{request.machine.text}: {format_seconds(result.makespan)}"
    )
    behind = waits(result, critical_path(result))
    report = {
        "time_s": result.makespan,
        **({"grid_s": result.grid, **error} if result.grid else {}),
        "wrong": wrong,
        "calls": records,
        "contention": wait_records(behind, result.schedule),
    }
    answer = Answer("groups", report, records, request.parameters, request.machine)
    answer.write_run(files, result, title)
    contention = wait_cells(behind, result.schedule)
    change = [inexact(result.grid, result.grid_error, result.makespan)] if result.grid else []
    answer.show(how, lambda: _text("\n".join([title, *change]), records, contention, wrong))
    return 1 if wrong else 0


def _span(written: Written, number: int, timeline: Timeline) -> tuple[float, float]:
    """When the first rank enters a call, and when the last one leaves it."""
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
) -> dict[str, output.Value]:
    """A call: when it ran, and how long it would take alone."""
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


def _text(
    title: str,
    records: Sequence[Mapping[str, output.Value]],
    contention: list[list[str]],
    wrong: str,
) -> str:
    head = ["  call", "ranks", "algorithm", "size", "stream", "enters", "time", "alone", "of alone"]
    rows = [head] + [_cells(record) for record in records]
    proof = f"  FAIL: {wrong}" if wrong else "  every call keeps its promise"
    blocks = [f"{title}\n{output.align(rows)}", proof]
    if contention:
        words = "contention on the critical path: waiting behind messages of other ranks"
        blocks.append(f"{words}\n{output.align(contention)}")
    terms = [["  alone", "the time of the call if nothing else ran"], ["  not included", SOFTWARE]]
    blocks.append(output.align(terms))
    return "\n\n".join(blocks)


def _cells(record: Mapping[str, output.Value]) -> list[str]:
    seconds = [
        format_seconds(float(str(record[name]))) for name in ("enters_s", "time_s", "alone_s")
    ]
    return [
        f"  {record['call']}",
        str(record["ranks"]),
        str(record["algorithm"]),
        format_bytes(float(str(record["size_B"]))),
        str(record["stream"]),
        *seconds,
        f"{float(str(record['over_alone'])):.3f}",
    ]
