"""Dumps of torch's flight recorder: pickles that run nothing, and JSON."""

import datetime
import functools
import os
import pickle
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from experiments.traces.flight_recorder import read_dump, unpickled
from experiments.traces.job_calls import JobCalls
from experiments.traces.job_folder import read_job
from experiments.traces.job_tables import problems
from grouped_cases import each_case
from job_traces import dump, entry
from refusals import attempt, refusal

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=9,
)


class Payload:
    """Runs a command when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.path}",)


@given(PLAIN, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_values_are_read(value: object, protocol: int) -> None:
    assert unpickled(pickle.dumps(value, protocol), "dump") == value


@each_case("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    touched = tmp_path / "touched"
    text = refusal(unpickled, pickle.dumps(Payload(touched), protocol), "dump")
    assert "dump: it names 'posix.system', and a dump holds plain values: do not trust it" in text
    assert not touched.exists()


@each_case(
    "value",
    [datetime.date(2020, 1, 1), {1, 2}, range(3), functools.partial(print), bytearray(b"x"), print],
)
@each_case("protocol", [0, 2, 5])
def test_objects_are_refused(value: object, protocol: int) -> None:
    assert "dump" in refusal(unpickled, pickle.dumps(value, protocol), "dump")


@each_case(
    "code",
    [
        b"\x80\x02r\xff\xff\xff\xff.",
        b"\x80\x04N\x94r\xff\xff\xff\x7f.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\x00\x00\x00.",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\x00\x00\x00.",
        b"\x80\x02\x8b\xff\xff\xff\x7f.",
        b"\x80\x02Pthing\n.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02}\x81.",
        b"\x80\xff.",
        b"\x80",
        b"",
        b"I" + b"9" * 9999 + b"\n.",
    ],
)
def test_hostile_codes_are_refused_without_much_memory(code: bytes) -> None:
    value, message = attempt(lambda name: unpickled(code, name), "dump")
    assert value is None
    assert len(message.splitlines()) <= 1


@each_case(
    ("content", "words"),
    [
        ([], "has no list of entries"),
        ({"entries": {}}, "has no list of entries"),
        (dump([7]), "entry 0 is 7: expected an object"),
        (dump([entry(1, 5, profiling_name=3)]), "has the profiling_name 3: expected a text"),
        (dump([entry(1, -5)]), "the time_created_ns -5: expected a whole number"),
        (dump([entry(1, 5, collective_seq_id="a")]), "the collective_seq_id 'a': expected a whole"),
        (dump([entry(1, 5, process_group=[])]), "the process_group a list: expected name and text"),
    ],
)
def test_what_is_no_dump_is_refused(content: object, words: str) -> None:
    assert words in refusal(read_dump, content, 0, "dump")


SHARED: object = "x"
for _ in range(12):
    SHARED = [SHARED] * 10
DEEP: object = "x"
for _ in range(990):
    DEEP = [DEEP]


@each_case("value", [SHARED, DEEP, (SHARED, DEEP), 10**5000, "x" * 10**6])
@each_case("key", ["time_created_ns", "collective_seq_id", "process_group", "profiling_name"])
def test_large_and_deep_values_are_shown_shortly(value: object, key: str) -> None:
    if key != "profiling_name" or not isinstance(value, str):
        text = refusal(read_dump, dump([entry(1, 5) | {key: value}]), 0, "dump")
        assert f"the {key} " in text
        assert len(text) < 200


def test_shared_values_of_a_dump_cost_no_time() -> None:
    """In an entry, as sizes, and as a key, whose hash would take 10^12 steps."""
    assert "entry 0 is a list" in refusal(read_dump, dump([SHARED]), 0, "dump")
    assert "name and text" in refusal(read_dump, dump([entry(1, 5, process_group=())]), 0, "dump")
    row = [1] * 10**5
    sized = entry(1, 5, input_sizes=[row] * 2**16, input_dtypes=["Float"] * 2**16)
    assert read_dump(dump([sized] * 100), 0, "dump").calls[0].nbytes is None
    level = b"N"
    for number in range(12):
        level += b"q" + bytes([number]) + (b"h" + bytes([number])) * 2 + b"\x87"
    for code in (b"}" + level + b"Ns.", b"}(" + level + b"Nu.", b"(" + level + b"Nd."):
        assert "a key of a dict is a tuple" in refusal(unpickled, b"\x80\x02" + code, "dump")


def test_sizes_that_are_no_sizes_are_unknown() -> None:
    for sizes in (None, [7], [["a"]], [[-1]], [[2**62] * 3], [[10**400]]):
        trace = read_dump(dump([entry(1, 5, input_sizes=sizes)]), 0, "dump")
        assert trace.calls[0].nbytes is None
    wrong: list[object] = [None, [[]], ["Quarter"]]
    for dtypes in wrong:
        trace = read_dump(dump([entry(1, 5, input_dtypes=dtypes)]), 0, "dump")
        assert trace.calls[0].nbytes is None
    assert read_dump(dump([entry(1, 5, "nccl:send 0->1", is_p2p=True)]), 0, "dump").calls == []


@each_case(
    "version", ["2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9", "2.10"]
)
def test_every_version_is_read(version: str) -> None:
    content = dump([entry(1, 5, op_id=1, pg_id=0, timeout_ms=600000)]) | {"version": version}
    (call,) = read_dump(content, 0, "dump").calls
    assert (call.group, call.size, call.members) == ("0:default_pg", 2, "0, 1")


@each_case("version", ["1.5", "3.0", "", 2.1, None, ["2"]])
def test_other_versions_are_refused(version: object) -> None:
    assert "versions 2 are known" in refusal(read_dump, dump([]) | {"version": version}, 0, "dump")


def test_a_json_dump_without_entries_is_of_a_rank_without_calls() -> None:
    content = dump([])
    del content["entries"]
    assert read_dump(content, 0, "dump").calls == []


@each_case(
    ("ranks", "members"),
    [
        ("[0, 1]", "0, 1"),
        ("[1,0]", "0, 1"),
        ("[]", ""),
        ("[0, x]", ""),
        ("[0, -1]", ""),
        ("[0, 99999999]", ""),
        (7, ""),
        (["0"], ""),
    ],
)
def test_ranks_of_a_group_are_read_from_text(ranks: object, members: str) -> None:
    content = dump([entry(1, 5)], ranks)  # type: ignore[arg-type]
    (call,) = read_dump(content, 0, "dump").calls
    assert (call.members, call.size) == (members, 2 if members else 0)


def test_a_group_of_another_description_is_another_group() -> None:
    groups = [("7", "tensor"), ("7", "data"), ("7", "undefined"), ("7",)]
    calls = [entry(1, k, process_group=group) for k, group in enumerate(groups)]
    content = dump(calls)
    content["pg_config"] = {"7": {"name": "7", "desc": "data", "ranks": "[0, 2]"}}
    read = read_dump(content, 0, "dump").calls
    assert [(call.group, call.members) for call in read] == [
        ("7:tensor", ""),
        ("7:data", "0, 2"),
        ("7", ""),
    ]


def test_coalesced_calls_end_with_their_frame() -> None:
    """From 2.7 on, what torch coalesces has entries that stay scheduled."""
    parts = [entry(3, k, "nccl:_all_gather_base", state="scheduled", op_id=k) for k in (1, 2)]
    frame = entry(3, 3, "nccl:coalesced", input_sizes=[], output_sizes=[], duration_ms=2.0)
    (call,) = read_dump(dump([*parts, frame]), 0, "dump").calls
    assert (call.collective, call.nbytes, call.done) == ("all_gather", 8000.0, True)
    assert (call.start, call.nanoseconds) == (1, 2_000_000)
    (hung,) = read_dump(dump([*parts, frame | {"state": "started"}]), 0, "dump").calls
    assert not hung.done
    mixed = [parts[0], entry(3, 2, input_sizes=None, state="scheduled")]
    (call,) = read_dump(dump(mixed), 0, "dump").calls
    assert (call.collective, call.nbytes, call.done) == ("several", None, False)
    assert read_dump(dump([frame]), 0, "dump").calls == []


def test_a_call_that_was_given_up_has_not_ended() -> None:
    """A retired call that is not completed has timed out."""
    (call,) = read_dump(dump([entry(1, 5, state="started", retired=True)]), 0, "dump").calls
    assert not call.done


@each_case(
    ("name", "collective"),
    [
        ("nccl:all_gather_single", "all_gather"),
        ("nccl:reduce_scatter_v", "reduce_scatter"),
        ("nccl:all_to_all_v_single", "all_to_all"),
        ("nccl:_broadcast_oop", "broadcast"),
        ("nccl:_reduce_oop", "reduce"),
        ("nccl:ALLGATHER_coalesced", "all_gather"),
        ("nccl:REDUCE_SCATTER_coalesced", "reduce_scatter"),
        ("nccl:allreduce_coalesced", "all_reduce"),
        ("nccl:_all_gather_base", "all_gather"),
        ("nccl:all_gather_into_tensor_coalesced", "all_gather"),
        ("nccl:all_gather_v", "all_gather"),
        ("nccl:reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("nccl:all_to_allv_single", "all_to_all"),
        ("nccl:all_reduce_barrier", "barrier"),
        ("xccl:all_reduce_barrier", "barrier"),
    ],
)
def test_names_of_torch_are_ours(name: str, collective: str) -> None:
    (call,) = read_dump(dump([entry(1, 5, name)]), 0, "dump").calls
    assert call.collective == collective


def test_groups_of_one_name_and_other_ranks_are_kept_apart(tmp_path: Path) -> None:
    """split_group gives several groups one name."""
    for rank in range(4):
        content = dump([entry(1, rank)], "[0, 1]" if rank < 2 else "[2, 3]")
        (tmp_path / f"rank_{rank}").write_bytes(pickle.dumps(content))
    job = JobCalls(read_job([tmp_path]))
    assert job.members == {
        "0:default_pg of ranks 0, 1 (1)": {0, 1},
        "0:default_pg of ranks 2, 3 (2)": {2, 3},
    }
    assert len(job.calls) == 2
    assert problems(job) == []


def test_a_rank_without_a_dump_is_named(tmp_path: Path) -> None:
    for rank in range(2):
        content = dump([entry(1, rank)], "[0, 1, 2, 3]")
        (tmp_path / f"rank_{rank}").write_bytes(pickle.dumps(content))
    job = JobCalls(read_job([tmp_path]))
    assert [problem.text for problem in problems(job)] == [
        "no dump of ranks 2, 3: groups of other ranks have them"
    ]
    assert len(job.calls) == 1
