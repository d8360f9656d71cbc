"""MSCCL's files are read, proven, timed, or refused with the place; ours read back as equal."""

from pathlib import Path

import pytest

import msccl_texts
from experiments.algorithm_files import msccl_export as export
from experiments.algorithm_files import read_algorithm
from experiments.algorithm_files.msccl_export import COLLECTIVES, program_of
from experiments.algorithm_files.msccl_lowering import Lowering, algorithm_of
from experiments.algorithm_files.msccl_program import MscclProgram, read_program, write_program
from experiments.simulations.case import Case
from grouped_cases import each_case
from msccl_texts import SHAPES, algo, block, canonical, exchange, gpu, nop, step
from refusals import attempt, refusal
from simulator.collectives import algorithms, find
from simulator.collectives.proof import prove
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
from topologies.catalogue import find as find_machine
from topologies.shapes import star


def lowered(text: str, loops: int = 1) -> Schedule:
    """The proven schedule of a file."""
    algorithm = algorithm_of(read_program(text, "a.xml"), loops)
    (ranks,) = (p for p in range(1, 20) if algorithm.defined(p))
    schedule = algorithm.build(ranks, 1.0)
    prove(algorithm, schedule)
    return schedule


@pytest.mark.parametrize(
    ("shape", "volume"),
    [
        *(("pairs", 6.0), ("ring", 4.0), ("gather", 3.0)),
        *(("all to all", 2.0), ("scattered", 1.0), ("shifted", 3.0)),
    ],
)
@pytest.mark.parametrize("loops", [1, 3])
def test_every_shape_is_proven_in_one_and_in_several_loops(
    shape: str, volume: float, loops: int
) -> None:
    assert lowered(SHAPES[shape], loops).volume == pytest.approx(volume)


def test_a_file_is_an_algorithm_for_its_ranks(tmp_path: Path) -> None:
    file = tmp_path / "pairs.xml"
    file.write_text(SHAPES["pairs"])
    pairs = read_algorithm(str(file))
    assert (pairs.name, pairs.collective.name) == ("small", "all_reduce")
    time = Case(pairs, 3, star(3, bandwidth=1e9, latency=0.0)).simulate(1e9).makespan
    assert time == pytest.approx(3.0)  # all send to rank 0 first
    assert "take 3" in refusal(pairs.build, 4, 1.0)
    assert "loops=4" in refusal(read_algorithm, f"{file}:loops=0")
    assert len(read_algorithm(f"{file}:loops=2").build(3, 1.0)) == 2 * len(pairs.build(3, 1.0))


def test_many_loops_wait_for_no_more_moves_than_few() -> None:
    """Else their memory would grow with the square of their number."""
    few, many = (lowered(SHAPES["ring"], loops) for loops in (20, 40))
    assert len(many) == 2 * len(few)
    assert len(many.indices) < 2.1 * len(few.indices)


def test_a_custom_program_is_called_by_what_it_computes() -> None:
    assert algorithm_of(read_program(SHAPES["shifted"], "a.xml")).collective.name in (
        "send_recv",
        "send",
    )


REASONS = (
    "switches reduce in it",
    "it has a server",
    "sends messages without data",
    "waits for an operation of other ranks",
    "its slots are of several sizes",
)
EXPORTED = (
    *("ring", "tree", "naive", "chain_broadcast", "double_tree", "halving_doubling", "pairwise"),
    *("recursive_doubling", "bruck_all_gather", "bruck_all_to_all", "tree_broadcast"),
    *("binary_tree_reduce", "ring_reduce_scatter"),
)
"""Some that must be."""
SEND, TAKE = step("s", "i0", "i0"), step("r", "i0", "s0")


@pytest.mark.parametrize(
    ("steps", "with_fifo", "without"),
    [
        ([SEND, TAKE], "", "step 0 waits for gpu 1 to receive"),
        ([TAKE, SEND], "step 0 waits for a message from gpu 1", "step 0 waits for a message"),
        ([SEND] * 8 + [TAKE] * 8, "", "step 0 waits for gpu 1 to receive"),
        ([SEND] * 9 + [TAKE] * 9, "step 8 waits for gpu 1 to receive", "step 0 waits"),
    ],
    ids=["send first", "receive first", "eight", "nine"],
)
def test_deadlock_is_decided_with_eight_slots_and_with_none(
    steps: list[str], with_fifo: str, without: str
) -> None:
    lowering = Lowering(read_program(exchange(*steps), "a.xml"))
    for found, expected in ((lowering.deadlock(8), with_fifo), (lowering.deadlock(0), without)):
        assert (expected in found) if expected else found == ""
    if with_fifo:
        assert "deadlock with 8 slots" in refusal(lowering.schedule)


