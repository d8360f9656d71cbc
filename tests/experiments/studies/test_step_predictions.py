"""Predictions of measured and of published steps."""

from pathlib import Path

import pytest

from experiments.parallel.factor_fit import Factors
from experiments.studies.measured_plans import published, sharded
from experiments.studies.step_predictions import Predicted, factor_of, path_of, predict
from step_texts import SHARDED


def test_a_factor_of_the_device_explains_a_step(tmp_path: Path) -> None:
    (tmp_path / "fsdp_mpt.csv").write_text(SHARDED)
    row = next(iter(sharded(tmp_path / "fsdp_mpt.csv")))
    usual = path_of(row)(Factors(1.5)).sum()
    assert factor_of(row._replace(seconds=usual)) == pytest.approx(1.5, rel=1e-6)


def predicted_of(paper: str) -> list[Predicted]:
    """The steps of a paper, predicted with nothing fitted but the level of all A100."""
    return predict([(row, ()) for row in published(paper)])


@pytest.mark.parametrize("number", range(4))
def test_published_steps_are_predicted_without_a_fit(number: int) -> None:
    """Narayanan et al., SC 2021, table 1: the rows up to 256 GPUs, within 7%: the
    software of NCCL, measured in 2025, stands under runs of 2021."""
    (predicted,) = predict([([*published("narayanan")][number], ())])
    assert abs(predicted.error) < 0.07


@pytest.mark.parametrize("number", range(4))
def test_recomputation_is_predicted_without_a_fit(number: int) -> None:
    """Korthikanti et al., arXiv 2205.05198, table 5: the two smaller models, within 11%."""
    (predicted,) = predict([([*published("korthikanti")][number], ())])
    assert abs(predicted.error) < 0.11


@pytest.mark.exhaustive
def test_published_steps_of_interleaved_pipelines_are_near() -> None:
    """Within 5% and 11%."""
    narayanan, korthikanti = predicted_of("narayanan"), predicted_of("korthikanti")
    for rows, most in ((narayanan[5:8], 0.05), (korthikanti[4:6], 0.11)):
        for each in rows:
            assert abs(each.error) < most, each.row.group
