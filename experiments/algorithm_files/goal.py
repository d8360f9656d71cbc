"""GOAL files as algorithms, by the rules of LogGOPS, checked and not proven; schedules as GOAL.

A send takes o + (n - 1)O of its cpu, and so does a receive. A message of up to S bytes is eager: it
leaves when the send has run. A longer message also waits until its receive is posted. The
machine has L, g and G.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.algorithm_files import free_name, of_file
from simulator.collectives import Algorithm, Collective
from simulator.collectives.collective import none, nothing
from simulator.cost_models.cost_model import NO_FORMULA
from simulator.schedules.schedule import COMPUTE, TRANSFER, Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.sequences import sequence
from simulator.steps.group_meetings import topological_order
from topologies.columns import plain_rows
from topologies.errors import InputError
from topologies.option_text import PARSERS, parse_pairs
from topologies.readers.contents import check_text

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(\*/|\Z)", re.DOTALL)
_LABEL = r"[A-Za-z][A-Za-z0-9_]*"
_RANKS = re.compile(r"num_ranks\s+(\d+)", re.ASCII)
_RANK = re.compile(r"rank\s+(\d+)\s*\{", re.ASCII)
_OPERATION = re.compile(
    rf"(?:({_LABEL})\s*:\s*)?(?:(send|recv)\s+(\d+)b\s+(to|from)\s+(-1|\d+)|(calc)\s+(\d+))"
    r"((?:\s+(?:tag|cpu|nic)\s+(?:-1|\d+))*)",
    re.ASCII,
)
_WAIT = re.compile(rf"({_LABEL})\s+(i?requires)\s+({_LABEL})", re.ASCII)


class GoalOperation(NamedTuple):
    """A send, a receive or a computation of a rank."""

    kind: str
    """send, recv or calc."""
    rank: int
    peer: int
    """The other rank; the rank itself of a calc."""
    size: int
    """Bytes, or nanoseconds of a calc."""
    tag: int
    cpu: int
    nic: int
    line: int


class GoalProgram(NamedTuple):
    """What a GOAL file says: operations of ranks, and what each waits for."""

    ranks: int
    operations: tuple[GoalOperation, ...]
    """Rank by rank, in the order of the file."""
    waits: tuple[tuple[int, int, bool], ...]
    """The number of an operation, that of another of its rank for which it waits, and whether it
    waits for the start of that (irequires) instead of its end."""


def read_goal(text: str, file: str) -> GoalProgram:
    """The program in the GOAL file `file`. Raises InputError with the line if it is none."""
    return _GoalReader(file).read(check_text(text, file))


class _GoalReader:
    def __init__(self, file: str) -> None:
        self.file, self.line = file, 0
        self.ranks, self.rank, self.open = -1, -1, False
        self.operations: list[GoalOperation] = []
        self.waits: list[tuple[int, int, bool]] = []
        self.labels: dict[str, int] = {}
        self.pending: list[tuple[str, str, bool, int]] = []

    def read(self, text: str) -> GoalProgram:
        plain = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
        for number, content in enumerate(plain.split("\n"), 1):
            self.line = number
            if words := content.strip():
                self._line(words)
        if self.ranks < 0:
            raise self._mistake("", "it begins with num_ranks N")
        if self.open or self.rank < self.ranks - 1:
            missing = f"rank {self.rank} has no }}" if self.open else f"no rank {self.rank + 1}"
            raise self._mistake("", f"{missing}: there are {self.ranks} ranks")
        return GoalProgram(self.ranks, tuple(self.operations), tuple(self.waits))

    def _line(self, words: str) -> None:
        if self.ranks < 0:
            if not (match := _RANKS.fullmatch(words)):
                raise self._mistake(words, "it begins with num_ranks N")
            self.ranks = self._whole(match[1], "num_ranks", 2**16)
            if not self.ranks:
                raise self._mistake(words, "1 rank or more")
        elif not self.open:
            if not (match := _RANK.fullmatch(words)):
                raise self._mistake(words, f"expected rank {self.rank + 1} {{")
            rank = self._whole(match[1], "rank", 2**16)
            if rank != self.rank + 1 or rank >= self.ranks:
                raise self._mistake(
                    words, f"ranks are in order, from 0 to {self.ranks - 1}, once each"
                )
            self.rank, self.open, self.labels = rank, True, {}
        elif words == "}":
            self._end()
        elif match := _WAIT.fullmatch(words):
            self.pending.append((match[1], match[3], match[2] == "irequires", self.line))
        elif match := _OPERATION.fullmatch(words):
            self._operation(match, words)
        else:
            raise self._mistake(
                words, "expected send 8b to 1, recv 8b from 1, calc 100, or a requires b"
            )

    def _operation(self, match: re.Match[str], words: str) -> None:
        label, kind, size, way, peer, calc, time, rest = match.groups()
        if kind and way != {"send": "to", "recv": "from"}[kind]:
            raise self._mistake(words, "a send goes to a rank, a recv comes from a rank")
        options = {"tag": 0, "cpu": 0, "nic": 0}
        named = re.findall(r"(tag|cpu|nic)\s+(-1|\d+)", rest)
        if len(dict(named)) < len(named):
            raise self._mistake(words, "tag, cpu and nic are there once")
        for name, value in named:
            options[name] = self._whole(value, name, 2**32 - 1 if name == "tag" else 255)
        place = self.rank if calc else self._whole(peer, "rank", self.ranks - 1)
        amount = self._whole(time or size, "size", 2**50)
        if label:
            if label in self.labels:
                raise self._mistake(words, f"rank {self.rank} has a label {label[:40]} already")
            self.labels[label] = len(self.operations)
        self.operations.append(
            GoalOperation(kind or calc, self.rank, place, amount, **options, line=self.line)
        )

    def _end(self) -> None:
        for later, earlier, start, line in self.pending:
            for label in (later, earlier):
                if label not in self.labels:
                    self.line = line
                    raise self._mistake("", f"rank {self.rank} has no label {label[:40]}")
            self.waits.append((self.labels[later], self.labels[earlier], start))
        self.pending, self.open = [], False

    def _whole(self, digits: str, name: str, most: int) -> int:
        if digits == "-1":
            raise self._mistake(
                f"{name} -1", "any rank or tag: simctl matches messages by rank and tag"
            )
        if len(digits) > 20 or int(digits) > most:
            raise self._mistake(f"{name} {digits[:30]}", f"from 0 to {most}")
        return int(digits)

    def _mistake(self, words: str, right: str) -> InputError:
        shown = words if len(words) <= 80 else f"{words[:80]}..."
        wrong = f"{shown!r}: {right}" if words else right
        return InputError(f"{self.file} line {self.line}: {wrong}")


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
    example = "o=1.5us, O=0ns or S=64KiB"

    def unknown(key: str) -> str:
        if key in ("L", "g", "G"):
            return f"option {key}: L, g and G are those of the machine: --latency, ..."
        return f"option {key[:40]!r}: write {example}"

    parsers = {key: PARSERS["bytes" if key == "S" else "seconds"] for key in LogGOPS._fields}
    return LogGOPS(**parse_pairs(text, "options", parsers, unknown=unknown, example=example))


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
            sent, received = program.operations[send], program.operations[receive]
            if sent.size != received.size:
                raise InputError(
                    f"{file} line {sent.line}: {sent.size} bytes are sent, line {received.line} "
                    f"receives {received.size}"
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


def write_goal(schedule: Schedule, name: str) -> str:
    """A schedule as GOAL. Every message has a tag of its own, so that no receive takes another
    message.

    Merges and copies within a rank take no time. Raises InputError if an operation waits for one of
    other ranks.
    """
    if schedule.switches:
        raise InputError(f"{name} cannot be a GOAL file: switches reduce in it, GOAL has ranks")
    lines: dict[int, list[str]] = defaultdict(list)
    labels: list[dict[int, str]] = []
    columns = plain_rows(
        schedule.kind,
        schedule.rank,
        schedule.peer,
        schedule.nbytes,
        schedule.seconds,
        schedule.lane,
    )
    for number, (kind, rank, peer, nbytes, seconds, lane) in enumerate(columns):
        if rank == peer:
            cpu = f" cpu {lane}" if kind == COMPUTE and lane else ""
            label = {rank: f"c{number}"}
            lines[rank].append(f"c{number}: calc {round(seconds * 1e9)}{cpu}")
        else:
            label = {rank: f"s{number}", peer: f"r{number}"}
            size = max(1, round(nbytes))
            lines[rank].append(f"s{number}: send {size}b to {peer} tag {number}")
            lines[peer].append(f"r{number}: recv {size}b from {rank} tag {number}")
        for earlier in schedule.predecessors(number).tolist():
            shared = [end for end in label if end in labels[earlier]]
            if not shared:
                raise InputError(
                    f"{name} cannot be a GOAL file: operation {number} from rank {rank} to {peer} "
                    f"waits for an operation of other ranks"
                )
            for end in shared:
                lines[end].append(f"{label[end]} requires {labels[earlier][end]}")
        labels.append(label)
    blocks = ("\n".join([f"rank {rank} {{", *lines[rank], "}"]) for rank in range(schedule.ranks))
    return "\n\n".join([f"num_ranks {schedule.ranks}", *blocks, ""])