def test_a_flag_that_a_later_step_raises_counts() -> None:
    """As MSCCL's flags are numbers that are waited for until they are high enough."""
    text = SHAPES["pairs"].replace('cnt="1" depid="-1" deps="-1" hasdep="1"', 'cnt="1" X', 1)
    text = text.replace("X", 'depid="-1" deps="-1" hasdep="0"')
    assert lowered(text).volume == 6.0


def test_steps_that_nothing_orders_are_refused() -> None:
    text = SHAPES["pairs"].replace(nop((0, 1)), nop((0, 0)), 1)
    message = refusal(lowered, text)
    assert "gpu 0, thread block 2" in message
    assert "nothing orders them" in message


def test_a_wrong_program_is_refused_with_the_contribution() -> None:
    text = SHAPES["ring"].replace('type="rrcs"', 'type="rcs"')
    assert "slot 0 misses the contribution of rank" in refusal(_case, text)


def exported(name: str, ranks: int) -> MscclProgram:
    """The program of an algorithm."""
    return program_of(find(name), find(name).build(ranks, 1.0))


def _case(text: str) -> None:
    algorithm = algorithm_of(read_program(text, "a.xml"))
    from dataclasses import replace

    Case(replace(algorithm, origin="a.xml"), 3, star(3, bandwidth=1e9))


ONE = gpu(0, (1, 0, 0), block(1, -1, SEND))
TWO = gpu(1, (1, 0, 1), block(-1, 0, TAKE))


@each_case(
    ("text", "words"),
    [
        ("", "is empty"),
        ("<algo", "line 1: "),
        ("<system/>", "line 1: <system> is no MSCCL program"),
        (SHAPES["ring"][:-20], "line "),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "a document type or an entity"),
        ("<algo>\0</algo>", "is not text"),
        ("<algo>" * 300, "256 elements within each other"),
        (SHAPES["ring"].replace('coll="allreduce"', 'coll="sum"'), "coll of <algo> is 'sum'"),
        (SHAPES["ring"].replace('ngpus="3"', 'ngpus="4"'), "<algo> has no gpu 3"),
        (SHAPES["ring"].replace('ngpus="3"', 'ngpus="2"'), "id of <gpu> is '2'"),
        (SHAPES["ring"].replace('<gpu id="1"', '<gpu id="0"'), "has it already"),
        (SHAPES["ring"].replace('send="1"', 'send="7"'), "line 3: send of <tb> is '7'"),
        (SHAPES["ring"].replace('send="1"', 'send="0"'), "a GPU has no channel to itself"),
        (SHAPES["ring"].replace('send="1"', 'send="-1"'), "its thread block has no send peer"),
        (SHAPES["ring"].replace('s="1" type="rrs"', 's="9" type="rrs"'), "s of <step> is '9'"),
        (SHAPES["ring"].replace('type="rrs"', 'type="ra"'), "a residual"),
        (SHAPES["ring"].replace('type="rrs"', 'type="x"'), "type of <step> is 'x'"),
        (SHAPES["ring"].replace('srcoff="2"', 'srcoff="3"'), "the buffer i has 3 chunks"),
        (SHAPES["ring"].replace('cnt="1"', 'cnt="72"', 1), "cnt of <step> is '72'"),
        (SHAPES["ring"].replace('i_chunks="3"', 'i_chunks="4"', 1), "allreduce has 3 of them"),
        (SHAPES["ring"].replace('chan="0"', 'chan="1"', 1), "chan of <tb> is '1'"),
        (SHAPES["ring"].replace("<step", "<stop", 1), "<stop> in <tb>"),
        (SHAPES["ring"].replace('nchunksperloop="3"', 'nchunksperloop="1e9"'), "a whole number"),
        (SHAPES["pairs"].replace('depid="1"', 'depid="5"', 1), "there are thread blocks 0 to 2"),
        (SHAPES["pairs"].replace('deps="1"', 'deps="7"', 1), "nor a later step of its block has"),
        (SHAPES["gather"].replace('nchunksperloop="4"', 'nchunksperloop="5"'), "a multiple of 4"),
        (algo("allreduce", 1, ONE, gpu(1, (1, 0, 0))), "nobody receives"),
        (algo("allreduce", 1, gpu(0, (1, 0, 0)), TWO), "nobody sends"),
        (
            algo("allreduce", 1, gpu(0, (1, 0, 0), block(1, -1, SEND), block(1, -1, SEND)), TWO),
            "gpu 0, thread block 1, step 0: another thread block sends",
        ),
        (
            algo("allreduce", 2, gpu(0, (2, 0, 0), block(1, -1, step("s", "i0", "i0", 2))), TWO),
            "i_chunks of <gpu> is '1'",
        ),
        (algo("custom", 1, ONE, TWO), "it computes no collective that simctl knows"),
    ],
)
def test_bad_files_are_refused_in_one_line(text: str, words: str) -> None:
    assert words in refusal(lowered, text)


