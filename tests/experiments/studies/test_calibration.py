"""Errors by family on a folder made for it: curves that are as NCCL's own model says, and some of
MPI."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.calibration.held_out import LeftOut
from experiments.calibration.observations import FitPoints
from experiments.measurements import read_all
from experiments.studies import calibration, generated_pages
from experiments.studies.calibration import CurveGroup, groups, main, reason
from experiments.studies.rule_learning import Lefts
from grouped_cases import each_case
from simulator.cost_models.nccl import NcclJob, channels, choice
from simulator.uncertainty.measured_places import MeasuredPlaces, no_messages

SIZES = [4**k for k in range(6, 15)]
INDEX = "case,family,collective,ranks,nodes,gpu_model,nccl_or_mpi_version,algorithm\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """X01: H100 with NCCL's choice, X02: an unknown GPU, X03: Open MPI."""
    measurements, lines = tmp_path_factory.mktemp("measured"), []
    for family, device, library, algorithm in (
        ("X01 one", "H100", "NCCL 2.30", ""),
        ("X02 two", "Radeon", "NCCL 2.30", ""),
        ("X03 three", "CPU ranks", "Open MPI 5", "ring"),
    ):
        for ranks in (8, 16):
            job = NcclJob("all_reduce", ranks, ranks // 4, channels("hopper", 80e9))
            name = f"{family[:3].lower()}_ar_p{ranks}"
            rows = [f"{size},{choice(job, size).seconds * 1e6}" for size in SIZES]
            (measurements / f"{name}.csv").write_text(
                "\n".join(("size_bytes,time_us", *rows)) + "\n"
            )
            lines.append(
                f"{name},{family},all_reduce,{ranks},{ranks // 4},{device},{library},{algorithm}"
            )
    (measurements / "index.csv").write_text(INDEX + "\n".join(lines) + "\n")
    return measurements


def test_a_family_is_chosen_by_its_first_word(folder: Path) -> None:
    assert len(read_all([folder]).curves) == 6
    names = ["one: NCCL", "two: NCCL", "three: MPI forced"]
    assert [group.name for group in groups(folder)] == names
    assert [group.name for group in groups(folder, ["X03", "X01"])] == [names[0], names[2]]
    assert [len(group.curves) for group in groups(folder)] == [2, 2, 2]


def lefts(group: CurveGroup, measured: FitPoints) -> Lefts:
    """A fit that is off by 1%, and lines that are off by 3%, everywhere; one point was fitted."""
    every = np.ones(len(measured), dtype=np.bool_)
    names = np.full(len(measured), "all_reduce")
    columns = measured.ranks, measured.nodes, measured.size
    where = MeasuredPlaces(names, names, *columns, no_messages(len(measured)))
    off, one = np.ones(len(measured)) / 100, np.arange(1)
    left = LeftOut(every, where, off, 3 * off, 4 * off, 0 * off, where.take(one), np.zeros(1))
    return {name: [left] for name in generated_pages.SPLITS}


def test_every_split_has_the_errors_of_the_model_and_of_lines(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "_lefts", lefts)
    shown = main(folder).split("\n\n")
    places = range(0, 2 * len(generated_pages.SPLITS), 2)
    splits = {shown[k].rstrip(":"): shown[k + 1].splitlines() for k in places}
    assert [*splits] == [*generated_pages.SPLITS]
    for _, _, *rows in splits.values():
        assert len(rows) == 3
        for row in rows:
            assert [cell.strip() for cell in row.split("|")][5:8] == ["1.0%", "1.0%", "3.0%"]


LEFT_OUT = """machine,family,group,points,specification,few,nccl,links,inside,width
M1,X01,one: NCCL,10,0.4,0.1,,0.7,0.3,0.5
M1,X02,two: MPI,10,0.2,0.1,0.2,0.7,0.9,0.5
M2,X01,three: MPI,10,0.2,0.1,0.2,0.7,0.4,0.5
"""


def test_the_page_is_written_from_the_files_of_a_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "_lefts", lefts)
    main(folder, ["X01", "X02", "X03"], tmp_path)
    text = (
        "$command\n$date\n$versions$note\n$summary\n\n$sizes\n\n$ranks\n\n$plateau\n"
        "$classes\n$machines_summary\n\n$machines\n$by_machine\n$worst"
    )
    (tmp_path / "page.txt").write_text(text)
    (tmp_path / "nccl-left-out.csv").write_text(LEFT_OUT)
    (tmp_path / "groups.csv").write_text('group,runs,use\none: NCCL,"Made, NCCL",tuned\n')
    page = generated_pages.calibration(tmp_path, tmp_path / "page.txt", tmp_path)
    assert page.startswith("python -m experiments.studies calibration FOLDER X01 X02 X03\n")
    assert "| Made, NCCL | tuned | 2 | 18 | 1.0% | 1.0% | 3.0% | 100.0% |" in page
    assert "| three: MPI forced | not used | 2 | 18 | 1.0% | 1.0% | 3.0% | 100.0% |" in page
    assert "| Made, NCCL | x01_ar_p8, 4KiB | " in page
    assert "its smallest size; the whole curve is slower: by 1% in the median |" in page
    assert "| NCCL, RCCL | 2 | 25.0% | 10.0% | 20.0% | 70.0% | 1 of 2 |" in page
    assert "| three: MPI forced | not used | 1.0% | 100.0% |" in page
    assert "| 1.0% | 100.0% | 40.0% | 30.0% |" in page
    assert "| M1 | Made, NCCL | tuned | 10 | 40.0% | 10.0% |  | 70.0% | 30.0% | 50.0% |" in page
    assert "| sizes | 3 | 100% | 100% | " in page
    assert "| not used | sizes | 2 | 1.0% | 1.0% | 3.0% | 2 of 2 | 100% | 100% |" in page


