"""A user's Python file: its algorithm is found, guarded, proven, and taken to other processes."""

import pickle
from pathlib import Path

import pytest

from experiments.algorithm_files import read_algorithm
from experiments.simulations.case import Case
from grouped_cases import each_case
from refusals import refusal
from simulator.collectives import Algorithm
from simulator.collectives.symmetry import fold
from topologies.shapes import star

HEAD = """
from simulator.collectives.declaration import algorithm
from simulator.schedules.schedule_builder import ScheduleBuilder

"""
LINE = (
    HEAD
    + '''
@algorithm("all_reduce")
def line(ranks, nbytes):
    """Down a line, and back again."""
    line = ScheduleBuilder(ranks, nbytes)
    for rank in reversed(range(1, ranks)):
        line.reduce(rank, rank - 1, slot=0)
    for rank in range(ranks - 1):
        line.copy(rank, rank + 1, slot=0)
    return line.build()
'''
)
DOUBLED = LINE.replace(
    "    for rank in range(", "    line.reduce(ranks - 1, 0, slot=0)\n    for rank in range("
)
MISSING = LINE.replace("reversed(range(1, ranks))", "reversed(range(2, ranks))")
MISPLACED = (
    HEAD
    + """
@algorithm("all_gather")
def misplaced(ranks, nbytes):
    star = ScheduleBuilder(ranks, nbytes, slots=ranks)
    for rank in range(ranks):
        for peer in range(ranks):
            if peer != rank:
                slot = 0 if (rank, peer) == (2, 1) else rank
                star.copy(rank, peer, slot=slot, target=rank)
    return star.build()
"""
)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "mine.py"


def test_a_function_of_ten_lines_is_an_algorithm(written: Path) -> None:
    written.write_text(LINE)
    line = read_algorithm(str(written))
    assert (line.name, line.summary) == ("line", "Down a line, and back again")
    case = Case(line, 4, star(4, bandwidth=1e9))
    assert case.simulate(1e9).makespan == pytest.approx(6.0)


def test_a_name_chooses_among_several(written: Path) -> None:
    written.write_text(LINE + LINE.replace("def line", "def other"))
    assert read_algorithm(f"{written}:other").name == "other"
    assert "write" in refusal(read_algorithm, str(written))
    assert "did you mean 'other'?" in refusal(read_algorithm, f"{written}:othr")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (DOUBLED, "rank 0, slot 0 holds the contribution of rank 3, slot 0 twice: doubled"),
        (MISSING, "rank 0, slot 0 misses the contribution of rank 1, slot 0 (and 2 more)"),
        (MISPLACED, "of rank 0, slot 0 where that of rank 2, slot 2 belongs: out of order"),
    ],
    ids=["doubled", "missing", "out of order"],
)
def test_a_wrong_algorithm_is_refused_before_it_is_timed(
    written: Path, source: str, words: str
) -> None:
    written.write_text(source)
    wrong = read_algorithm(str(written))
    assert words in refusal(Case, wrong, 4, star(4, bandwidth=1e9))


@each_case(
    ("source", "words"),
    [
        ("x = 1\nraise KeyError('a')\n", "mine.py line 2: KeyError: 'a'"),
        ("def f(:\n", "mine.py line 1: SyntaxError: "),
        ("import sys\nsys.exit(3)\n", "mine.py line 2: SystemExit: 3"),
        ("x = 1\n", "mine.py declares no algorithm: put @algorithm"),
        ("x = '\0'\n", "mine.py line 1: SyntaxError: "),
        (LINE.replace("def line", "def ring"), "an algorithm of simctl is called 'ring'"),
        (LINE.replace('"all_reduce"', '"all_redce"'), "did you mean 'all_reduce'?"),
        ("def f():\n  f()\nf()\n", "mine.py line 2: RecursionError: "),
    ],
)
def test_a_mistake_of_the_file_is_one_line_with_its_place(
    written: Path, source: str, words: str
) -> None:
    written.write_text(source)
    assert words in refusal(read_algorithm, str(written))


@each_case(
    ("body", "words"),
    [
        ("    return 1 / (ranks - 4)", "mine.py line 8: ZeroDivisionError: division by zero"),
        ("    return nbytes", "mine.py: mine returned float on 4 ranks: return builder.build()"),
        ("    return ScheduleBuilder(3, nbytes).build()", "a schedule of 3 ranks for 4 ranks"),
        ("    ScheduleBuilder(ranks, nbytes).copy(0, 9, slot=0)", "mine.py line 8: rank 9"),
    ],
)
def test_a_mistake_of_the_function_is_one_line_with_its_place(
    written: Path, body: str, words: str
) -> None:
    written.write_text(f'{HEAD}\n@algorithm("all_reduce")\ndef mine(ranks, nbytes):\n{body}\n')
    assert words in refusal(read_algorithm(str(written)).build, 4, 1.0)


SHIFTED = (
    HEAD
    + """
from dataclasses import replace
from simulator.schedules.shifts import SlotMove, fold, rotations

@algorithm("all_gather")
def direct(ranks, nbytes, shifts=None):
    folded = fold(ranks, shifts, SlotMove(0, 0, 1, ranks))
    builder = ScheduleBuilder(folded, nbytes, slots=ranks)
    rank = builder.each()
    for step in range(1, ranks):
        builder.copy(rank, (rank + step) % ranks, slot=rank)
    return builder.build()

MINE = replace(direct, shifts=rotations)
del direct
"""
)


def test_right_shifts_are_taken(written: Path) -> None:
    written.write_text(SHIFTED)
    assert fold(read_algorithm(str(written)), star(8, bandwidth=1.0), 8) is not None


@pytest.mark.parametrize(
    ("before", "after", "ranks", "words"),
    [
        (
            "slot=rank)",
            "slot=rank, channel=rank)",
            2,
            "on 2 ranks: by them rank 1 copies its slot 1 to slot 1 of rank 0 on channel 0, "
            "0.5 of V, without them rank 1 copies its slot 1 to slot 1 of rank 0 on channel 1, "
            "0.5 of V",
        ),
        (
            "    return builder",
            "    if ranks == 3: builder.copy(0, 1, slot=0)\n    return builder",
            3,
            "on 3 ranks: by them 9 slots are sent, without them 7",
        ),
    ],
)
def test_wrong_shifts_are_refused(
    written: Path, before: str, after: str, ranks: int, words: str
) -> None:
    written.write_text(SHIFTED.replace(before, after))
    declared, machine = read_algorithm(str(written)), star(ranks, bandwidth=1.0)
    assert refusal(fold, declared, machine, ranks) == f"mine.py: direct has wrong shifts {words}"


def test_another_process_needs_no_file(written: Path) -> None:
    written.write_text(LINE)
    data = pickle.dumps(read_algorithm(str(written)))
    written.unlink()
    line: Algorithm = pickle.loads(data)
    assert line.build(4, 8.0).volume == 48.0


def test_prints_of_the_file_are_no_data(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written.write_text(f"print('hello')\n{LINE}")
    read_algorithm(str(written))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")


def test_files_that_are_not_there_or_of_another_kind_are_refused(tmp_path: Path) -> None:
    assert "no such file" in refusal(read_algorithm, str(tmp_path / "none.py"))
    (tmp_path / "mine.txt").write_text(LINE)
    assert "ends in .py" in refusal(read_algorithm, str(tmp_path / "mine.txt"))
