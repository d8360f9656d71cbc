"""What is kept of an unfinished sweep, what is not believed, and results in order."""

import errno
import fcntl
import io
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import output
from experiments.execution import journal as module
from experiments.execution.executor import Run, T
from experiments.execution.journal import (
    Countdown,
    Journal,
    difference,
    is_complete,
    journal_of,
    results,
)
from refusals import refusal

FACTS = output.facts({"p": "2..64", "slow_link": None})


@contextmanager
def resumed(out: Path) -> Iterator[Journal]:
    with Journal(out, FACTS, resume=True) as journal:
        yield journal


def written(out: Path, results: int = 3) -> bytes:
    with Journal(out, FACTS, resume=False) as journal:
        for number in range(results):
            journal.add(number, {"time_s": number / 3, "bound": "α\n"})
        return journal_of(out).read_bytes()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "x.csv"


def test_results_are_there_again(out: Path) -> None:
    written(out)
    with resumed(out) as journal:
        assert journal.results == {k: {"time_s": k / 3, "bound": "α\n"} for k in range(3)}
        journal.add(7, [float("inf")])
    with resumed(out) as journal:
        assert journal.results[7] == [float("inf")]
        journal.remove()
    assert list(out.parent.iterdir()) == []


def test_a_torn_line_does_not_count_wherever_it_ends(out: Path) -> None:
    whole = written(out)
    lines = whole.splitlines(keepends=True)
    for length in range(len(lines[0]) + len(lines[1]), len(whole)):
        journal_of(out).write_bytes(whole[:length])
        complete = (whole[:length] + whole[length : length + 1]).count(b"\n") - 1
        with resumed(out) as journal:
            assert list(journal.results) == list(range(complete))
            journal.add(9, "after")
        with resumed(out) as journal:
            assert list(journal.results) == [*range(complete), 9]


def test_a_damaged_line_costs_only_itself(out: Path) -> None:
    first, *lines = written(out, 8).splitlines(keepends=True)
    random = Random(0)
    for number, line in enumerate(lines):
        place = random.randrange(len(line) - 1)
        changed = line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :]
        damaged = [*lines[:number], changed, *lines[number + 1 :]]
        journal_of(out).write_bytes(first + b"".join(damaged))
        with resumed(out) as journal:
            assert list(journal.results) == [k for k in range(8) if k != number]


def test_results_are_not_thrown_away(out: Path) -> None:
    written(out)
    assert refusal(Journal, out, FACTS, False) == (
        f"{journal_of(out)} has 3 points of an unfinished run: go on with --resume, or remove it"
    )


def test_a_run_without_results_leaves_nothing(out: Path) -> None:
    written(out, 0)
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize("content", [b"algorithm,ranks\n", b"00000000 {}\n", b"\0" * 100])
def test_a_file_of_something_else_is_left_alone(content: bytes, out: Path) -> None:
    journal_of(out).write_bytes(content)
    assert "no journal of simctl" in refusal(Journal, out, FACTS, True)
    assert journal_of(out).read_bytes() == content


def test_another_sweep_is_refused(out: Path) -> None:
    written(out)
    for parameters, change in (
        ({"p": "2..32", "slow_link": None}, "it is of --p 2..64, this is --p 2..32"),
        (
            {"p": "2..64", "slow_link": "1:0.5"},
            "it is without --slow-link, this is --slow-link 1:0.5",
        ),
    ):
        message = refusal(Journal, out, output.facts(parameters), True)
        assert message == f"cannot resume {journal_of(out)}: {change}"


def test_another_version_is_refused(out: Path) -> None:
    written(out)
    current = FACTS["versions"]["simctl-collectives"]
    versions = {**FACTS["versions"], "simctl-collectives": "9.9"}
    assert refusal(Journal, out, {**FACTS, "versions": versions}, True) == (
        f"cannot resume {journal_of(out)}: it is of simctl-collectives {current}, this is "
        "simctl-collectives 9.9"
    )


def test_an_option_that_is_left_out_is_named() -> None:
    facts = [output.facts({"epochs": value}) for value in (0.01, None)]
    assert difference(*facts) == "it is of --epochs 0.01, this is without --epochs"
    assert difference(*facts[::-1]) == ("it is without --epochs, this is --epochs 0.01")


def test_a_changed_input_file_is_refused(out: Path, tmp_path: Path) -> None:
    machine = tmp_path / "box.yaml"
    machine.write_text("a")
    with Journal(out, output.facts({"topology": f"{machine}:nodes=2"}), resume=False) as journal:
        journal.add(0, 0)
    machine.write_text("b")
    message = refusal(Journal, out, output.facts({"topology": f"{machine}:nodes=2"}), True)
    assert message.endswith(f"the content of file {machine} has changed")


