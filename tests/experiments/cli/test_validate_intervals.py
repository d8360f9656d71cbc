"""`simctl validate` under a profile or a library: intervals, and where the machine stands."""

import json
from pathlib import Path

import pytest

from csv_texts import rows_of
from simctl_process import Simctl, mistake
from sure_profile import UNSURE


def rows(simctl: Simctl, *arguments: str) -> list[dict[str, str]]:
    text = simctl("validate", *arguments, "--format", "csv").stdout
    return rows_of(text)


def test_each_point_has_an_interval(simctl: Simctl, runs: str, profile: str) -> None:
    points = rows(simctl, runs, "--profile", profile)
    assert [point["inside"] for point in points] == ["True", "True", "False"]
    for point in points:
        assert float(point["low_s"]) < float(point["expected_s"]) < float(point["high_s"])
    (result,) = json.loads(
        simctl("validate", runs, "--profile", profile, "--format", "json").stdout
    )
    assert [point["inside"] for point in result["points"]] == [True, True, False]
    text = simctl("validate", runs, "--profile", profile).stdout
    assert "interval" in text
    assert "2 of 3 sizes inside their 80% intervals" in text


def test_a_wrong_result_is_not_counted(simctl: Simctl, runs: str) -> None:
    path = Path(runs)
    wrong = zip(path.read_text().splitlines(), ["wrong", "0", "5", "0"], strict=True)
    path.write_text("\n".join(",".join(pair) for pair in wrong))
    words = "--library", "openmpi", "--topology", "nodes:per_node=1"
    text = simctl("validate", runs, *words).stdout
    assert "|error| of 2 sizes" in text
    assert "of 2 sizes inside their 80% intervals" in text


@pytest.mark.parametrize(
    ("option", "what"),
    [("--profile", "sizes that their fits had not seen"), ("--library", "machines that were left")],
)
def test_the_machine_stands_among_measured_machines(
    simctl: Simctl, runs: str, profile: str, option: str, what: str
) -> None:
    value = profile if option == "--profile" else "openmpi"
    machine = ("--topology", "nodes:per_node=1")
    done = simctl("validate", runs, option, value, *machine)
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split()).rpartition("among the runs of measured machines")[2]
    error, _, inside = words.partition("your share inside is ")
    assert what in error
    assert "nearest: " in error
    assert inside
    wide = simctl("validate", runs, option, value, *machine, "--level", "0.95").stdout
    assert "inside their 95% intervals" in wide
    assert "your share inside" not in wide


def test_nobody_measured_gloo(simctl: Simctl, runs: str) -> None:
    done = simctl("validate", runs, "--library", "gloo", "--topology", "nodes:per_node=1")
    assert done.returncode == 0
    assert "no measured machine has gloo: there are no results to compare" in done.stderr
    assert "your share inside" not in done.stdout


def test_a_profile_without_intervals_is_compared_by_its_times(
    simctl: Simctl, runs: str, profile: str
) -> None:
    Path(profile).write_text(UNSURE)
    text = simctl("validate", runs, "--profile", profile).stdout
    assert "interval" not in text
    assert "your mean |ln(expected / measured)|" in text
    assert "inside" not in rows(simctl, runs, "--profile", profile)[0]


def test_the_library_chooses_where_no_algorithm_is_known(
    simctl: Simctl, runs: str, profile: str
) -> None:
    path = Path(runs)
    path.write_text(path.read_text().replace(",ring,", ",,"))
    points = rows(simctl, runs, "--profile", profile)
    chosen = [float(point["predicted_s"]) for point in points]
    ring = rows(simctl, runs, "--profile", profile, "--algo", "ring")
    assert all(fast <= float(each["predicted_s"]) for fast, each in zip(chosen, ring, strict=True))
    assert chosen[0] < float(ring[0]["predicted_s"])


def test_a_picture_has_the_band(simctl: Simctl, runs: str, profile: str, tmp_path: Path) -> None:
    picture, page = tmp_path / "runs.svg", tmp_path / "runs.md"
    words = ("validate", runs, "--profile", profile, "--plot", str(picture))
    assert simctl(*words, "--report", str(page)).returncode == 0
    assert "interval of a run" in picture.read_text()
    text = page.read_text()
    assert "mine" in text
    assert "| expected | interval |" in text
    assert "default bandwidth" not in text


def test_a_library_has_the_links_of_its_topology(simctl: Simctl, runs: str, tmp_path: Path) -> None:
    page = tmp_path / "runs.md"
    words = ("--library", "openmpi", "--topology", "star", "--report", str(page))
    assert simctl("validate", runs, *words).returncode == 0
    assert "default bandwidth 50GB/s" in page.read_text()


def test_transfers_share_links_as_the_user_says(simctl: Simctl, runs: str) -> None:
    machine = ("--topology", "ring")
    fifo, stored = (
        [float(row["predicted_s"]) for row in rows(simctl, runs, *machine, "--sharing", sharing)]
        for sharing in ("fifo", "store-and-forward")
    )
    assert all(fast <= slow for fast, slow in zip(fifo, stored, strict=True))
    star = rows(simctl, runs, "--topology", "star", "--sharing", "store-and-forward")
    assert float(star[-1]["predicted_s"]) > 1.5 * fifo[-1]
    fit = simctl("validate", runs, "--topology", "star", "--fit", "--sharing", "fair")
    assert mistake(fit) == (
        "simctl: --sharing fair: --fit shares links by fifo, leave one of them out"
    )
