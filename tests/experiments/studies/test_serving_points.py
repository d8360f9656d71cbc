"""What serving engines add to kernels, learnt from a few points."""

import csv
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from experiments.serving.operating_point import overheads
from experiments.studies.serving_points import (
    OF_WORKERS,
    WORKERS,
    fit,
    main,
    plain_fit,
    plain_predictor,
    predictor,
    read,
)
from topologies.errors import InputError

COLUMNS = (
    *("machine", "model_family", "engine", "mode", "precision", "isl", "osl", "concurrency"),
    *("gpus", "attention_dp_size", "moe_ep_size", "ttft_ms", "tpot_ms", "flags"),
    *(f"{kind}_{name}" for kind in WORKERS for name in OF_WORKERS),
)
SEPARATE = {
    **{"mode": "disagg", "precision": "fp8", "isl": 8192, "ttft_ms": 2000, "tpot_ms": 30},
    **{"prefill_num_workers": 1, "decode_num_workers": 2},
    **{
        f"{kind}_{name}": 8 if name == "tp_size" else 1
        for kind in WORKERS
        for name in OF_WORKERS[1:]
    },
}
"""A point whose prefills have a worker of their own."""
CASES = product(
    ("b200_sxm", "h200_sxm"), ("Llama-3.1-8B", "Llama-3.1-70B"), ("vllm", "trtllm"), (4, 64)
)


def row(machine: str, family: str, engine: str, concurrency: int, **other: object) -> str:
    """A point; its times are near those of the engine."""
    each = (5 if family.endswith("8B") else 15) * (0.9 + concurrency / 160)
    cells = {"mode": "agg", "precision": "fp8", "isl": 1024, "osl": 1024, "gpus": 4}
    cells |= {"ttft_ms": 20 * each, "tpot_ms": each, "concurrency": concurrency}
    known = {**cells, "machine": machine, "model_family": family, "engine": engine, **other}
    return ",".join(str(known.get(name, "")) for name in COLUMNS)


def written(folder: Path, *rows: str) -> Path:
    (folder / "serving.csv").write_text("\n".join((",".join(COLUMNS), *rows)))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    separate = [row("h200_sxm", "DeepSeek-R1/V3", "sglang", 64, **SEPARATE) for _ in range(2)]
    return written(tmp_path_factory.mktemp("points"), *(row(*case) for case in CASES), *separate)


def test_points_that_say_too_little_do_not_count(tmp_path: Path) -> None:
    """Equal points count once, by their median."""
    case = "h200_sxm", "Llama-3.1-70B", "vllm", 16
    odd = {"mode": "disagg"}, {"gpus": ""}, {"ttft_ms": 1e6}, {"flags": "layout_suspect"}
    rows = [row(*case, tpot_ms=value) for value in (10, 11, 30)]
    points = read(written(tmp_path, *rows, *(row(*case, **each) for each in odd)))
    assert points["tpot"].tolist() == pytest.approx([0.011])
    assert [load.concurrency for load in points["load"]] == [16.0]


def test_no_points_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file .*serving\.csv"):
        read(tmp_path)
    with pytest.raises(InputError, match="no point of one pool"):
        read(written(tmp_path, row("h200_sxm", "Llama-3.1-70B", "vllm", 16, mode="disagg")))


def test_a_fit_comes_near_its_points(folder: Path) -> None:
    points = read(folder)
    each, first = predictor(points)(fit(points))
    assert np.median(np.abs(np.log(each / points["tpot"]))) < 0.15
    assert np.median(np.abs(np.log(first / points["ttft"]))) < 0.5
    plain, _ = plain_predictor(points)(plain_fit(points))
    assert np.median(np.abs(np.log(plain / points["tpot"]))) < 0.3


def test_the_study_prints_errors_and_writes_what_ships(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "overheads.csv"
    tables = (table.splitlines() for table in main(folder, out).split("\n\n"))
    errors, groups, workers = tables
    assert len(errors) == 2 + 2 * 4
    assert errors[0].startswith("| left out | time | points | median")
    assert len(groups) == 2 + 2 * 2 * 2
    assert workers[2].startswith("| h200_sxm | sglang | 1 | ")
    rows = [*csv.DictReader(out.read_text().splitlines())]
    assert {each["name"] for each in rows} == overheads("vllm").keys()
    assert all(float(each["value"]) > 0 for each in rows)