def test_a_complete_file_of_a_changed_input_file_is_refused(out: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("a")
    parameters: dict[str, output.Value] = {"algo_file": f"{mine}:ring"}
    output.write_table(out, [{"x": 1}], output.provenance(**parameters))
    assert is_complete(out, parameters, resume=True)
    mine.write_text("b")
    assert refusal(is_complete, out, parameters, True) == (
        f"cannot resume {out}: the content of file {mine} has changed"
    )


def test_a_changed_folder_is_refused(out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "rank0.json").write_text("{}")
    facts = output.facts({"model": str(folder)})
    assert output.facts({"model": str(folder)}) == facts
    (folder / "rank1.json").write_text("{}")
    assert output.facts({"model": str(folder)}) != facts


def test_a_folder_of_traces_may_have_a_broken_link(tmp_path: Path) -> None:
    (tmp_path / "latest.json").symlink_to("nowhere")
    assert str(tmp_path) in output.facts({"model": str(tmp_path)})["files"]


def test_a_folder_with_the_name_of_an_algorithm_is_no_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ring").mkdir()
    out = tmp_path / "ring" / "table.csv"
    parameters: dict[str, output.Value] = {"algo": "ring"}
    output.write_table(out, [{"x": 1}], output.provenance(**parameters))
    assert is_complete(out, parameters, resume=True)


def test_two_processes_do_not_write_the_same_journal(out: Path) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()

    def other() -> None:
        there.send(refusal(Journal, out, FACTS, True))

    with Journal(out, FACTS, resume=False) as journal:
        journal.add(0, 0)
        process = context.Process(target=other)
        process.start()
        message = here.recv()
        process.join()
    assert message == f"{journal_of(out)}: another simctl writes it, wait for its end"


def test_a_file_system_without_locks_will_do(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlocked(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "lockf", unlocked)
    written(out)
    with resumed(out) as journal:
        assert list(journal.results) == [0, 1, 2]


def test_a_complete_file_has_nothing_to_resume(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not is_complete(out, {"p": "4"}, resume=True)
    output.write_table(out, [{"x": 1}], output.provenance(p="4"))
    assert not is_complete(out, {"p": "4"}, resume=False)
    assert is_complete(out, {"p": "4"}, resume=True)
    assert capsys.readouterr().err == f"note: {out} is complete: there is nothing to resume\n"
    assert refusal(is_complete, out, {"p": "5"}, True) == (
        f"cannot resume {out}: it is of --p 4, this is --p 5"
    )
    output.meta_of(out).write_text("[]")
    assert "does not say how it was made" in refusal(is_complete, out, {"p": "4"}, True)
    assert "name it with --out" in refusal(is_complete, None, {}, True)


class Squares:
    """Points whose results are squares."""

    def __init__(self, number: int) -> None:
        self.costs = [1.0] * number
        self.numbers: list[int] = []

    def run(self, numbers: Sequence[int]) -> Iterator[int]:
        for number in numbers:
            self.numbers.append(number)
            yield number**2

    def encode(self, result: int) -> Any:
        return result

    def decode(self, encoded: Any) -> int:
        return int(encoded)


class Shuffled:
    """Runs points in some order."""

    def __init__(self, order: Callable[[list[int]], list[int]]) -> None:
        self.order = order

    def map(self, run: Run[T], costs: Mapping[int, float]) -> Iterator[tuple[int, T]]:
        order = self.order(list(costs))
        return zip(order, run(order), strict=True)


@given(st.permutations(range(12)))
def test_results_are_in_order_whatever_the_order_of_the_points(order: list[int]) -> None:
    points = Squares(12)
    assert list(results(points, Shuffled(lambda numbers: order))) == [k**2 for k in range(12)]
    assert points.numbers == order


def test_a_result_does_not_wait_for_later_points() -> None:
    points = Squares(4)
    stream = results(points, Shuffled(lambda numbers: [1, 0, 3, 2]))
    assert (next(stream), points.numbers) == (0, [1, 0])
    assert (next(stream), points.numbers) == (1, [1, 0])
    assert (next(stream), points.numbers) == (4, [1, 0, 3, 2])


def test_what_the_journal_has_is_not_run(tmp_path: Path) -> None:
    with Journal(tmp_path / "x.csv", {}, resume=False) as journal:
        for number in (0, 1, 5):
            journal.add(number, number**2)
    points = Squares(7)
    with Journal(tmp_path / "x.csv", {}, resume=True) as journal:
        finished: list[int] = []
        stream = results(points, None, journal, finished.append)
        assert [next(stream), next(stream)] == [0, 1]
        assert points.numbers == []
        assert list(stream) == [4, 9, 16, 25, 36]
    assert points.numbers == finished == [2, 3, 4, 6]
    with Journal(tmp_path / "x.csv", {}, resume=True) as journal:
        assert journal.results == {k: k**2 for k in range(7)}


def test_compiling_is_no_part_of_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first point loads kernels."""
    clock, lines = [0.0], io.StringIO()
    monkeypatch.setattr(module, "monotonic", lambda: clock[0])
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(module, "is_loaded", lambda: clock[0] > 0.0)
    countdown = Countdown(output.Progress("points done", lines), [10.0] * 6)
    for number, seconds in enumerate((100.0, 11.0)):
        clock[0] += seconds
        countdown(number)
    assert lines.getvalue().splitlines() == [
        "points done: 1 of 6",
        "points done: 2 of 6, 44 s left",
    ]


def test_code_that_is_loaded_at_the_last_point_tells_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sum of the costs is rounded, so the work that is left ends below 0."""
    costs, lines, loaded = [0.5, 1.9, 2.8, 2.6], io.StringIO(), [False]
    left = sum(costs)
    for cost in costs:
        left -= cost
    assert left < 0
    monkeypatch.setattr(module, "is_loaded", lambda: loaded[0])
    countdown = Countdown(output.Progress("points done", lines), costs)
    for number in range(4):
        loaded[0] = number == 3
        countdown(number)


def test_the_time_left_is_told_from_the_work_of_this_run(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, lines = [0.0], io.StringIO()
    monkeypatch.setattr(module, "monotonic", lambda: clock[0])
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    costs = [1000.0, 1.0, 10.0, 90.0, 100.0]
    countdown = Countdown(output.Progress("points done", lines), costs, earlier=[0])
    for number in (1, 2, 3, 4):
        clock[0] += 20.0
        countdown(number)
    assert lines.getvalue().splitlines() == [
        "points done: 2 of 5",
        "points done: 3 of 5, 12 min left",
        "points done: 4 of 5, 59 s left",
    ]
