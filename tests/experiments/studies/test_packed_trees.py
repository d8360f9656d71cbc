"""The study of packed trees on random networks."""

import pytest

from experiments.studies.__main__ import main
from experiments.studies.packed_trees import judged, summary


@pytest.mark.exhaustive
def test_the_table_has_a_line_for_each_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    main(["packed-trees", "1"])
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.startswith("algorithm               networks  64 segments   worst")
    assert [line.split()[0] for line in lines] == [
        "optimal_all_gather",
        "optimal_reduce_scatter",
        "optimal_broadcast",
        "optimal",
    ]
    assert {line.split()[1] for line in lines} == {"1"}


def test_what_a_network_misses_is_told() -> None:
    about = {"seed": 7, "algorithm": "optimal", "ranks": 4}
    assert summary([about | judged(3, 1.5, 1.03, 1.02, "ring")]).splitlines()[-1] == (
        "optimal on network 7 of 4 ranks: 64 segments are slow, 2048 segments are slow, "
        "ring is faster"
    )
    assert judged(3, 1.04, 1.0205, 1.02, "ring")["failures"] == "2048 segments are slow"
