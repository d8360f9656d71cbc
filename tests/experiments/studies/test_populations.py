"""Machines that are left out of a population, on a folder made for it: curves as NCCL's own model
says."""

import csv
from pathlib import Path

import numpy as np
import pytest

from experiments.calibration.measured_machines import multicasts
from experiments.calibration.observations import evenly
from experiments.calibration.population.population import Population
from experiments.calibration.population.population import parse as population
from experiments.calibration.population.specification import specification_of
from experiments.studies.population_fit import MachineRuns, fit_population
from experiments.studies.populations import collectives, main, sharpened, specified
from refusals import refusal
from simulator.cost_models.nccl import NcclJob, channels, choice
from tests.experiments.studies.conftest import runs_of
from topologies.errors import InputError

SIZES = [4**k for k in range(6, 15)]
MACHINES = {
    "mn5acc_nccl_ring_ar": ("X01 one", "H100", "hopper", 100e9),
    "abci_v100_nccl_ar": ("X02 two", "V100", "volta", 25e9),
    "alps_gh200_ofi_ar": ("X03 three", "GH200", "hopper", 100e9),
}
"""By the names of measured files: family, GPU, generation and β between nodes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    measurements = tmp_path_factory.mktemp("measured")
    lines = ["case,family,collective,ranks,nodes,gpu_model,nccl_or_mpi_version,algorithm"]
    for name, (family, device, generation, bandwidth) in MACHINES.items():
        job = NcclJob("all_reduce", 8, 2, channels(generation, bandwidth))
        rows = [f"{size},{choice(job, size).seconds * 1e6}" for size in SIZES]
        (measurements / f"{name}_p8.csv").write_text("\n".join(("size_bytes,time_us", *rows)))
        lines.append(f"{name}_p8,{family},all_reduce,8,2,{device},NCCL 2.30,")
    (measurements / "index.csv").write_text("\n".join(lines) + "\n")
    return measurements


def test_machines_are_predicted_and_the_population_is_written(folder: Path, tmp_path: Path) -> None:
    """NCCL's own model made the times, so it has no error; bare links have no launch."""
    printed = main(folder, "nccl", "X01,X02", tmp_path).splitlines()
    rows = list(csv.DictReader((tmp_path / "nccl-left-out.csv").read_text().splitlines()))
    assert [row["machine"] for row in rows] == ["MareNostrum 5 ACC", "ABCI V100"]
    assert [row["family"] for row in rows] == ["X01", "X02"]
    for row, line in zip(rows, printed[2:4], strict=True):
        errors = [float(row[name]) for name in ("nccl", "specification", "links")]
        assert errors[0] < 0.01 < errors[1] < errors[2]
        assert float(row["inside"]) > 0.5
        shown = [f"{float(row[name]):.1%}" for name in ("specification", "few", "nccl", "links")]
        assert [cell.strip() for cell in line.split("|")][5:9] == shown
    assert printed[-1].startswith("| nccl | 2 | ")
    assert printed[-1].endswith(" | 2 of 2 |")
    written = population((tmp_path / "nccl.yaml").read_text(), "nccl.yaml")
    assert written.machines == ("MareNostrum 5 ACC", "ABCI V100", "Alps")
    assert f"{written.error:.1%}" in printed[-1]
    assert written.intervals is not None


def test_a_folder_without_runs_of_a_library_is_refused(folder: Path) -> None:
    assert refusal(main, folder, "mpi").endswith(": no runs of mpi")


def test_four_points_say_how_machines_differ(machines: list[MachineRuns]) -> None:
    """Machines far from the others."""
    population = fit_population(machines[:3], apart=0.0)
    before, after = np.mean([_errors(number, population) for number in range(7, 11)], axis=0)
    assert after < 0.8 * before


def _errors(number: int, population: Population) -> list[float]:
    """Median errors on a machine's other points, without four points and with them."""
    unusual = runs_of(number, spread=0.5)
    keep = evenly(unusual.model.points, 4)
    measured = unusual.model.points.seconds
    times = specified(unusual, population), sharpened(unusual, population, keep)
    return [float(np.median(np.abs(np.log(each / measured))[~keep])) for each in times]


def test_a_prediction_starts_from_the_population(machines: list[MachineRuns]) -> None:
    population = fit_population(machines[:2])
    names = (one.name for one in machines[2].model.parameters)
    values = dict(zip(names, machines[2].inner(population), strict=True))
    assert values["launch"] == population.members["launch"].mean
    assert values["Simple network 1/β"] < population.members["Simple network 1/β"].mean


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
