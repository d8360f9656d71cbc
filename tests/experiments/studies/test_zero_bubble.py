"""Bubble rates of pipelines, against Zero Bubble's Table 5."""

import pytest

from experiments.studies.zero_bubble import errors, fit, models, rate, table

MODELS, V_MODELS = models(5), models(8)
MIDDLE, LARGE = (pytest.param(name, marks=pytest.mark.exhaustive) for name in ("14.6B", "28.3B"))


@pytest.mark.parametrize("name", ["1.5B", "6.2B", MIDDLE, LARGE])
def test_all_columns_follow_from_1f1b_and_a_cell(name: str) -> None:
    model = MODELS[name]
    fitted = fit(model, "one cell")
    for micro_batches in model.index:
        assert max(map(abs, errors(model, micro_batches, fitted).values())) < 0.006


@pytest.mark.parametrize("name", ["1.5B", "6.2B", MIDDLE, LARGE])
def test_nearly_all_cells_follow_from_the_columns_of_1f1b(name: str) -> None:
    model = MODELS[name]
    fitted = fit(model, "products")
    differences = {
        (micro_batches, column): abs(error)
        for micro_batches in model.index
        for column, error in errors(model, micro_batches, fitted).items()
    }
    assert max(differences.values()) < 0.0155
    worst = {column for (_, column), error in differences.items() if error > 0.01}
    assert worst == (set() if name == "1.5B" else {"ZB-H2"})


@pytest.mark.parametrize("name", ["6.2B", MIDDLE, LARGE])
def test_zb_v_follows_from_the_column_of_1f1b(name: str) -> None:
    """Zero Bubble's Table 8."""
    model = V_MODELS[name]
    fitted = fit(model, "products")
    for micro_batches in model.index:
        assert max(map(abs, errors(model, micro_batches, fitted).values())) < 0.014


def test_the_time_of_1f1b_says_nothing_of_the_parts() -> None:
    """It depends on T alone, so that no fit to it can tell T_W."""
    model = MODELS["1.5B"]
    rates = [rate(model, "1F1B", 24, (1 / 64, weights / 16)) for weights in (1, 4, 5)]
    assert rates == pytest.approx([rates[0]] * 3, abs=1e-12)


def test_the_last_line_of_a_table_has_the_worst_errors() -> None:
    model = MODELS["1.5B"]
    _, row, worst = table({"1.5B": model.loc[[24]]}, "products").splitlines()
    assert row.split()[:2] == ["1.5B", "24"]
    assert "+0.0000" in row
    assert [error[1:] for error in row.split()[4:]] == worst.split()[1:]
