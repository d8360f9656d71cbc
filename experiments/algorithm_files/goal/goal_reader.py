"""Read GOAL's text. Every mistake is one line with the line of the file."""

from __future__ import annotations

import re
from typing import NamedTuple

from topologies.errors import InputError
from topologies.readers.file_checks import check_text

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
        """The end of a rank: its labels are known."""
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
