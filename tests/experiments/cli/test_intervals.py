"""Intervals of a profile's predictions: in tables and records, at the level that is asked for."""

import json
import re
from pathlib import Path

import pytest

from csv_texts import rows_of
from grouped_cases import each_case
from simctl_process import Simctl, mistake
from sure_profile import SURE, UNSURE

SWEEP = ("sweep", "--p", "8", "--size", "1KiB,8KiB,1MiB", "--profile")


def rows(simctl: Simctl, *arguments: str) -> list[dict[str, str]]:
    text = simctl(*arguments, "--format", "csv").stdout
    return rows_of(text)


def test_a_sweep_has_an_interval_for_each_time(simctl: Simctl, profile: str) -> None:
    for row in rows(simctl, *SWEEP, profile):
        low, expected, high = (float(row[name]) for name in ("low_s", "expected_s", "high_s"))
        assert low < expected < high
        assert expected * expected == pytest.approx(low * high)
    table = simctl(*SWEEP, profile).stdout.splitlines()
    assert "expected" in table[2]
    assert "80% of runs" in table[2]


def test_what_was_measured_corrects_the_time(simctl: Simctl, profile: str) -> None:
    """The residuals of the profile are +0.1 at 1 KiB and -0.1 at 8 KiB."""
    small, middle, _ = rows(simctl, *SWEEP, profile)
    assert float(small["expected_s"]) > float(small["time_s"])
    assert float(middle["expected_s"]) < float(middle["time_s"])


def test_a_higher_level_has_wider_intervals(simctl: Simctl, profile: str) -> None:
    usual = rows(simctl, *SWEEP, profile)
    wider = rows(simctl, *SWEEP, profile, "--level", "0.95")
    for row, wide in zip(usual, wider, strict=True):
        assert float(wide["low_s"]) < float(row["low_s"])
        assert wide["expected_s"] == row["expected_s"]


def test_more_ranks_than_were_measured_are_less_sure(simctl: Simctl, profile: str) -> None:
    words = ("sweep", "--size", "1KiB", "--profile", profile, "--p")
    factors = [
        float(row["high_s"]) / float(row["low_s"]) for row in rows(simctl, *words, "8,16,32,64")
    ]
    assert factors == sorted(factors)
    assert factors[-1] > factors[0]


def test_a_run_says_what_it_is_expected_to_take(simctl: Simctl, profile: str) -> None:
    words = ("run", "--p", "8", "--size", "1KiB", "--profile", profile)
    (line,) = (line for line in simctl(*words).stdout.splitlines() if "of runs:" in line)
    summary = json.loads(simctl(*words, "--format", "json").stdout)["summary"]
    assert "80% of runs" in line
    assert summary["low_s"] < summary["expected_s"] < summary["high_s"]


def test_an_interval_below_the_best_bound_says_where_it_ends(simctl: Simctl) -> None:
    words = ("run", "--library", "nccl", "--algo", "rings", "--topology", "hgx_h100:nodes=8")
    lines = simctl(*words, "--size", "1GiB", "--level", "0.95").stdout.splitlines()
    (row,) = (row for row, line in enumerate(lines) if "of runs: 4.893ms - " in line)
    assert "it ends at the bound of the specified links," in " ".join(lines[row : row + 2])
    assert "specified links" not in simctl(*words, "--size", "1KiB").stdout


@pytest.mark.parametrize(
    "words",
    [("sweep", "--p", "8"), ("run", "--p", "8"), ("recommend", "--p", "8", "--size", "1KiB")],
    ids=lambda words: words[0],
)
def test_a_profile_without_intervals_still_works_and_says_so(
    words: tuple[str, ...], simctl: Simctl, tmp_path: Path
) -> None:
    path = tmp_path / "old.yaml"
    path.write_text(UNSURE)
    answer = simctl(*words, "--profile", str(path))
    assert answer.returncode == 0
    assert "note: the profile mine does not say how sure it is" in answer.stderr
    assert "of runs" not in answer.stdout


def test_a_run_says_why_it_is_unsure(simctl: Simctl, profile: str) -> None:
    """The profile has seen ring on 8 ranks, at 1 KiB with a residual of +0.1, and at 8 KiB."""
    words = ("run", "--p", "16", "--size", "1MiB", "--algo", "tree", "--profile", profile)
    reasons = [
        "16 ranks: measured runs have at most 8",
        "1MiB: measured runs have at most 8KiB",
        "algorithm tree was not measured",
    ]
    report = json.loads(simctl(*words, "--format", "json").stdout)
    assert report["unsure"] == reasons
    assert report["summary"]["unsure"] == "; ".join(reasons)
    text = simctl(*words).stdout
    assert all(f"{reason}" in " ".join(text.split()) for reason in reasons)
    near = simctl(
        *("run", "--algo", "ring", "--p", "8", "--size", "1KiB"), "--profile", profile
    ).stdout
    assert "unsure" not in near
    assert "measured runs nearby take 8% longer than the model says" in near


