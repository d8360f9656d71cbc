"""Machines that are left out of a population, on a folder made for it: curves as NCCL's own model
says."""

import csv
from pathlib import Path

import pytest

from experiments.benchmarks.left_out_machines import parse, table
from experiments.calibration.population.population_file import parse as population
from grouped_cases import each_case
from simulator.cost_models.nccl import NcclJob, channels, choice
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
    lines = table(folder, "nccl", ["X01", "X02"], tmp_path).splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "MareNostrum 5 ACC",
        "ABCI V100",
        "median over machines",
        "half of the points inside: 2 of 2 families",
    ]
    for line in lines[1:3]:
        cells = [float(cell.rstrip("%")) for cell in line.split()[-6:]]
        specification, _, own, bare, inside, _ = cells
        assert own < 1 < specification < bare
        assert inside > 50
    rows = list(csv.DictReader((tmp_path / "nccl-left-out.csv").read_text().splitlines()))
    assert [row["family"] for row in rows] == ["X01", "X02"]
    for row, line in zip(rows, lines[1:3], strict=True):
        first = next(float(cell[:-1]) for cell in line.split() if cell.endswith("%"))
        assert first / 100 == pytest.approx(float(row["specification"]), abs=1e-3)
        assert line.endswith(f"{float(row['width']):.2f}")
    written = population((tmp_path / "nccl.yaml").read_text(), "nccl.yaml")
    assert written.machines == ("MareNostrum 5 ACC", "ABCI V100", "Alps")
    assert f"{written.error:.1%}" in lines[-2]
    assert written.intervals is not None


def test_a_folder_without_runs_of_a_library_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r": no runs of mpi$"):
        table(folder, "mpi")


def test_arguments_are_read(tmp_path: Path) -> None:
    words = ["there", "--library", "nccl", "--families", "F01,F02", "--out", str(tmp_path)]
    assert parse(words) == (Path("there"), "nccl", ["F01", "F02"], tmp_path)
    assert parse(["there"]) == (Path("there"), "", [], None)


@each_case(
    ("words", "message"),
    [
        (["there", "--library", "gloo"], "--library 'gloo': expected nccl or mpi"),
        (["there", "--library"], "population FOLDER takes --library NAME"),
        (["there", "--what", "x"], "population FOLDER takes --library NAME"),
        (["there", "--out", "nowhere"], "--out 'nowhere' is no folder: make it"),
    ],
)
def test_other_arguments_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(words)
