"""Who took part: collectives and ranks of a log, and processes that were no job."""

import pytest

from experiments.diagnosis import compare, diagnose
from experiments.measurements import Curve, Measurements
from experiments.measurements.formats.log_reader import READ_PROCESSES
from grouped_cases import each_case
from nccl_logs import (
    FOOTER,
    HEADER,
    INFO,
    PLACES,
    SIZES,
    TIMES,
    UNITS,
    WHOLE,
    cell,
    expected,
    log,
    only,
    parse,
    rows,
    shaped,
)

FORM = "#  Rank  0 Group  0 Pid {0:6d} on      node1 device  0 [0x0{1}] NVIDIA H100"


def process(number: int, name: str = "all_reduce", sizes: int = len(SIZES)) -> list[str]:
    """The lines of one process alone: its bus bandwidth is 0, and in place it does nothing."""
    start = [
        f"# Collective test starting: {name}_perf",
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 16777216 step: 128(factor) warmup iters: 5 "
        "iters: 20 validation: 1",
        "# Using devices",
        FORM.format(4200 + number, number),
    ]
    body = []
    for size, us in list(zip(SIZES, TIMES, strict=True))[:sizes]:
        time = float(us) + number
        cells = (
            f"  {time:7.5g}  {size / time / 1e3:6.2f}  {0:6.2f}  {0:>5}  {0.15:7.2f}  "
            f"{size / 150:6.2f}  {0:6.2f}  {0:>5}"
        )
        body.append(f"{size:12d}  {size // 4:12d}     float     sum      -1{cells}")
    return [*start, PLACES, HEADER, UNITS, *body, *FOOTER[:2]]


def interleaved(*processes: list[str], tag: str = "") -> str:
    """A line of each process in turn, as long as it has one."""
    longest = max(map(len, processes))
    lines = [
        f"{tag.format(number)}{lines[at]}"
        for at in range(longest)
        for number, lines in enumerate(processes)
        if at < len(lines)
    ]
    return "\n".join(lines) + "\n"


def times(measurements: Measurements) -> list[list[float]]:
    return [
        [round(1e6 * point.time_s, 2) for point in curve.points] for curve in measurements.curves
    ]


SECONDS = [[float(us) + number for us in TIMES] for number in range(4)]


@pytest.mark.parametrize("tag", ["", "[1,{}]<stdout>:", " {}: "])
def test_four_processes_are_four_curves_and_one_failure(tag: str) -> None:
    measurements = parse(
        "mpirun -np 4 ./all_reduce_perf\n" + interleaved(*map(process, range(4)), tag=tag)
    )
    assert [(curve.collective, curve.ranks, curve.alone) for curve in measurements.curves] == [
        ("all_reduce", 1, True)
    ] * 4
    assert [curve.device for curve in measurements.curves] == ["NVIDIA H100"] * 4
    assert times(measurements) == [pytest.approx(seconds, rel=1e-3) for seconds in SECONDS]
    (failure,) = measurements.failures
    assert failure == (
        "without MPI",
        "x.log",
        "4 processes of 1 rank each and no job of 4: nccl-tests was built or started without MPI",
    )
    assert measurements.skipped == ()


def test_they_are_neither_alarming_nor_compared() -> None:
    slow = [line.replace("  20.31", "9999.31") for line in process(0)]
    curves = parse(interleaved(slow, *map(process, range(1, 4)))).curves
    assert not any(diagnose(curve).abnormal for curve in curves)
    assert compare(curves) == ()


def test_two_tests_of_two_processes_are_four_curves() -> None:
    tests = [
        interleaved(process(0, name), process(1, name)) for name in ("all_reduce", "broadcast")
    ]
    second = tests[1].replace("Pid   420", "Pid   520")
    measurements = parse(tests[0] + second)
    assert [curve.collective for curve in measurements.curves] == ["all_reduce", "broadcast"] * 2
    assert times(measurements) == [
        pytest.approx(seconds, rel=1e-3)
        for seconds in (SECONDS[0], SECONDS[0], SECONDS[1], SECONDS[1])
    ]
    assert len(measurements.failures) == 1


def test_of_very_many_processes_the_first_ones_are_read() -> None:
    measurements = parse(interleaved(*map(process, range(READ_PROCESSES + 6))))
    assert len(measurements.curves) == READ_PROCESSES
    assert measurements.failures[0].text.startswith("70 processes of 1 rank each and no job of 70")
    assert measurements.skipped == ("all processes after the first 64: not read",)