def test_chunks_of_a_message_are_as_many_at_both_ends() -> None:
    sends = gpu(0, (2, 0, 0), block(1, -1, step("s", "i0", "i0", 2)))
    takes = gpu(1, (2, 0, 1), block(-1, 0, TAKE))
    assert "sends 2 chunks" in refusal(lowered, algo("allreduce", 2, sends, takes))


@pytest.mark.parametrize(
    "ranks", [4, *(pytest.param(p, marks=pytest.mark.exhaustive) for p in (2, 3, 5, 8))]
)
@pytest.mark.parametrize(
    "name", [name for name, each in algorithms().items() if each.collective.name in COLLECTIVES]
)
def test_what_is_exported_reads_back_as_equal(name: str, ranks: int) -> None:
    """And it is right, and no FIFO is too short for it."""
    algorithm = find(name)
    if not algorithm.defined(ranks):
        return
    program, refused = attempt(lambda name: exported(name, ranks), name)
    if refused and name not in EXPORTED:
        assert any(reason in refused for reason in REASONS)
        return
    assert isinstance(program, MscclProgram), refused
    again = read_program(write_program(program), "again.xml")
    assert canonical(again) == canonical(program)
    assert Lowering(again).deadlock(0) == ""
    back = algorithm_of(again)
    schedule = back.build(ranks, 1.0)
    prove(back, schedule)
    assert back.collective is algorithm.collective
    assert schedule.volume == pytest.approx(algorithm.build(ranks, 1.0).volume)


@pytest.mark.parametrize("name", ["ring", "tree", "naive", "halving_doubling", "ring_all_gather"])
def test_an_exported_program_takes_as_long(name: str) -> None:
    machine = star(8, bandwidth=50e9, latency=1e-6)
    ours = simulate(find(name).build(8, 1e6), machine).makespan
    back = algorithm_of(read_program(write_program(exported(name, 8)), "a.xml"))
    assert simulate(back.build(8, 1e6), machine).makespan == pytest.approx(ours)


@pytest.mark.parametrize("name", ["optimal", "optimal_all_gather", "optimal_broadcast"])
def test_what_is_made_for_a_machine_is_exported_for_it(name: str) -> None:
    algorithm, machine = find(f"{name}:segments=1"), find_machine("dgx1").build(8, 0)
    fitted = algorithm.on(machine, 8, 1e6)
    program = program_of(algorithm, fitted.schedule, fitted.topology)
    again = read_program(write_program(program), "a.xml")
    assert canonical(again) == canonical(program)
    back = algorithm_of(again)
    prove(back, back.build(8, 1.0))
    assert back.build(8, 1e6).volume == pytest.approx(fitted.schedule.volume)


def test_a_file_that_is_read_and_written_is_the_same_program() -> None:
    for text in SHAPES.values():
        program = read_program(text, "a.xml")
        assert canonical(read_program(write_program(program), "b.xml")) == canonical(program)


@pytest.mark.parametrize(
    ("name", "ranks", "words"),
    [
        ("sharp", 4, "switches reduce in it"),
        ("parameter_server_apart", 4, "it has a server"),
        ("pairwise", 120, "needs 239 thread blocks on gpu 0: MSCCL has 216"),
        ("ring", 200, "steps of a thread block"),
        ("shift", 4, "MSCCL has no send_recv"),
    ],
)
def test_what_msccl_cannot_say_is_refused(name: str, ranks: int, words: str) -> None:
    assert words in refusal(exported, name, ranks)


def test_a_long_program_is_refused_before_its_steps_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(export, "_drafts")
    assert "ring needs 398 steps of a thread block on gpu 0" in refusal(exported, "ring", 200)


def test_the_shapes_are_those_that_published_files_have() -> None:
    kinds = {"s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop"}
    assert {kind for kind in kinds if f'type="{kind}"' in "".join(SHAPES.values())} == kinds
    assert msccl_texts.NOP in SHAPES["pairs"]
