"""The measured curves beside this checkout, as CSV files and their index."""

import csv
from pathlib import Path

import pytest

from curve_csvs import PLAIN, written
from experiments.measurements import COLLECTIVES, Point, read

MEASURED = Path(__file__).parents[6] / "shared" / "measured"
needs_curves = pytest.mark.skipif(
    not MEASURED.is_dir(), reason="the measured curves are not beside this checkout"
)


def index() -> dict[str, dict[str, str]]:
    with (MEASURED / "index.csv").open(newline="", encoding="utf-8") as file:
        return {row["case"]: row for row in csv.DictReader(file)}


def named(about: dict[str, str]) -> str:
    return {"alltoall": "all_to_all", "sendrecv": "send_recv"}.get(
        about["collective"], about["collective"]
    )


@needs_curves
def test_all_real_curves_are_what_their_index_says() -> None:
    cases = index()
    assert len(cases) == 229
    for case, about in cases.items():
        result = read(MEASURED / "curves" / f"{case}.csv")
        (curve,) = result.curves
        assert curve.collective == named(about)
        assert curve.collective in COLLECTIVES
        assert (curve.ranks, curve.nodes) == (int(about["ranks"]), int(about["nodes"]))
        assert (len(curve.points), result.skipped) == (int(about["rows"]), ())
        assert (curve.points[0].size, curve.points[-1].size) == (
            int(about["min_bytes"]),
            int(about["max_bytes"]),
        )
        assert not any("algbw_GBps" in note for note in curve.notes)


@needs_curves
def test_real_curves_have_the_values_written() -> None:
    folder = MEASURED / "curves"
    (ring,) = read(folder / "rtx2080ti_10g_tree_ar_p16.csv").curves
    assert (ring.points[0], ring.in_place[0]) == (
        Point(1048576, 5351.0 / 1e6),
        Point(1048576, 7940.7 / 1e6),
    )
    assert ring.notes == ("algorithm: Tree (by file name)",)
    (alps,) = read(folder / "alps_gh200_ofi192_ar_p16.csv").curves
    assert (len(alps.points), len(alps.in_place)) == (30, 29)


@needs_curves
def test_names_of_real_curves_agree_with_their_index(tmp_path: Path) -> None:
    for case, about in index().items():
        (curve,) = read(written(tmp_path, f"{case}.csv", PLAIN)).curves
        if curve.ranks is not None:
            assert (curve.ranks, curve.collective) == (int(about["ranks"]), named(about))
