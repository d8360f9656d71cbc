"""Measured collectives on one node as curves."""

from pathlib import Path

import pytest

from experiments.calibration.measured_machines import multicasts
from experiments.calibration.population.specification import specification_of
from experiments.studies.collective_rows import collectives
from topologies.errors import InputError

HEADER = "machine,library,version_in_file,collective,dtype,ranks,size_bytes,time_us"
ROWS = (
    "h100_sxm,nccl,2.29.2,all_reduce,float16,8,1024,16.5",
    "h100_sxm,nccl,2.29.2,all_reduce,float16,8,512,16.0",
    "h100_sxm,nccl,2.29.2,all_reduce,int8,8,512,15.0",
    "h100_sxm,nccl,2.29.2,all_gather,float16,2,512,5.3",
    "l40s,nccl,2.27.3,all_gather,float16,2,512,9.0",
    "l40s,oneccl,2.1,all_gather,float16,2,512,9.0",
)


def test_rows_are_curves_of_a_machine_and_version(tmp_path: Path) -> None:
    (tmp_path / "nccl.csv").write_text("\n".join((HEADER, *ROWS)))
    (_, hopper), (_, card) = collectives(tmp_path)
    reduced, gathered = hopper
    assert [point.size for point in reduced.points] == [512, 1024]
    assert reduced.points[0].time_s == pytest.approx(16e-6)
    assert (gathered.ranks, gathered.nodes, gathered.library) == (2, 1, "NCCL 2.29.2")
    assert multicasts(reduced)
    assert not multicasts(card[0])
    assert specification_of(reduced).memory == 3350e9
    assert specification_of(card[0]).why_not


def test_a_folder_without_the_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file .*nccl\.csv"):
        list(collectives(tmp_path))
