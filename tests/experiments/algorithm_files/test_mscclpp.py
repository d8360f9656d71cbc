"""MSCCL++ plans are read, proven and timed, or refused with the place in the JSON."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from experiments.algorithm_files import read_algorithm
from experiments.algorithm_files.mscclpp import algorithm_of
from experiments.algorithm_files.mscclpp_plan import read_plan
from experiments.simulations.case import Case
from grouped_cases import each_case
from mscclpp_plans import SHAPES, SIGNAL, WAIT, Json, op, plan, span
from refusals import refusal
from simulator.collectives.proof import prove
from simulator.schedules.schedule import Schedule
from topologies.shapes import star


def lowered(text: str) -> Schedule:
    """The proven schedule of a plan for two GPUs."""
    algorithm = algorithm_of(read_plan(text, "a.json"))
    schedule = algorithm.build(2, 1.0)
    prove(algorithm, schedule)
    return schedule


@each_case(
    ("shape", "volume"),
    [
        *(("put", 2.0), ("read", 2.0), ("packets", 2.0)),
        *(("groups", 1.0), ("fetched", 1.0), ("barriers", 2.0)),
    ],
)
def test_every_shape_is_proven(shape: str, volume: float) -> None:
    assert lowered(json.dumps(SHAPES[shape])).volume == pytest.approx(volume)


def test_a_plan_is_an_algorithm_for_its_ranks(tmp_path: Path) -> None:
    file = tmp_path / "put.json"
    file.write_text(json.dumps(SHAPES["put"]))
    put = read_algorithm(str(file))
    case = Case(put, 2, star(2, bandwidth=1e9, latency=0.0))
    assert case.simulate(1e9).makespan == pytest.approx(1.0)
    file.write_text(json.dumps(plan("allreduce", (1, 1, 0), [WAIT, SIGNAL])))
    stuck = "put.json: deadlock: gpu 0, thread block 0, step 0 waits for a signal from gpu 1"
    assert refusal(read_algorithm(str(file)).build, 2, 1.0) == stuck


def test_chunks_that_nothing_orders_are_refused() -> None:
    put = op("put", [span("i")], [span(2)])
    add = op("re", [span("i"), span("s")], [span("i")])
    text = json.dumps(plan("allreduce", (1, 1, 1), [put, add]))
    assert "nothing orders them" in refusal(lowered, text)


def without_wait(document: Json, gpu: int, block: int) -> str:
    """A plan without the last wait of a thread block."""
    damaged = json.loads(json.dumps(document))
    ops = damaged["gpus"][gpu]["threadblocks"][block]["ops"]
    del ops[max(place for place, each in enumerate(ops) if each["name"] == "wait")]
    return json.dumps(damaged)


def test_a_gpu_waits_for_what_others_write_and_read_of_it() -> None:
    for shape, blocks in (("read", 1), ("groups", 2), ("fetched", 1)):
        for gpu, block in product(range(2), range(blocks)):
            refused = refusal(lowered, without_wait(SHAPES[shape], gpu, block))
            assert f"uses a chunk of gpu {gpu}, which may be done before" in refused
            assert f"no thread block of gpu {gpu} waits for it" in refused


def test_two_thread_blocks_do_not_wait_on_one_channel() -> None:
    broken = SHAPES["groups"] | {}
    text = json.dumps(broken).replace('"channel_ids": [1]', '"channel_ids": [0]')
    assert "waits on the same channel" in refusal(lowered, text)


def changed(change: Callable[[Json], None]) -> str:
    """The plan `put` with a change."""
    document = json.loads(json.dumps(SHAPES["put"]))
    change(document)
    return json.dumps(document)


def _set(*path: str | int) -> Callable[[object], str]:
    def to(value: object) -> str:
        def change(document: Json) -> None:
            node = document
            for key in path[:-1]:
                node = node[key]  # type: ignore[index]
            node[path[-1]] = value  # type: ignore[index]

        return changed(change)

    return to


OP = "gpus", 0, "threadblocks", 0, "ops", 0


MEET = {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
LINES = "gpus", 0, "threadblocks", 0, "channels", 0
FIRST = "a.json: gpus[0].threadblocks[0]"


@each_case(
    ("path", "value", "line"),
    [
        (
            (*OP, "src_buff", 0),
            {"index": 0, "size": 1},
            f"{FIRST}.ops[0].src_buff[0]: type is missing: expected 'i', 'o' or 's', or a "
            "buffer_id",
        ),
        (
            OP,
            {**MEET, "num_threadblocks": 0},
            f"{FIRST}.ops[0].num_threadblocks: 0: input should be greater than or equal to 1",
        ),
        (OP, {"name": "barrier", "barrier_id": 0}, f"{FIRST}.ops[0]: num_threadblocks is missing"),
        (OP, {"name": "barrier", "num_threadblocks": 2}, f"{FIRST}.ops[0]: barrier_id is missing"),
        ((*OP, "tbg_info"), {"tb_id": 0}, f"{FIRST}.ops[0].tbg_info.tbg_size: is missing"),
        ((*OP, "tbg_info"), {"tbg_size": 2}, f"{FIRST}.ops[0].tbg_info.tb_id: is missing"),
        (
            (*OP, "tbg_info"),
            {"tb_id": 2, "tbg_size": 2},
            f"{FIRST}.ops[0].tbg_info: tb_id is 2: expected less than tbg_size, which is 2",
        ),
        (
            ("gpus", 0, "channels", 0),
            {"channel_type": "memory"},
            "a.json: gpus[0].channels[0]: connected_to is missing",
        ),
        (
            ("gpus", 0, "channels", 0, "channel_type"),
            "memry",
            "a.json: gpus[0].channels[0].channel_type: 'memry': input should be 'memory', 'port', "
            "'switch' or 'none'",
        ),
        (LINES, {"channel_type": "memory"}, f"{FIRST}.channels[0]: channel_ids is missing"),
        (
            (*LINES, "channel_type"),
            "memry",
            f"{FIRST}.channels[0].channel_type: 'memry': input should be 'memory', 'port', "
            "'switch' or 'none'",
        ),
        (OP, {"name": "pipeline"}, f"{FIRST}.ops[0]: ops is missing"),
        (
            ("gpus", 0, "semaphores", 0),
            {},
            "a.json: gpus[0].semaphores[0].init_value: is missing",
        ),
        (
            ("gpus", 0, "threadblocks", 0, "id"),
            3,
            f"{FIRST}.id is 3: ids are in order, expected 0",
        ),
    ],
)
def test_no_default_takes_the_place_of_a_missing_key(
    path: tuple[str | int, ...], value: object, line: str
) -> None:
    assert refusal(lowered, _set(*path)(value)) == line


@each_case(
    ("text", "words"),
    [
        ("", "a.json is empty"),
        ("[1", "a.json line 1: "),
        ("[]", "a.json has no gpus"),
        ("[" * 100_000, "nested too deep"),
        ('{"gpus": [], "gpus": []}', "is there twice"),
        ("{\0}", "is not text"),
        (_set("gpus")([]), "a.json: gpus: is empty"),
        (_set("gpus")(3), "a.json: gpus: 3 is not a list"),
        (_set("gpus", 1, "id")(0), "a.json: gpus[1].id is 0: ids are in order, expected 1"),
        (_set("inplace")("no"), "a.json: inplace: 'no' is not true or false"),
        (_set("collective")("sum"), "no collective 'sum'"),
        (_set("protocol")("x"), "a.json: protocol: 'x': input should be"),
        (_set(*OP, "name")("jump"), "threadblocks[0].ops[0].name: 'jump'"),
        (_set(*OP, "name")("glres"), "multimem needs switches that reduce"),
        (_set(*OP, "src_buff")([]), "put needs src_buff and dst_buff"),
        (
            _set(*OP, "src_buff", 0, "size")(9),
            "step 0, put: chunk 8 of buffer i of gpu 0: there are 2",
        ),
        (
            _set(*OP, "src_buff", 0, "size")(1),
            "gpu 0, thread block 0, step 0, put: 1 chunks move to 2",
        ),
        (_set(*OP, "dst_buff", 0, "buffer_id")(7), "step 0, put: remote buffer 7: there are 3"),
        (_set(*OP, "dst_buff", 0, "index")(True), "index: true is not a whole number"),
        (
            _set(*OP[:-1], 1, "channel_ids")([4]),
            "thread block 0, step 1, signal: channel 4: there are 1",
        ),
        (_set(*OP, "channel_type")("switch"), "input should be 'memory', 'port' or 'none'"),
        (_set(*OP, "tbg_info")({"tb_id": 0, "tbg_size": 99}), "less than or equal to 64"),
        (_set(*OP, "reduce_op")("max"), "input should be 'sum'"),
        (_set("gpus", 0, "channels", 0, "connected_to", 0)(5), "connected to gpu 5: there are 2"),
        (_set("gpus", 0, "input_chunks")(-1), "greater than or equal to 0"),
        (_set("gpus", 0, "threadblocks", 0, "ops")([{}]), "ops[0].name: is missing"),
        (_set("gpus", 0, "threadblocks", 0, "ops", 1)("x"), "ops[1]: 'x' is not a mapping"),
        (
            _set(*OP)({"name": "sem_acquire", "semaphore_ids": [3]}),
            "gpu 0, thread block 0, step 0, sem_acquire: semaphore 3: there are 1",
        ),
    ],
)
def test_bad_plans_are_refused_in_one_line(text: str, words: str) -> None:
    assert words in refusal(lowered, text)
