"""Measured steps of plans beside predictions, on a few rows in the form of the published files."""

from pathlib import Path

import pytest

from experiments.parallel.factor_fit import Factors
from experiments.studies import plan_accuracy
from experiments.studies.measured_plans import (
    MeasuredStep,
    published,
    sharded,
    three_dimensional,
)
from step_texts import MULTI, SHARDED
from topologies.errors import InputError

SINGLE = """gpus,global_batch,micro_batch,hidden,heads,layers,seq,tp,dp,pp,iteration_ms
4,4,1,256,4,4,128,2,1,2,60
2,4,1,256,4,4,128,1,2,1,40
2,8,1,256,4,4,128,1,2,1,80
"""
MLPERF = """round,machine,gpus,tp,pp,cp,dp,global_batch,micro_batches,step_s
5.0,Eos H100,512,8,8,2,4,1152,288,55.13
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
    predicted = plan_accuracy.predict(cases)
    assert predicted[1].plain == pytest.approx(
        2 * plan_accuracy.plain(rows[1]) * predicted[0].plain / plan_accuracy.plain(rows[0])
    )
    (again,) = plan_accuracy.predict([(rows[1], (rows[1],))])
    assert abs(again.error) < 0.05
    assert again.plain_error == pytest.approx(0)


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


def test_larger_scales_are_calibrated_by_the_smallest() -> None:
    rows = [step("a", 64), step("a", 8), step("bb", 16)]
    assert [*plan_accuracy.larger_scale(rows)] == [(rows[0], (rows[1],))]


def test_later_releases_are_calibrated_by_those_before() -> None:
    rows = [step("a", 8, "2"), step("a", 8, "1"), step("a", 16, "1")]
    assert [*plan_accuracy.later_release(rows)] == [(rows[0], (rows[1],))]


def test_a_factor_of_the_device_explains_a_step(folder: Path) -> None:
    row = next(iter(sharded(folder / "fsdp_mpt.csv")))
    usual = plan_accuracy.path_of(row)(Factors(1.5)).sum()
    assert plan_accuracy.factor_of(row._replace(seconds=usual)) == pytest.approx(1.5, rel=1e-6)


def test_errors_are_counted_by_kind_of_plan(folder: Path) -> None:
    predicted = plan_accuracy.predict(plan_accuracy.no_row([*sharded(folder / "fsdp_mpt.csv")]))
    rows = plan_accuracy.errors_by_kind(predicted)
    errors = [each.error for each in predicted if each.kind == predicted[0].kind]
    first = rows[0]
    assert [row["device"] for row in rows] == ["h100", "a100"]
    assert first["compute"] == "specified"
    assert first["steps"] == len(errors)
    assert first["bias"] == pytest.approx(sum(errors) / len(errors), abs=5e-4)
    assert first["mean"] == pytest.approx(sum(map(abs, errors)) / len(errors), abs=5e-4)


def predicted_of(paper: str) -> list[plan_accuracy.Predicted]:
    """The steps of a paper, predicted with nothing fitted."""
    return plan_accuracy.predict(plan_accuracy.no_row([*published(paper)]))


@pytest.mark.parametrize("number", range(4))
def test_published_steps_are_predicted_without_a_fit(number: int) -> None:
    """Narayanan et al., SC 2021, table 1: the rows up to 256 GPUs, within 9%."""
    (predicted,) = plan_accuracy.predict([([*published("narayanan")][number], ())])
    assert abs(predicted.error) < 0.09


@pytest.mark.parametrize("number", range(4))
def test_recomputation_is_predicted_without_a_fit(number: int) -> None:
    """Korthikanti et al., arXiv 2205.05198, table 5: the two smaller models, within 10%."""
    (predicted,) = plan_accuracy.predict([([*published("korthikanti")][number], ())])
    assert abs(predicted.error) < 0.10


@pytest.mark.exhaustive
def test_published_steps_of_interleaved_pipelines_are_near() -> None:
    """Within 7% and 10%; no cause was found for the row of 76.1 G, which is 8% too fast."""
    narayanan, korthikanti = predicted_of("narayanan"), predicted_of("korthikanti")
    for rows, most in ((narayanan[4:8], 0.07), (korthikanti[4:6], 0.10)):
        for each in rows:
            assert abs(each.error) < (0.09 if each.row.group == "76.1 G" else most), each.row.group


def test_the_tables_of_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_accuracy, "PAPERS", ())
    text = plan_accuracy.main([folder])
    assert "a100_3d_single, one row a GPU and precision" in text
    assert "fsdp_mpt, the ten worst" in text
    assert "Errors by kind of plan" in text


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no CSV of measured steps"):
        plan_accuracy.main([tmp_path])
