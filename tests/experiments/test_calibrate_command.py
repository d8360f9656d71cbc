"""`calibrate`, `judge` and `--profile`, as a user calls them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from csv_texts import rows_of
from experiments.calibration.calibrated_profile import Calibration
from experiments.calibration.calibrated_profile import calibrate as fit
from experiments.commands import judged_runs
from experiments.commands.calibrate import Calibrate
from experiments.commands.sweep import Sweep
from experiments.commands.validate import Validate
from experiments.profiles import find, names, read
from simctl_process import Simctl, mistake

HEADER = "collective,algorithm,ranks,nodes,size_bytes,time_us,library\n"


def seconds(ranks: int, size: float) -> float:
    """Microseconds of a ring on nodes of one rank: two protocols."""
    steps, chunk = 2 * (ranks - 1), size / ranks
    return min(5 + steps * (3 + chunk / 2000), 5 + steps * (12 + chunk / 12000))


def runs(path: Path, ranks: tuple[int, ...] = (4, 8), library: str = "MPI 1") -> Path:
    rows = [
        f"all_reduce,ring,{p},{p},{size},{seconds(p, size)},{library}"
        for p in ranks
        for size in (4**k for k in range(4, 14))
    ]
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def swept(profile: str, size: str) -> int:
    """A ring of 16 on the machine of a profile, printed as JSON."""
    return Sweep(algo="ring", p="16", size=size, profile=profile, format="json").run()


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile fitted to rings of 4 and 8."""
    folder = tmp_path_factory.mktemp("profile")
    out = folder / "mine.yaml"
    assert Calibrate(files=[runs(folder / "runs.csv")], out=out).run() == 0
    return out


def test_a_profile_says_where_it_is_from_and_how_good_it_is(profile: Path) -> None:
    document = read(profile)
    assert (document.profile, document.library, document.machine) == (
        "mine",
        "MPI",
        "nodes:per_node=1",
    )
    assert document.sources == ["runs.csv: all_reduce, 4 ranks", "runs.csv: all_reduce, 8 ranks"]
    assert "sha256 of runs.csv" in document.made
    assert document.errors["sizes"].points == 20
    assert document.errors["sizes"].model is not None
    assert document.errors["sizes"].model < 0.15


