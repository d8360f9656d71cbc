"""Measured steps of plans beside predictions, on a few rows in the form of the published files."""

from pathlib import Path

import pytest

from experiments.models.device_times import other_levels
from experiments.studies import plan_accuracy
from experiments.studies.measured_plans import MeasuredStep, sharded, three_dimensional
from experiments.studies.step_predictions import plain, plan_kind, predict
from published_tables import MULTI, SHARDED, SINGLE
from refusals import refusal

MLPERF = """round,machine,gpus,tp,pp,cp,dp,global_batch,micro_batches,step_s
5.0,Eos H100,512,8,8,2,4,96,24,5.13
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "a100_3d_single": SINGLE,
        "a100_3d_multi": MULTI,
        "fsdp_mpt": SHARDED,
        "mlperf_llama31_405b": MLPERF,
    }.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_the_row_with_the_fewest_gpus_calibrates_and_does_not_count(folder: Path) -> None:
    rows = [*three_dimensional(folder / "a100_3d_single.csv")]
    cases = [*plan_accuracy.one_row(rows)]
    assert cases == [(rows[0], (rows[1],)), (rows[2], (rows[1],))]
    plainly = predict(cases)["plain"]
    assert plainly[1] == pytest.approx(2 * plain(rows[1]) * plainly[0] / plain(rows[0]))
    again = predict([(rows[1], (rows[1],))])
    assert again["size"].max() < 0.1
    assert again["plain_error"].tolist() == pytest.approx([0])


def test_rows_of_a_model_calibrate_it_too(folder: Path) -> None:
    rows = [*sharded(folder / "fsdp_mpt.csv")]
    assert [*plan_accuracy.one_row(rows, by_model=True)] == [(rows[1], (rows[0],))]


def step(name: str, gpus: int, version: str = "1", kind: str = "H100 bf16") -> MeasuredStep:
    """A measured step of a plan of this name."""
    plan = f"dp={gpus},micro={len(name)}"
    texts = "hgx_h100", f"llama3_8b:layers={len(name)}", plan
    return MeasuredStep("runs", kind, name, "h100", "bf16", *texts, 1.0, (gpus, 1, 0), version)


def test_a_new_plan_is_calibrated_by_all_others_of_its_kind() -> None:
    first, second, other = step("a", 8), step("bb", 8), step("a", 8, kind="H100 fp8")
    rows = [first, second, first._replace(version="2"), other]
    assert [known for _, known in plan_accuracy.new_plan(rows)] == [
        (second,),
        (first, rows[2]),
        (second,),
    ]


def test_a_kind_of_gpu_never_seen_has_the_level_of_others() -> None:
    ((row, known),) = plan_accuracy.new_kind([step("a", 8)])
    assert row == step("a", 8)._replace(level=other_levels("h100", "bf16"))
    assert known == ()


def test_larger_scales_are_calibrated_by_the_smallest() -> None:
    rows = [step("a", 64), step("a", 8), step("bb", 16)]
    assert [*plan_accuracy.larger_scale(rows)] == [(rows[0], (rows[1],))]


def test_later_releases_are_calibrated_by_those_before() -> None:
    rows = [step("a", 8, "2"), step("a", 8, "1"), step("a", 16, "1")]
    assert [*plan_accuracy.later_release(rows)] == [(rows[0], (rows[1],))]


def test_errors_are_counted_by_kind_of_plan(folder: Path) -> None:
    predicted = predict(plan_accuracy.no_row([*sharded(folder / "fsdp_mpt.csv")]))
    rows = plan_accuracy.errors_by_kind(predicted)
    kinds = [plan_kind(*pair) for pair in predicted[["row", "times"]].to_numpy()]
    pairs = zip(predicted["error"], kinds, strict=True)
    errors = [error for error, kind in pairs if kind == kinds[0]]
    first = rows[0]
    assert [row["device"] for row in rows] == ["h100", "a100"]
    assert first["compute"] == "specified"
    assert first["steps"] == len(errors)
    assert first["bias"] == pytest.approx(sum(errors) / len(errors), abs=5e-4)
    assert first["mean"] == pytest.approx(sum(map(abs, errors)) / len(errors), abs=5e-4)


def test_the_tables_of_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_accuracy, "PAPERS", ())
    text = plan_accuracy.main([folder])
    assert text.startswith("Errors of each file\n\nrows of ")
    assert "fsdp_mpt, the ten worst" in text


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    assert "no CSV of measured steps" in refusal(plan_accuracy.main, [tmp_path])