def test_an_old_profile_has_no_intervals(simctl: Simctl, tmp_path: Path) -> None:
    old = tmp_path / "old.yaml"
    old.write_text(SURE[: SURE.index("uncertainty:")])
    assert "expected" not in simctl(*SWEEP, str(old)).stdout
    assert all("low_s" not in row for row in rows(simctl, *SWEEP, str(old)))
    assert "does not say how sure it is: calibrate it again" in mistake(
        simctl(*SWEEP, str(old), "--level", "0.9")
    )


@each_case("level", ["0", "1", "80", "-1", "nan"])
def test_a_level_is_a_share(simctl: Simctl, profile: str, level: str) -> None:
    assert "expected a share between 0 and 1" in mistake(simctl(*SWEEP, profile, "--level", level))


def test_a_result_says_at_what_level_its_intervals_are(
    simctl: Simctl, profile: str, tmp_path: Path
) -> None:
    """So `--resume` refuses another level, instead of intervals of the first."""
    table, page = tmp_path / "a.csv", tmp_path / "run.md"
    words = (*SWEEP, profile, "--out", str(table), "--level")
    assert simctl(*words, "0.5").returncode == 0
    assert "it is of --level 0.5, this is --level 0.9" in mistake(simctl(*words, "0.9", "--resume"))
    command = ("run", "--p", "8", "--size", "1KiB", "--profile", profile, "--level", "0.9")
    assert simctl(*command, "--report", str(page)).returncode == 0
    assert "- level: 0.9\n" in page.read_text()


def test_a_report_of_recommend_has_intervals_and_rivals(
    simctl: Simctl, profile: str, tmp_path: Path
) -> None:
    page = tmp_path / "best.md"
    words = (*RECOMMEND, "--profile", profile, "--report", str(page))
    assert simctl(*words).returncode == 0
    head = next(line for line in page.read_text().splitlines() if line.startswith("| size"))
    assert "| gain | expected | interval | or | unsure |" in head
    explain = (*words[: words.index("--size")], "--explain", "1KiB", *words[-4:])
    assert simctl(*explain).returncode == 0
    head = next(line for line in page.read_text().splitlines() if line.startswith("| algorithm"))
    assert "| time | expected | interval | perhaps as fast |" in head
    assert "perhaps as fast: the difference" in page.read_text()
    ranks_map = ("recommend", "--p", "4,8", *words[3:])
    assert simctl(*ranks_map).returncode == 0
    assert "or: the second" in page.read_text()


RECOMMEND = ("recommend", "--p", "8", "--collective", "all_gather", "--size", "1KiB,1MiB")


def test_the_best_algorithm_is_by_expected_time(simctl: Simctl, profile: str) -> None:
    report = json.loads(simctl(*RECOMMEND, "--profile", profile, "--format", "json").stdout)
    explain = (*RECOMMEND[:-2], "--explain", "1KiB", "--profile", profile)
    ranked = json.loads(simctl(*explain, "--format", "json").stdout)
    times = [(row["own_software"], row["expected_s"]) for row in ranked]
    assert times == sorted(times)
    assert report["advice"][0]["algorithm"] == ranked[0]["algorithm"]
    for row in (*report["advice"], *ranked):
        assert row["low_s"] < row["expected_s"] < row["high_s"]
    table = simctl(*RECOMMEND, "--profile", profile, "--level", "0.9").stdout
    assert "90% of runs" in table
    assert "or        the second fastest algorithm" in table


def test_recommend_says_in_what_a_run_is_outside_the_data(simctl: Simctl, profile: str) -> None:
    """The profile has seen a ring all-reduce on 8 ranks, at 1 KiB and at 8 KiB."""
    words = ("recommend", "--collective", "all_reduce", "--profile", profile)
    explained = rows(simctl, *words, "--p", "8", "--explain", "1KiB")
    reasons = {row["algorithm"].partition(":")[0]: row["unsure"] for row in explained}
    assert reasons["ring"] == ""
    assert reasons["tree"] == "algorithm tree was not measured"
    for ranks in ("9", "9,16"):
        for row in rows(simctl, *words, "--p", ranks, "--size", "1MiB"):
            assert "ranks: measured runs have at most 8; 1MiB: measured runs" in row["unsure"]


def test_only_errors_of_their_own_blur_which_algorithm_is_faster(
    simctl: Simctl, profile: str
) -> None:
    explain = (*RECOMMEND[:-2], "--explain", "1KiB", "--profile", profile, "--format", "json")
    ranked = json.loads(simctl(*explain).stdout)
    assert any(row["rival"] for row in ranked if row["over_best"] > 1.01)
    shared = Path(profile).read_text()
    for part in ("algorithm: 0.1", "curve: 0.1", "noise: 0.1", "other_algorithm: 0.3"):
        shared = shared.replace(part, f"{part[:-3]}0.0")
    Path(profile).write_text(shared[: shared.index("  moved:")])
    for row in json.loads(simctl(*explain).stdout):
        assert row["rival"] is (row["over_best"] < 1 + 1e-9)