def test_the_least_share_inside_is_of_families_with_enough_points() -> None:
    """None of three points is inside, and half of ten."""
    judged = pd.DataFrame(
        {
            "split": pd.Categorical(["sizes"] * 2, generated_pages.SPLITS),
            "family": ["X01", "X02"],
            "inside": [0.0, 0.5],
            "judged": [3.0, 10.0],
            **dict.fromkeys(("score", "lines", "curves"), [np.nan] * 2),
        }
    )
    assert "| sizes | 2 | 25% | 50% |" in generated_pages.classes(judged)


POWERS = np.array([4.0**k for k in range(5, 10)])


def curve(
    seconds: list[float], off: list[float], algorithm: tuple[str, ...] = ("ring",) * 5
) -> pd.DataFrame:
    times = np.array(seconds) * 1e-6
    return pd.DataFrame({"size": POWERS, "seconds": times, "off": off, "algorithm": algorithm})


@each_case(
    ("measured", "place", "words"),
    [
        (curve([10, 11, 50, 12, 13], [0, 0, 1.5, 0, 0]), 2, "a bump: 4.4 times"),
        (curve([10, 11, 50, 60, 70], [0, 0, 2.0, 0, 0]), 2, "a step: 4.5 times the size before"),
        (curve([10, 20, 15, 30, 40], [0, 0, -1, 0, 0]), 2, "no longer than a smaller size"),
        (curve([10, 20, 50, 51, 40], [0, 0, 1, 0, 0]), 2, "longer than a larger size"),
        (curve([10, 11, 12, 13, 14], [1, 0, 0, 0, 0]), 0, "the end of the curve: its smallest"),
        (curve([10, 11, 12, 13, 14], [0, 0, 0, 0, 1]), 4, "the end of the curve: its largest"),
        (curve([10, 11, 12, 13, 14], [0.7, 0.7, 1, 0.7, 0.7]), 2, "slower: by 101% in the median"),
        (curve([10, 11, 12, 13, 14], [-0.7, -0.7, -1, -0.7, -0.7]), 2, "the whole curve is faster"),
        (
            curve([10, 11, 12, 13, 14], [0, 0, 1, 0, 0], ("tree", "tree", "tree", "ring", "ring")),
            2,
            "another algorithm: tree, and ring nearby",
        ),
    ],
)
def test_a_reason_is_told(measured: pd.DataFrame, place: int, words: str) -> None:
    assert words in reason(measured, place)


def test_a_point_off_without_a_reason_has_none() -> None:
    assert reason(curve([10, 11, 12, 13, 14], [0, 0, 1, 0, 0]), 2) == ""


def test_a_bump_the_other_way_is_no_reason() -> None:
    """The point takes long, and the model says that it takes longer still."""
    assert "bump" not in reason(curve([10, 11, 50, 12, 13], [0, 0, -1.5, 0, 0]), 2)


def test_few_points_that_were_left_out_say_nothing_of_the_whole_curve() -> None:
    off = [float("nan"), 1, 1, float("nan"), float("nan")]
    assert reason(curve([10, 11, 12, 13, 14], off), 1) == ""
