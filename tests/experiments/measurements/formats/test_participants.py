"""Which collective a log of nccl-tests measured, and on how many ranks."""

import pytest

from grouped_cases import each_case
from nccl_logs import INFO, SIZES, TIMES, WHOLE, cell, expected, log, only, rows, shaped


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