def test_a_profile_is_held_against_runs(
    profile: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unseen = runs(tmp_path / "unseen.csv", (16,))
    request = Validate(logs=[unseen], profile=str(profile), held_out=True)
    fits: list[Calibration] = []

    def once(*arguments: Any) -> Calibration:
        """The same fit, however it is shown."""
        if not fits:
            fits.append(fit(*arguments))
        return fits[0]

    monkeypatch.setattr(judged_runs, "calibrate", once)
    assert replace(request, plot=tmp_path / "x.png").run() == 0
    assert "mine as it is" in capsys.readouterr().out
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert replace(request, tolerance="0.001", format="csv").run() == 1
    rows = rows_of(capsys.readouterr().out)
    assert len(rows) == 10
    assert sum(abs(float(row["error"])) for row in rows) / 10 < 0.15
    assert replace(request, tolerance="0.5", format="json").run() == 0
    assert set(json.loads(capsys.readouterr().out)) == {"points", "unseen"}


def test_a_sweep_takes_the_fastest_protocol(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert swept(str(profile), "1KiB,256MiB") == 0
    small, large = json.loads(capsys.readouterr().out)
    assert small["protocol"] != large["protocol"] == "rendezvous"
    assert small["time_s"] * 1e6 == pytest.approx(seconds(16, 1024), rel=0.2)
    assert large["time_s"] * 1e6 == pytest.approx(seconds(16, 2**28), rel=0.25)
    assert small["launch_s"] > 0


@pytest.mark.exhaustive
def test_two_set_ups_are_said_and_taken_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host, device = runs(tmp_path / "my_cpu_ar.csv", (4,)), tmp_path / "my_gpu_ar.csv"
    lines = [line.split(",") for line in host.read_text().splitlines()[1:]]
    device.write_text(
        HEADER
        + "".join(
            ",".join((*cells[:5], str(9 * float(cells[5])), cells[6])) + "\n" for cells in lines
        )
    )
    assert Calibrate(files=[tmp_path]).run() == 0
    assert "are 9 times apart: one set of parameters" in (messages := capsys.readouterr().err)
    assert "take each alone: --only cpu, --only gpu" in messages
    profile = tmp_path / "found.yaml"
    assert Calibrate(files=[tmp_path], only="gpu", out=profile).run() == 0
    assert "apart" not in capsys.readouterr().err
    assert {line.partition(":")[0] for line in read(profile).sources} == {"my_gpu_ar.csv"}
    errors = read(profile).errors["sizes"].model
    assert errors is not None
    assert errors < 0.15


def test_mistakes_are_answered_in_one_line(profile: Path, tmp_path: Path, simctl: Simctl) -> None:
    def refusal(*arguments: object) -> str:
        return mistake(simctl(*arguments))

    unknown = tmp_path / "unknown.csv"
    unknown.write_text(HEADER + "all_reduce,ring,4,4,1024,10,\n")
    assert "choose with --library nccl, mpi, fujitsu, gloo" in refusal("calibrate", unknown)
    line = refusal("calibrate", unknown, "--only", "zzz")
    assert line.endswith("--only zzz: no file's name has that as a word: there are unknown")
    for words in ("", " ", ",, "):
        assert f"--only {words!r}: expected words" in refusal("calibrate", unknown, "--only", words)
    assert "'x' is no library" in refusal("calibrate", unknown, "--library", "x")
    assert "1 point to fit: expected at least 2" in refusal(
        "calibrate", unknown, "--library", "mpi"
    )
    assert "its name ends in .yaml" in refusal("calibrate", unknown, "--out", tmp_path / "x.txt")
    assert "leave one of the two out" in refusal("sweep", "--profile", profile, "--latency", "1us")
    assert "has links of kind link, which mine knows nothing of" in refusal(
        "sweep", "--p", "4", "--profile", profile, "--topology", "star"
    )
    judged = ("validate", unknown, "--held-out", "--profile")
    assert "Missing argument 'LOG'" in refusal(judged[0], *judged[2:], profile)
    assert "name the profile to judge" in refusal(*judged[:3])
    assert "--topology ring and --held-out" in refusal(*judged, profile, "--topology", "ring")
    assert "it goes with --held-out" in refusal("validate", unknown, "--tolerance", "0.1")
    assert "no_profile" in refusal(*judged, "no_profile")
    assert "like 0.15" in refusal(*judged, profile, "--tolerance", "15%")
    unknown.write_text(HEADER + "all_reduce,ring,4,4,1024,1e-300,MPI\n")
    assert "from 1 ns to a week" in refusal("calibrate", unknown)


@pytest.mark.parametrize("name", names())
def test_profiles_that_are_shipped_simulate(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert swept(name, "1MiB") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert 1e-6 < row["time_s"] < 1
    assert find(name).errors["sizes"].points > 20


def test_runs_of_several_machines_are_refused_with_what_takes_one(
    tmp_path: Path, simctl: Simctl
) -> None:
    rows = runs(tmp_path / "rows.csv").read_text().splitlines()[1:]
    for name, device in (
        ("old_a", "Tesla V100-SXM2-16GB"),
        ("new_a", "NVIDIA H100 80GB HBM3"),
        ("new_b", "H100"),
    ):
        lines = "\n".join(f"{row},{device}" for row in rows)
        (tmp_path / f"{name}.csv").write_text(f"{HEADER.strip()},device\n{lines}\n")
    line = mistake(simctl("calibrate", *sorted(tmp_path.glob("*_*.csv"))))
    hint = (
        "runs of 2 machines (H100, V100): a profile is of one, take each alone: --only new, "
        "--only old"
    )
    assert line.endswith(hint)


def test_families_of_an_index_are_several_machines(tmp_path: Path, simctl: Simctl) -> None:
    index = "case,family,collective,ranks,nodes,nccl_or_mpi_version,algorithm\n"
    for family in ("F1", "F2"):
        index += f"{family.lower()}_x,{family} of a cluster,all_reduce,4,4,MPI 1,ring\n"
        (tmp_path / f"{family.lower()}_x.csv").write_text(
            "size_bytes,time_us\n1024,10\n4096,11\n65536,12\n"
        )
    (tmp_path / "index.csv").write_text(index)
    assert "runs of 2 machines (F1, F2): a profile is of one" in mistake(
        simctl("calibrate", tmp_path)
    )
    assert simctl("calibrate", tmp_path, "--family", "F1").returncode == 0


@pytest.mark.parametrize(
    ("ranks", "nodes", "message"),
    [
        (16, 99, "99 nodes for 16 ranks: there is a rank or more on each"),
        (9, 4, "9 ranks cannot fill 4 nodes alike"),
    ],
)
def test_nodes_that_cannot_have_had_the_ranks_are_refused(
    ranks: int, nodes: int, message: str, tmp_path: Path, simctl: Simctl
) -> None:
    wrong = tmp_path / "wrong.csv"
    sizes = (4**k for k in range(4, 14))
    wrong.write_text(
        HEADER + "".join(f"all_reduce,ring,{ranks},{nodes},{size},{size},MPI\n" for size in sizes)
    )
    assert message in mistake(simctl("calibrate", wrong))


def test_a_last_node_that_is_not_full_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = runs(tmp_path / "runs.csv", (10,)).read_text().replace(",10,10,", ",10,3,").splitlines()
    (tmp_path / "runs.csv").write_text("\n".join(rows[:6]) + "\n")
    assert Calibrate(files=[tmp_path / "runs.csv"], format="csv").run() == 0
    assert "10 ranks on 3 nodes are taken as 4 on each and 2 on the last" in capsys.readouterr().err


def test_a_curve_that_is_ten_times_too_slow_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """However the fit puts it down to its number of nodes."""
    text = runs(tmp_path / "runs.csv", (4, 8, 16)).read_text().splitlines()
    slow = [line.split(",") for line in text if ",8,8," in line]
    rest = [line for line in text if ",8,8," not in line]
    (tmp_path / "runs.csv").write_text("\n".join(rest) + "\n")
    slowed = "".join(",".join([*row[:5], str(10 * float(row[5])), row[6]]) + "\n" for row in slow)
    (tmp_path / "slow.csv").write_text(HEADER + slowed)
    assert Calibrate(files=[tmp_path], format="csv").run() == 0
    (named,) = [
        line for line in capsys.readouterr().err.splitlines() if "times slower than the fit" in line
    ]
    assert "slow.csv: all_reduce on 8 ranks is" in named
    factor = float(named.partition(" is ")[2].partition(" times")[0])
    assert 8 < factor < 12