def test_a_map_marks_what_is_not_sure(simctl: Simctl, profile: str) -> None:
    words = ("recommend", "--p", "4,8", "--size", "1KiB", "--collective", "all_gather")
    text = simctl(*words, "--profile", profile).stdout
    assert "x?" in text
    assert "?: the second may be as fast" in text
    assert "x?" not in simctl(*words).stdout


def test_judge_says_how_many_points_are_inside(simctl: Simctl, profile: str, runs: str) -> None:
    judged = ("validate", runs, "--profile", profile, "--held-out")
    points = rows(simctl, *judged)
    assert [point["inside"] for point in points] == ["True", "True", "False"]
    for point in points:
        inside = float(point["low_s"]) <= float(point["measured_s"]) <= float(point["high_s"])
        assert str(inside) == point["inside"]
    answer = simctl(*judged, "--level", "0.9")
    assert answer.returncode == 0, answer.stderr
    assert "67% are inside their 90% intervals" in answer.stdout


def test_judge_of_an_old_profile_has_no_intervals(simctl: Simctl, profile: str, runs: str) -> None:
    Path(profile).write_text(SURE[: SURE.index("uncertainty:")])
    judged = ("validate", runs, "--profile", profile, "--held-out")
    assert "inside" not in rows(simctl, *judged)[0]
    assert "inside" not in simctl(*judged).stdout


def test_diagnose_expects_an_interval(simctl: Simctl, profile: str, runs: str) -> None:
    words = ("diagnose", runs, "--profile", profile)
    points = rows(simctl, *words)
    for point in points:
        assert float(point["low_s"]) < float(point["expected_s"]) < float(point["high_s"])
    assert [point["notes"] for point in points][-1] == "outside the interval"
    answer = simctl(*words, "--level", "0.9").stdout
    assert "90% of runs" in answer
    assert "--level 0.9 goes with --topology, --library or --profile: write one" in mistake(
        simctl("diagnose", runs, "--level", "0.9")
    )


TRAIN = ("plan", "--model", "gpt2", "dp=4", "--profile")


def test_a_step_has_an_interval(simctl: Simctl, profile: str, tmp_path: Path) -> None:
    result = tmp_path / "step.json"
    (row,) = rows(simctl, *TRAIN, profile, "--out", str(result))
    low, expected, high = (float(row[name]) for name in ("low_s", "expected_s", "high_s"))
    assert float(row["computing_s"]) < low < expected < high
    assert "80% of steps: " in simctl(*TRAIN, profile).stdout
    (wide,) = rows(simctl, *TRAIN, profile, "--level", "0.95")
    assert float(wide["low_s"]) < low
    assert float(wide["high_s"]) > high
    page = simctl("report", str(result), "--out", str(tmp_path / "step.md"))
    assert page.returncode == 0
    assert "(80% of steps: " in (tmp_path / "step.md").read_text()


def test_a_step_under_an_old_profile_has_none(simctl: Simctl, profile: str) -> None:
    Path(profile).write_text(SURE[: SURE.index("uncertainty:")])
    (row,) = rows(simctl, *TRAIN, profile)
    assert row["expected_s"] == row["low_s"] == row["high_s"] == ""
    assert "of steps" not in simctl(*TRAIN, profile).stdout


def test_a_stored_run_is_read_again(simctl: Simctl, profile: str, tmp_path: Path) -> None:
    out, page = tmp_path / "run.json", tmp_path / "run.md"
    simctl("run", "--p", "16", "--profile", profile, "--out", str(out))
    assert simctl("report", str(out), "--out", str(page)).returncode == 0
    text = page.read_text()
    assert re.search(r"- expected: .* \(interval: .* - .*", text)
    assert "16 ranks: measured runs have at most 8" in text


def test_rings_over_all_nics_count_as_the_ring_that_was_measured(
    simctl: Simctl, profile: str
) -> None:
    words = ("run", "--p", "8", "--size", "1KiB", "--topology", "nodes:per_node=1")
    reports = [
        json.loads(simctl(*words, "--algo", name, "--profile", profile, "--format", "json").stdout)
        for name in ("ring", "rings")
    ]
    assert reports[0]["unsure"] == reports[1]["unsure"] == []


def test_a_profile_is_no_result(simctl: Simctl, profile: str, tmp_path: Path) -> None:
    assert f"simctl validate RUNS --profile {profile} --held-out --report PAGE.html" in mistake(
        simctl("report", profile, "--out", str(tmp_path / "page.html"))
    )


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--p", "4"),
        ("sweep", "--p", "4"),
        ("recommend", "--p", "4", "--collective", "all_reduce", "--size", "1MiB"),
        ("train", "--p", "4"),
        ("plan", "--p", "4", "--model", "gpt2", "dp=4"),
    ],
    ids=" ".join,
)
def test_fair_sharing_has_times_and_no_interval(simctl: Simctl, words: tuple[str, ...]) -> None:
    fair = "--sharing", "fair", "--format", "json"
    done = simctl(*words, "--topology", "hgx_h100", "--library", "nccl", *fair)
    assert done.returncode == 0
    assert "note: --sharing fair: no intervals, they go with --sharing fifo" in done.stderr
    assert not re.search(r'"(low|high|expected)_s": [0-9]', done.stdout)