def test_nccls_own_lines_tell_where_there_is_no_list_of_devices() -> None:
    lines = [[line for line in process(number) if "Rank" not in line] for number in range(3)]
    for number, block in enumerate(lines):
        block.insert(
            2,
            f"node1:{4200 + number}:{4300 + number} [0] NCCL INFO comm 0x55 rank 0 nranks 1 "
            f"cudaDev 0 busId 1b000",
        )
    measurements = parse(interleaved(*lines))
    assert [curve.ranks for curve in measurements.curves] == [1, 1, 1]
    assert times(measurements) == [pytest.approx(seconds, rel=1e-3) for seconds in SECONDS[:3]]
    assert measurements.failures[0].kind == "without MPI"


@pytest.mark.parametrize("tag", ["[1,{}]<stdout>:", "{}: "])
def test_processes_that_write_one_after_the_other_are_known_by_their_tags(tag: str) -> None:
    blocks = [
        interleaved(process(number), tag=tag.replace("{}", str(number))) for number in range(2)
    ]
    measurements = parse("".join(blocks))
    assert jobs(measurements.curves) == [True, True]
    assert times(measurements) == [pytest.approx(seconds, rel=1e-3) for seconds in SECONDS[:2]]
    assert [failure.kind for failure in measurements.failures] == ["without MPI"]


def test_lines_of_two_processes_may_be_glued() -> None:
    lines = interleaved(process(0), process(1), tag="[1,{}]<stdout>:").splitlines()
    glued = "\n".join(even + odd for even, odd in zip(lines[::2], lines[1::2], strict=True)) + "\n"
    measurements = parse(glued)
    assert jobs(measurements.curves) == [True, True]
    assert times(measurements) == [pytest.approx(seconds, rel=1e-3) for seconds in SECONDS[:2]]


@pytest.mark.parametrize(
    "tags", [("[job@7,0]<stdout>:", "[job@8,0]<stdout>:"), ("10:00:01 ", "10:00:07 ")]
)
def test_other_tags_name_no_process(tags: tuple[str, str]) -> None:
    blocks = [interleaved(process(number), tag=tag) for number, tag in enumerate(tags)]
    text = "".join(blocks).replace("10:00:01 # Avg", "10:00:02 # Avg")
    assert jobs(parse(text).curves) == [False, False]


def jobs(curves: tuple[Curve, ...]) -> list[bool]:
    return [curve.alone for curve in curves]


def test_a_job_is_one_job_and_tests_one_after_the_other_are_several() -> None:
    assert jobs(parse(log()).curves) == [False]
    assert jobs(parse(log() + log().replace("Pid   42", "Pid   52")).curves) == [False, False]
    one_by_one = "\n".join(process(0) + process(1)) + "\n"
    assert jobs(parse(one_by_one).curves) == [False, False]
    assert parse(one_by_one).failures == ()


def test_a_test_that_runs_again_after_it_died_is_no_second_process() -> None:
    died = process(0, sizes=2)[:-2]
    measurements = parse("\n".join([*died, *process(1)]) + "\n")
    assert jobs(measurements.curves) == [False, False]
    assert [failure.kind for failure in measurements.failures] == ["test died"]


def unnamed(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "_perf" not in line) + "\n"


@each_case(
    ("factor", "start", "in_place", "collective"),
    [
        (1.5, "float     sum      -1", "0", "all_reduce"),
        (0.75, "float     sum      -1", "0", "reduce_scatter"),
        (1.0, "float     sum      -1", "N/A", "send_recv"),
        (1.0, "float     sum       0", "0", "reduce"),
        (1.0, "float    none       0", "0", "broadcast"),
        (0.75, "float    none      -1", "0", "all_gather"),
        (0.75, "float    none      -1", "N/A", "all_to_all"),
        (0.75, "float    none       0", "0", "unknown"),
        (1.3, "float     sum      -1", "0", "unknown"),
    ],
)
def test_an_unnamed_collective_is_inferred_or_unknown(
    factor: float, start: str, in_place: str, collective: str
) -> None:
    curve = only(unnamed(log(*shaped(factor, start, in_place))))
    assert curve.collective == collective
    assert curve.notes[0].startswith(
        "collective unknown" if collective == "unknown" else "collective inferred"
    )


def test_all_gather_and_all_to_all_unchecked_are_ambiguous() -> None:
    body = [
        entry.replace("      0  ", "    N/A  ")
        for entry in shaped(0.75, "float    none      -1", "N/A")
    ]
    curve = only(unnamed(log(*body)))
    assert curve.collective == "unknown"
    assert "fit all_gather or all_to_all" in curve.notes[0]


