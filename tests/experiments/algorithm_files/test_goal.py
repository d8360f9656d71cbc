"""GOAL files are matched, checked and timed by hand; what is exported takes as long as ours."""

from pathlib import Path

import pytest

from experiments.algorithm_files import read_algorithm
from experiments.algorithm_files.goal import NOT_PROVEN, algorithm_of, read_goal, write_goal
from experiments.simulations.case import Case
from experiments.simulations.sweep_rows import judge
from grouped_cases import each_case
from refusals import refusal
from simulator.collectives import find
from simulator.engines import simulate
from topologies.shapes import star

HEAD = "num_ranks 2\n"


def ranks(*blocks: str) -> str:
    lines = (f"rank {rank} {{\n{text}\n}}\n" for rank, text in enumerate(blocks))
    return f"num_ranks {len(blocks)}\n{''.join(lines)}"


def seconds(text: str, options: str = "") -> float:
    """The time on a switch of 1 GB/s ports, 1 us from rank to rank."""
    program = read_goal(text, "a.goal")
    machine = star(max(2, program.ranks), bandwidth=1e9, latency=0.5e-6)
    algorithm = algorithm_of(program, "a.goal", options)
    return simulate(algorithm.build(program.ranks, 1.0), machine).makespan


ONE = ranks("a: send 1000b to 1 tag 7", "recv 1000b from 0 tag 7")


@pytest.mark.parametrize(
    ("text", "options", "microseconds"),
    [
        (ONE, "", 2.0),
        (ONE, "o=3us", 8.0),
        (ONE, "o=3us,O=1ns", 8.0 + 2 * 0.999),
        (ONE, "S=1KiB", 2.0),
        (ONE, "S=999B", 3.0),
        (ranks("a: calc 4000\nb: send 1000b to 1\nb requires a", "recv 1000b from 0"), "", 6.0),
        (
            ranks("a: calc 4000\nb: send 1000b to 1 cpu 1\nb irequires a", "recv 1000b from 0"),
            "",
            4.0,
        ),
        (ranks("calc 4000\ncalc 4000", ""), "", 8.0),
        (ranks("calc 4000\ncalc 4000 cpu 1", ""), "", 4.0),
        (
            ranks("send 1000b to 1", "a: calc 5000\nb: recv 1000b from 0\nb requires a"),
            "S=1B",
            5.0 + 3.0,
        ),
        (
            ranks("send 1000b to 1", "a: calc 5000\nb: recv 1000b from 0\nb requires a"),
            "",
            5.0,
        ),
    ],
    ids=[
        *("eager", "overhead", "overhead of bytes", "short", "rendezvous", "after", "start"),
        *("one cpu", "two cpus", "not posted", "not posted, eager"),
    ],
)
def test_times_are_those_by_hand(text: str, options: str, microseconds: float) -> None:
    assert seconds(text, options) == pytest.approx(microseconds * 1e-6)


def test_comments_labels_and_blanks_are_read() -> None:
    text = """// a comment
    num_ranks 2 /* one
    more */
    rank 0 {
      l1 : send 8b to 1 tag 0 cpu 1 nic 2 // end
    }
    rank 1 { // begin
      l1: recv 8b from 0
    }
    """
    first, second = read_goal(text, "a.goal").operations
    assert (first.cpu, first.nic, first.line) == (1, 2, 5)
    assert (second.kind, second.size, second.line) == ("recv", 8, 8)


def test_messages_match_in_the_order_in_which_they_are_posted() -> None:
    """The second line is sent first, as it is required."""
    text = ranks(
        "a: send 10b to 1\nb: send 20b to 1\na requires b", "recv 20b from 0\nrecv 10b from 0"
    )
    assert seconds(text) > 0
    assert "10 bytes are sent" in refusal(seconds, text.replace("a requires b\n", ""))


