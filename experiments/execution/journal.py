"""The journal: the results of an unfinished sweep, a line each, beside the file to come; and points
whose results are kept in it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar
from zlib import crc32

from experiments import output
from experiments.execution.executor import Executor
from topologies.errors import InputError
from topologies.jit import is_loaded
from topologies.resources import duration

SUFFIX = ".journal"
"""What follows the name of the file to come."""
Facts = Mapping[str, Any]
"""How results were made: versions, parameters, and files that the parameters name."""


class Journal:
    """Appends results to the journal of `out`, and knows those of an earlier run.

    A line is a checksum and JSON. The first says how the results are made. A line that is torn or
    damaged does not count. Raises InputError if another process writes the journal; if there are
    results, unless `resume`; and if these were made in another way.
    """

    def __init__(self, out: Path, facts: Facts, resume: bool) -> None:
        self.path = journal_of(out)
        self.results: dict[int, Any] = {}
        """The results of the earlier run by the number of their point."""
        self._synced = monotonic()
        with self._refusing():
            self._file = self.path.open("a+b", buffering=0)
        try:
            self._begin(_plain(facts), resume)
        except BaseException:
            self._file.close()
            raise

    def _begin(self, facts: Facts, resume: bool) -> None:
        self._lock()
        # Opening the file a second time would end the lock.
        self._file.seek(0)
        text = self._file.readall()
        earlier, *entries = [*_checked(text)] or [None]
        self.results = dict(filter(_is_entry, entries))
        self._has_results = bool(self.results)
        if text and not isinstance(earlier, dict):
            raise InputError(f"{self.path} is no journal of simctl, or damaged: remove it")
        if not self.results:
            self._file.truncate(0)
            try:
                self._write(_line(facts))
            except InputError:
                self.remove()  # without its first line a journal is none
                raise
        elif not resume:
            points = output.counted(len(self.results), "point")
            raise InputError(
                f"{self.path} has {points} of an unfinished run: go on with --resume, or remove it"
            )
        elif change := difference(earlier, facts):
            raise InputError(f"cannot resume {self.path}: {change}")
        elif not text.endswith(b"\n"):
            self._write(b"\n")

    def add(self, number: int, result: object) -> None:
        """Store the result of a point."""
        self._has_results = True
        self._write(_line([number, result]))
        # A loss of power costs a second of work.
        if monotonic() > self._synced + 1.0:
            with self._refusing():
                os.fsync(self._file)
            self._synced = monotonic()

    def remove(self) -> None:
        """The file to come is there."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if not self._has_results:
            self.remove()
        elif kind is KeyboardInterrupt and self.path.exists():
            output.note(f"{self.path} keeps what is done: go on with --resume")

    def _write(self, line: bytes) -> None:
        with self._refusing():
            while line:
                line = line[os.write(self._file.fileno(), line) :]

    def _lock(self) -> None:
        """A lock of this process alone, which forked workers do not inherit."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise InputError(f"{self.path}: another simctl writes it, wait for its end") from None
        except OSError:
            pass  # a network's file system without locks

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"cannot write {str(self.path)!r}: {error.strerror}; what is there counts, go on "
                f"with --resume"
            ) from None


def journal_of(out: Path) -> Path:
    """Where the journal of a file is."""
    return out.with_name(f"{out.name}{SUFFIX}")


def is_complete(out: Path | None, parameters: output.Record, resume: bool) -> bool:
    """Whether there is nothing to resume, since `out` is there without a journal; says so.

    Raises InputError if there is no `out` to resume, or if it was made in another way.
    """
    if not resume:
        return False
    if out is None:
        raise InputError("--resume of which file: name it with --out")
    if journal_of(out).exists() or not out.exists():
        return False
    try:
        earlier = json.loads(output.meta_of(out).read_bytes())
        change = difference(earlier, _plain(output.facts(parameters)))
    except (OSError, ValueError, AttributeError):
        change = f"{output.meta_of(out).name} does not say how it was made"
    if change:
        raise InputError(f"cannot resume {out}: {change}")
    output.note(f"{out} is complete: there is nothing to resume")
    return True


def difference(earlier: Facts, facts: Facts) -> str:
    """The first fact that differs, in words; "" if none does."""
    for group, name in (("versions", "{}"), ("parameters", "--{}"), ("files", "file {}")):
        old, new = earlier.get(group, {}), facts.get(group, {})
        if group == "files" and group not in earlier:
            continue  # tables of older versions do not say what was in the files
        for key in {**old, **new}:
            if old.get(key) != new.get(key):
                what = name.format(key if group != "parameters" else key.replace("_", "-"))
                if group == "files":
                    return f"the content of {what} has changed"
                before, now = (
                    f"without {what}" if value is None else f"{word}{what} {value}"
                    for word, value in (("of ", old.get(key)), ("", new.get(key)))
                )
                return f"it is {before}, this is {now}"
    return ""


def _plain(facts: Facts) -> Facts:
    """As JSON gives them back."""
    plain: Facts = json.loads(json.dumps(facts))
    return plain


def _line(value: object) -> bytes:
    text = json.dumps(value).encode()
    return b"%08x %b\n" % (crc32(text), text)


def _checked(text: bytes) -> Iterator[Any]:
    """The values of all lines whose checksum is right."""
    for line in text.split(b"\n"):
        checksum, _, value = line.partition(b" ")
        if value and checksum == b"%08x" % crc32(value):
            yield json.loads(value)


def _is_entry(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], int)


T = TypeVar("T")


class Points(Protocol[T]):
    """Work in points that do not depend on each other."""

    @property
    def costs(self) -> Sequence[float]:
        """About how many seconds each point takes."""

    def run(self, numbers: Sequence[int]) -> Iterator[T]:
        """The results of the points with these numbers, in that order."""

    def encode(self, result: T) -> Any:
        """A result as JSON takes it."""

    def decode(self, encoded: Any) -> T:
        """The result that was encoded."""


def results(
    points: Points[T],
    executor: Executor | None = None,
    journal: Journal | None = None,
    finished: Callable[[int], None] = lambda number: None,
) -> Iterator[T]:
    """The result of every point in the order of their numbers, each as soon as it and all before it
    are there. Without an executor this process runs one point after the other.

    The journal has the results of an earlier run, and gets the others. `finished` gets the number
    of each point that is run.
    """
    early: dict[int, T] = {}
    if journal:
        early = {number: points.decode(result) for number, result in journal.results.items()}
    costs = {number: cost for number, cost in enumerate(points.costs) if number not in early}
    following = count()
    number = next(following)
    while number in early:
        yield early.pop(number)
        number = next(following)
    if executor:
        ran = executor.map(points.run, costs)
    else:
        ran = zip(costs, points.run(list(costs)), strict=True)
    for done, result in ran:
        if journal:
            journal.add(done, points.encode(result))
        finished(done)
        early[done] = result
        while number in early:
            yield early.pop(number)
            number = next(following)


class Countdown:
    """Tells how many points are done, and the time left, as the work that is done tells it.

    Work counts from when kernels are compiled and loaded on: before, points take longer.
    """

    def __init__(
        self, progress: output.Progress, costs: Sequence[float], earlier: Iterable[int] = ()
    ) -> None:
        self._progress, self._costs, self._start = progress, costs, monotonic()
        known = list(earlier)
        self._done, self._spent = len(known), 0.0
        self._left = sum(costs) - sum(costs[number] for number in known)
        self._loaded = is_loaded()

    def __call__(self, number: int) -> None:
        """A point is done."""
        self._done += 1
        self._spent += self._costs[number]
        self._left -= self._costs[number]
        if is_loaded() != self._loaded:
            self._start, self._spent, self._loaded = monotonic(), 0.0, is_loaded()
        remark = ""
        # The first points take longer, since they load compiled code: they tell nothing.
        if self._spent > 0.01 * max(self._left, 0.0):
            seconds = (monotonic() - self._start) * self._left / self._spent
            remark = f", {duration(seconds)} left"
        self._progress(self._done, len(self._costs), remark)
