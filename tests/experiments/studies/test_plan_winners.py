"""Searches of plans beside simulations of all plans."""

import pytest

from experiments.studies import plan_winners
from experiments.studies.__main__ import main

SEEDS = (1, 309, 314)
"""The search of the first one changes its fastest plan."""


@pytest.mark.exhaustive
def test_searches_find_the_winner_of_all_plans(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = {seed: plan_winners.case(seed) for seed in SEEDS}
    monkeypatch.setattr(plan_winners, "case", lambda number: cases[SEEDS[number]])
    main(["plan-winners", str(len(SEEDS))])
    printed = capsys.readouterr().out
    assert f"{len(SEEDS)} (100.0%)" in printed
    assert "bounds above the time" in printed
    above = next(line for line in printed.splitlines() if line.startswith("bounds above"))
    assert above.split()[-1] == "0"