@each_case(
    ("text", "words"),
    [
        ("", "a.goal is empty"),
        ("rank 0 {\n}", "line 1: 'rank 0 {': it begins with num_ranks N"),
        ("num_ranks 0", "1 rank or more"),
        ("num_ranks 99999999999999999999999", "from 0 to 65536"),
        (HEAD + "rank 0 {\n}", "no rank 1: there are 2 ranks"),
        (HEAD + "rank 0 {\n}\nrank 1 {\n", "rank 1 has no }"),
        (HEAD + "rank 1 {\n}", "line 2: 'rank 1 {': ranks are in order"),
        (HEAD + "rank 0 {\n}\nrank 1 {\n}\nrank 2 {\n}", "ranks are in order, from 0 to 1"),
        (HEAD + "calc 3", "expected rank 0 {"),
        (ranks("sned 3b to 1", ""), "line 3: 'sned 3b to 1': expected send 8b to 1"),
        (ranks("send 3b from 1", ""), "a send goes to a rank"),
        (ranks("send 3b to 5", ""), "rank 5': from 0 to 1"),
        (ranks("recv 3b from -1", ""), "any rank or tag"),
        (ranks("recv 3b from 1 tag -1", ""), "any rank or tag"),
        (ranks("calc 1 cpu 256", ""), "cpu 256': from 0 to 255"),
        (ranks("calc 1 cpu 1 cpu 2", ""), "are there once"),
        (ranks("a: calc 1\na: calc 2", ""), "line 4: 'a: calc 2': rank 0 has a label a already"),
        (ranks("a: calc 1\na requires b", ""), "line 4: rank 0 has no label b"),
        (ranks("a: calc 1\na requires a", ""), "line 3: it waits for itself, through lines 3"),
        (
            ranks("a: calc 1\nb: calc 1\na requires b\nb irequires a", ""),
            "it waits for itself, through lines 3, 4",
        ),
        (ranks("send 3b to 1", ""), "line 3: rank 0 sends to rank 1 with tag 0"),
        (ranks("", "recv 3b from 0 tag 2"), "receives from rank 0 with tag 2: the other"),
        (ranks("send 3b to 1", "recv 4b from 0"), "3 bytes are sent, line 6 receives 4"),
        (ranks("calc 99999999999999999999", ""), "from 0 to 1125899906842624"),
        (HEAD + "\0", "is not text"),
        (ranks("/* open", ""), "rank 0 has no }"),
    ],
)
def test_bad_files_are_refused_with_the_line(text: str, words: str) -> None:
    assert words in refusal(seconds, text)


BOTH = "a: send 9b to {0}\nb: recv 9b from {0}\n{1}"


def test_messages_that_wait_for_each_other_are_refused() -> None:
    """Receives before sends: nobody begins. Long sends before receives: nobody is ready."""
    first = ranks(*(BOTH.format(peer, "a requires b") for peer in (1, 0)))
    assert "it waits for itself" in refusal(seconds, first)
    long = ranks(*(BOTH.format(peer, "b requires a") for peer in (1, 0)))
    assert seconds(long) > 0
    assert "it waits for itself" in refusal(seconds, long, "S=1B")


@each_case(
    ("options", "words"),
    [
        ("L=1us", "L, g and G are those of the machine"),
        ("x=1", "write o=1.5us, O=0ns or S=64KiB"),
        ("o=1", "options: o=1: "),
        ("o", "write it like o=1.5us"),
    ],
)
def test_options_are_refused_by_name(options: str, words: str) -> None:
    assert words in refusal(seconds, ONE, options)


@pytest.mark.parametrize("name", ["ring", "tree", "naive", "chain_broadcast", "pairwise"])
@pytest.mark.parametrize("ranks", [4, 9, 12])
def test_what_is_exported_takes_as_long_as_ours(name: str, ranks: int) -> None:
    """With tags of their own, messages of nine ranks and more find their receives."""
    nbytes = ranks * 16 * 1000.0
    schedule = find(name).build(ranks, nbytes)
    program = read_goal(write_goal(schedule, name), "a.goal")
    machine = star(ranks, bandwidth=1e9, latency=1e-6)
    back = algorithm_of(program, "a.goal", "S=1GiB").build(ranks, 1.0)
    assert back.volume == schedule.volume
    ours = simulate(schedule, machine).makespan
    assert simulate(back, machine).makespan == pytest.approx(ours, rel=1e-6)


def test_what_goal_cannot_say_is_refused() -> None:
    assert "switches reduce" in refusal(write_goal, find("sharp").build(4, 1.0), "sharp")
    serial = find("naive_serial").build(4, 1.0)
    assert "waits for an operation of other ranks" in refusal(write_goal, serial, "naive_serial")


def test_a_file_is_not_proven_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "a.goal"
    file.write_text(ONE)
    algorithm = read_algorithm(f"{file}:o=1us")
    case = Case(algorithm, 2, star(2, bandwidth=1e9))
    row = judge(case, case.run(1e6))
    assert row.verdict.assumption == NOT_PROVEN
    assert row.volume_B == 1000.0
    assert row.time_s == pytest.approx(3e-6)
