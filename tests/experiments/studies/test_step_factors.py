"""Levels of devices and spreads of factors, as measured steps teach them."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from experiments.models.accelerators import power_factor
from experiments.models.device_times import STEP_FACTORS
from experiments.parallel.factor_fit import Factors
from experiments.shipped_tables import rows_of
from experiments.studies import step_factors
from experiments.studies.measured_plans import MeasuredStep, published
from experiments.studies.plan_accuracy import PAPERS
from experiments.studies.step_predictions import path_of
from published_tables import COLLECTIVES, SHARDED
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from topologies.catalogue import find


def step(kind: str, model: str, device: str = "h100") -> MeasuredStep:
    texts = device, "bf16", "hgx_h100", model, "dp=8"
    return MeasuredStep("runs", kind, "", *texts, 1.0, (8, 1, 0))


def test_spreads_are_medians_over_families() -> None:
    logs = [
        (step("H100 bf16", model), log)
        for model, log in zip(["gpt3_1_7b"] * 3 + ["llama3_8b"] * 3, (0, 0.1, 0.2) * 2, strict=True)
    ]
    logs += [(step("H100 fp8", "gpt3_1_7b"), log) for log in (0.3, 0.3, 0.3)]
    spreads = step_factors.spreads_of(logs)
    family = step_factors.NORMAL * 0.2
    assert spreads["device"] == pytest.approx((family**2 - std_of(0.1, 0.3) ** 2) ** 0.5)
    assert spreads["step"] == pytest.approx(step_factors.NORMAL * 0.1)
    assert spreads["model"] == 0
    assert spreads["precision"] == pytest.approx(std_of(0.1, 0.3))
    assert spreads["odd_share"] == spreads["experts"] == 0


def test_each_model_with_experts_tells_how_much_further_off_it_is() -> None:
    models = {"llama3_8b": 0.1, "mixtral_8x7b": 0.4, "qwen3_30b_a3b": 0.0}
    spreads = step_factors.spreads_of([(step("H100 bf16", name), models[name]) for name in models])
    assert spreads["experts"] == pytest.approx(step_factors.NORMAL * 0.2)
    assert spreads["device"] == pytest.approx(step_factors.NORMAL * 0.1)


def test_a_level_is_the_median_over_families() -> None:
    values = {"H100 bf16": [1.1, 1.2, 1.9], "H100 fp8": [1.3]}
    needed = [(step(kind, "a"), level) for kind, of in values.items() for level in of]
    needed.append((step("A100", "a", "a100"), 1.05))
    levels = step_factors.levels_of(needed)
    assert levels == pytest.approx({"level_h100_16": 1.25, "level_a100_16": 1.05})


def test_a_board_with_less_power_has_a_level_of_its_own() -> None:
    levels = step_factors.levels_of([(step("H100 500 W bf16", "a", "h100_hbm2e"), 1.1)])
    limited = 1.1 * power_factor("h100", 500)
    assert levels == pytest.approx({"level_h100_16": 1.1, "level_h100_16_500W": limited})


def test_at_its_level_a_step_takes_as_long_as_measured() -> None:
    row = step("H100 bf16", "llama3_8b")
    seconds = float(path_of(row._replace(level=1.15))(Factors()).sum())
    assert step_factors.level_of(row._replace(seconds=seconds)) == pytest.approx(1.15, abs=1e-4)


@pytest.mark.parametrize("seconds", [1e-6, 1e4])
def test_a_step_that_no_factor_explains_tells_no_level(seconds: float) -> None:
    row = step("H100 bf16", "llama3_8b")._replace(seconds=seconds)
    assert np.isnan(step_factors.level_of(row))


def test_launches_are_what_all_steps_of_a_gpu_tell() -> None:
    row = step("H100 bf16", "gpt3_1_7b:seq=64")
    seconds = float(path_of(row)(Factors(launch=3.0)).sum())
    launches = step_factors.launches_of([row._replace(seconds=seconds)])
    assert launches == pytest.approx({"h100": np.log(3.0)}, abs=0.02)
    assert step_factors.launches_of([step("H100 bf16", "llama3_8b")]) == {}


def collectives(folder: Path, slower: float) -> Path:
    """NCCL's times on A100 and on H100 by one law, but that one family is slower."""
    lines = [COLLECTIVES]
    for machine, device, factor in (("dgx_a100", "a100", 1.0), ("hgx_h100", "h100", slower)):
        for ranks, exponent in product((2, 4, 8), range(14, 30)):
            times = GroupTimes(find(machine).build(8), Degrees(dp=8 // ranks, tp=ranks))
            links = times.seconds("tp", "all_gather", 2.0**exponent)
            seconds = factor * (10e-6 + 1.2 * links)
            row = f"{device}_sxm,nccl,all_gather,float16,{ranks},{2**exponent},{seconds * 1e6}"
            lines.append(f"{row},\n")
    (folder / "nccl.csv").write_text("".join(lines))
    return folder


def test_links_are_as_sure_as_large_collectives_of_a_family_left_out(tmp_path: Path) -> None:
    assert step_factors.links_of(collectives(tmp_path, 1.0)) < 0.1
    assert step_factors.links_of(collectives(tmp_path, 1.6)) == pytest.approx(np.log(1.6), rel=0.2)


def test_the_study_writes_what_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {paper: [row for row in published(paper) if row.gpus <= 64] for paper in PAPERS}
    assert all(small.values())
    monkeypatch.setattr(step_factors, "published", small.get)
    (tmp_path / "fsdp_mpt.csv").write_text(SHARDED)
    shipped, out = rows_of(STEP_FACTORS), tmp_path / "factors.csv"
    printed = step_factors.main([tmp_path], out)
    written = rows_of(out)
    assert [row["name"] for row in written] == [row["name"] for row in shipped]
    for row, usual in zip(written, shipped, strict=True):
        assert row["value"] in printed
        learnt = usual["source"].endswith("as each family is left out")
        absent = "level_" in row["name"] and row["name"] not in ("level_a100_16", "level_h100_16")
        for column in ("value", "source"):
            assert (row[column] != usual[column]) == (learnt and not absent)


def std_of(first: float, second: float) -> float:
    """The standard deviation of two values."""
    return abs(first - second) / 2**0.5
