"""Processes that were no job: one curve each, and one failure for all."""

import pytest

from experiments.diagnosis import compare, diagnose
from experiments.measurements import Curve, Measurements
from experiments.measurements.formats.log_reader import READ_PROCESSES
from nccl_logs import FOOTER, HEADER, PLACES, SIZES, TIMES, UNITS, log, parse

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
