"""Which rank a process is, and at which ranks meet."""

import pytest

from experiments.measure.launcher import find_place, first_host, meeting_point
from grouped_cases import each_case
from topologies.errors import InputError

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
SRUN = {"SLURM_PROCID": "2", "SLURM_NTASKS": "3", "SLURM_LOCALID": "0"}
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
}


@each_case(
    ("environment", "place"),
    [
        (TORCHRUN, (5, 8, 1)),
        (SRUN, (2, 3, 0)),
        (MPIRUN, (1, 2, 1)),
        (SRUN | TORCHRUN, (5, 8, 1)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1, 0)),
        ({"RANK": "0"}, None),
        ({}, None),
    ],
)
def test_a_rank_knows_its_place(
    environment: dict[str, str], place: tuple[int, int, int] | None
) -> None:
    assert find_place(environment) == place


@each_case("rank", ["8", "-1", "x", "", "٣", "1" * 5000])
def test_a_place_that_makes_no_sense_is_refused(rank: str) -> None:
    with pytest.raises(InputError, match="RANK"):
        find_place(TORCHRUN | {"RANK": rank})


@each_case(
    ("hosts", "first"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("n[3-9]", "n3"),
        ("n[03,05-09],m1", "n03"),
        ("r[1-2]-ib", "r1-ib"),
        ("a-b[10]", "a-b10"),
        ("n[", "n"),
    ],
)
def test_the_first_host_of_a_list(hosts: str, first: str) -> None:
    assert first_host(hosts) == first


def test_slurm_says_where_ranks_meet() -> None:
    slurm = {"SLURM_STEP_NODELIST": "n[7-8]", "SLURM_JOB_ID": "40017"}
    assert meeting_point(slurm) == {"MASTER_ADDR": "n7", "MASTER_PORT": "20017"}
    assert meeting_point(slurm | {"MASTER_ADDR": "h"}) == {
        "MASTER_ADDR": "h",
        "MASTER_PORT": "20017",
    }
    variables = {"MASTER_ADDR": "h", "MASTER_PORT": "1"}
    assert meeting_point(slurm | variables) == variables
    with pytest.raises(InputError, match="MASTER_ADDR"):
        meeting_point({})