def test_a_bus_factor_in_algbw_may_be_hypercubes() -> None:
    body = []
    for size, us in zip(SIZES, TIMES, strict=True):
        part = cell(size * 3 // 4, us, factor=1)
        body.append(f"{size:12d}  {size // 16:12d}     float    none      -1{part}{part}")
    assert "fit all_gather or hypercube" in only(unnamed(log(*body))).notes[0]


def test_a_command_line_names_the_collective() -> None:
    text = "+ srun -l ./build/alltoall_perf -b 8 -e 16M -f 128\n" + unnamed(
        log(*shaped(0.75, "float    none      -1", "N/A"))
    )
    assert only(text).collective == "all_to_all"
    assert only(text).notes == ()


def test_a_script_that_names_them_all_names_none() -> None:
    text = "all_reduce_perf all_gather_perf alltoall_perf\n" + unnamed(log())
    assert only(text).notes == (
        "collective inferred from redop, root and busbw: all_reduce is not named in the log",
    )


def test_a_program_nobody_knows_is_unknown() -> None:
    assert (
        only(log(name="alltoallv")).notes[0]
        == "collective unknown: alltoallv_perf is not known to simctl"
    )


def test_an_algbw_that_holds_the_bus_factor_is_understood() -> None:
    body = []
    for size, us in zip(SIZES, TIMES, strict=True):
        old = cell(size * 3 // 4, us, factor=1)
        body.append(f"{size:12d}  {size // 16:12d}     float    none      -1{old}{old}")
    curve = only(log(*body, name="hypercube"))
    assert (curve.collective, curve.ranks, curve.points) == ("hypercube", 4, expected(TIMES))
    assert curve.notes[0].startswith("algbw is (n-1)/n of size / time, n = 4")


def without_devices(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "Rank" not in line) + "\n"


def test_ranks_without_devices_are_unknown() -> None:
    curve = only(without_devices(log()))
    assert (curve.ranks, curve.nodes) == (None, None)
    assert curve.notes == ("number of ranks unknown: no list of devices",)


def test_ranks_by_threads_need_the_busbw_to_agree() -> None:
    curve = only(without_devices(log()).replace("nGpus 1", "nGpus 4"))
    assert (curve.ranks, curve.nodes) == (4, 1)
    assert only(without_devices(log()).replace("nGpus 1", "nGpus 8")).ranks is None


def test_ranks_by_ncclis_own_word() -> None:
    info = "node1:1:2 [0] NCCL INFO comm 0x55 rank 0 nranks 4 cudaDev 0 - Init COMPLETE\n"
    assert only(info + without_devices(log())).ranks == 4
    assert only(info + info.replace("nranks 4", "nranks 2") + without_devices(log())).ranks is None


@pytest.mark.parametrize(
    ("line_part", "why"),
    [
        ("Rank  2", "the list of devices has 3 ranks, the highest is 3"),
        ("Rank  3", "busbw is not all_reduce's on 3 ranks"),
    ],
)
def test_a_damaged_list_of_devices_gives_no_number_of_ranks(line_part: str, why: str) -> None:
    curve = only("\n".join(line for line in log().splitlines() if line_part not in line) + "\n")
    assert curve.ranks is None
    assert curve.notes[0] == f"number of ranks unknown: {why}"


def test_a_torn_list_of_devices_gives_no_number_of_ranks() -> None:
    curve = only(log().replace("Rank  3 Group", f"Rank  3 Gr{INFO}\noup"))
    assert curve.ranks is None
    assert curve.notes[0] == "number of ranks unknown: a line of the list of devices is torn"


def test_processes_that_did_not_join_are_not_counted_as_ranks() -> None:
    text = log().replace("Rank  1", "Rank  0")
    assert only(text).ranks is None
    assert only(text).notes[0].startswith("number of ranks unknown: rank 0 is listed twice")


def test_a_piece_of_a_device_line_between_rows_starts_no_new_test() -> None:
    body = rows()
    assert (
        only(log(*body[:2], "srun: launched Pid 4242 on node1", *body[2:])).points == WHOLE.points
    )


def test_ranks_of_one_group_when_the_job_is_split() -> None:
    text = log(ranks=8)
    for rank in range(8):
        text = text.replace(f"Rank  {rank} Group  0", f"Rank  {rank} Group  {rank % 2}")
    assert (only(text).ranks, only(text).nodes) == (4, 4)
    assert only(text).notes[0] == "8 ranks in groups of 4; ranks of one group"
