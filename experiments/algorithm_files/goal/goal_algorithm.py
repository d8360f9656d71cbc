"""A GOAL file as an algorithm, by the rules of LogGOPS: checked, and not proven.

A send takes o + (n - 1)O of its cpu, and so does a receive. A message of up to S bytes is eager: it
leaves when the send has run. A longer message also waits until its receive is posted. The
machine has L, g and G.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.algorithm_files.free_names import free_name, of_file
from experiments.algorithm_files.goal.goal_reader import GoalOperation, GoalProgram
from simulator.collectives import Algorithm, Collective
from simulator.collectives.collective import none, nothing
from simulator.cost_models.cost_model import NO_FORMULA
from simulator.schedules.schedule import COMPUTE, TRANSFER, Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.sequences import sequence
from simulator.steps.turns import topological_order
from topologies.errors import InputError
from topologies.units import parse_bytes, parse_seconds

NOT_PROVEN = "not proven, as GOAL carries no data"
COLUMNS = ("kind", "rank", "peer", "nbytes", "seconds", "lane", "line")
"""The numbers of a computation or a message."""


class LogGOPS(NamedTuple):
    """What a GOAL file does not say, and the machine does not have."""

    o: float = 0.0
    """Seconds of a cpu for each message, at both ends."""
    O: float = 0.0  # noqa: E741
    """Seconds of a cpu for each further byte."""
    S: float = 65535.0
    """Bytes up to which a message is eager."""


def algorithm_of(program: GoalProgram, file: str, options: str) -> Algorithm:
    """A program as an algorithm for its number of ranks. `options` are o, O and S, like
    o=1.5us,S=64KiB."""
    rules = parse_rules(options)
    kinds = [operation.kind for operation in program.operations]
    summary = f"GOAL, {kinds.count('send')} messages, {kinds.count('calc')} computations"
    promise = Collective("messages", nothing, none, none, none, none)
    write = partial(schedule_of, program, rules, file)
    cost = replace(NO_FORMULA, unclaimed=NOT_PROVEN)
    return of_file(free_name(Path(file).stem, "goal"), promise, write, summary, program.ranks, cost)


def parse_rules(text: str) -> LogGOPS:
    """The options of LogGOPS.

    >>> parse_rules("o=1us,S=1KiB")
    LogGOPS(o=1e-06, O=0.0, S=1024.0)
    """
    rules = LogGOPS()
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key in ("L", "g", "G"):
            raise InputError(f"option {key}: L, g and G are those of the machine: --latency, ...")
        if key not in LogGOPS._fields or not equals:
            raise InputError(f"option {part[:40]!r}: write o=1.5us, O=0ns or S=64KiB")
        parse = parse_bytes if key == "S" else parse_seconds
        try:
            rules = rules._replace(**{key: 0.0 if part == "S=0" else parse(value)})
        except InputError as error:
            raise InputError(f"option {part[:40]!r}: {error}") from None
    return rules


def schedule_of(program: GoalProgram, rules: LogGOPS, file: str) -> Schedule:
    """The schedule of a program. Its V is what the busiest rank sends.

    Raises InputError with lines where sends and receives do not match, or operations wait for each
    other.
    """
    tasks, waits = _tasks(program, rules, _matches(program, file))
    order = _order(waits, tasks["line"].tolist(), file)
    earlier, later = np.argsort(order)[np.array(waits, dtype=np.int64).reshape(-1, 2).T]
    tasks = tasks[order]
    sent = np.bincount(
        tasks["rank"], tasks["nbytes"] * (tasks["rank"] != tasks["peer"]), program.ranks
    )
    builder = ScheduleBuilder(program.ranks, max(1.0, float(sent.max())))
    return sequence(builder, {name: tasks[name] for name in COLUMNS}, (later, earlier))


def _matches(program: GoalProgram, file: str) -> dict[int, int]:
    """The receive of each send: the first by source, destination and tag that has none yet.

    Ranks post operations in the order of the file, where nothing else is required.
    """
    sends = defaultdict[tuple[int, int, int], list[int]](list)
    receives = defaultdict[tuple[int, int, int], list[int]](list)
    waits = [(earlier, later) for later, earlier, _ in program.waits]
    for number in _order(waits, [operation.line for operation in program.operations], file):
        operation = program.operations[number]
        if operation.kind == "send":
            sends[operation.rank, operation.peer, operation.tag].append(number)
        elif operation.kind == "recv":
            receives[operation.peer, operation.rank, operation.tag].append(number)
    matches = {}
    for key in {**sends, **receives}:
        for send, receive in zip(sends[key], receives[key], strict=False):
            ends = program.operations[send], program.operations[receive]
            if ends[0].size != ends[1].size:
                raise InputError(
                    f"{file} line {ends[0].line}: {ends[0].size} bytes are sent, line "
                    f"{ends[1].line} receives {ends[1].size}"
                )
            matches[send] = receive
        few, many = sorted((sends[key], receives[key]), key=len)
        if len(few) < len(many):
            alone = program.operations[many[len(few)]]
            verb = "sends to" if alone.kind == "send" else "receives from"
            raise InputError(
                f"{file} line {alone.line}: rank {alone.rank} {verb} rank {alone.peer} with tag "
                f"{alone.tag}: the other rank has no match"
            )
    return matches


def _tasks(
    program: GoalProgram, rules: LogGOPS, matches: dict[int, int]
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """The computations and messages of all operations, with the `COLUMNS`, and the earlier and the
    later task of each wait.

    An operation whose start others wait for begins with a computation of no time.
    """
    tasks, waits = list[tuple[float, ...]](), list[tuple[int, int]]()

    def compute(operation: GoalOperation, seconds: float) -> int:
        rank, cpu = operation.rank, operation.cpu
        tasks.append((COMPUTE, rank, rank, 0.0, seconds, cpu, operation.line))
        return len(tasks) - 1

    def transfer(operation: GoalOperation, rank: int, peer: int, nbytes: float) -> int:
        tasks.append((TRANSFER, rank, peer, nbytes, 0.0, operation.nic, operation.line))
        return len(tasks) - 1

    started = {earlier for _, earlier, start in program.waits if start}
    begin, first = dict[int, int](), dict[int, int]()
    for number, operation in enumerate(program.operations):
        if number in started:
            begin[number] = compute(operation, 0.0)
        if operation.kind == "calc":
            seconds = operation.size * 1e-9
        else:
            seconds = rules.o + max(0, operation.size - 1) * rules.O
        first[number] = compute(operation, seconds)
        if number in started:
            waits.append((begin[number], first[number]))
    done, posted = dict(first), defaultdict[int, list[int]](list)
    for send, receive in matches.items():
        operation = program.operations[send]
        rank, peer = operation.rank, operation.peer
        message = transfer(operation, rank, peer, operation.size)
        waits += [(first[send], message), (message, first[receive])]
        if operation.size > rules.S:
            ready = transfer(operation, peer, rank, 0.0)
            waits.append((ready, message))
            posted[receive].append(ready)
            done[send] = message
            if receive in begin:
                waits.append((begin[receive], ready))
    for later, earlier, start in program.waits:
        before = begin[earlier] if start else done[earlier]
        waits += [(before, task) for task in (begin.get(later, first[later]), *posted[later])]
    kinds = [(name, "f8" if name in ("nbytes", "seconds") else "i8") for name in COLUMNS]
    return np.array(tasks, dtype=kinds), waits


def _order(waits: Sequence[tuple[int, int]], lines: Sequence[int], file: str) -> list[int]:
    """An order in which everything comes after what it waits for, and else in its own order. A wait
    has the earlier and the later number. Raises InputError with the lines of a circle."""
    every = np.arange(len(lines))
    edges = np.array(waits, dtype=np.int64).reshape(-1, 2).T
    order: list[int] = topological_order(edges, every, every).tolist() if waits else every.tolist()
    if len(order) < len(lines):
        import networkx as nx  # right files do not wait for it

        circle = nx.find_cycle(nx.DiGraph(sorted((later, earlier) for earlier, later in waits)))
        through = [lines[number] for number, _ in circle]
        shown = ", ".join(map(str, through[:8]))
        raise InputError(f"{file} line {through[0]}: it waits for itself, through lines {shown}")
    return order
