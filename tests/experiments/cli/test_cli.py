"""The command line as a user meets it: tables, files, one line for a mistake, exit codes."""

import csv
import io
import json
import logging
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LOG = ROOT / "examples" / "h100_10_nodes_all_reduce.csv"


Simctl = Callable[..., "subprocess.CompletedProcess[str]"]


def simctl(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    script = "from experiments.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ,
        check=False,
    )


@pytest.fixture(params=["here", pytest.param("alone", marks=pytest.mark.exhaustive)])
def command(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Simctl]:
    """`simctl` in this process, where all is imported, or in one of its own."""
    from experiments.cli import main

    def here(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(cwd or Path.cwd())
        monkeypatch.setattr(sys, "argv", ["simctl", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        assert isinstance(stop.value.code, int | None)
        return subprocess.CompletedProcess(arguments, stop.value.code or 0, *capsys.readouterr())

    logger, level = logging.getLogger("simctl"), logging.getLogger("simctl").level
    monkeypatch.setattr("warnings.showwarning", warnings.showwarning)
    yield here if request.param == "here" else simctl
    logger.setLevel(level)


def test_sweep_prints_a_row_a_point_and_succeeds() -> None:
    done = simctl(
        "sweep", "--algo", "ring,naive", "--p", "2..4", "--size", "1MiB,1GiB", "--topology", "star"
    )
    lines = done.stdout.partition("\n\n")[0].splitlines()
    assert done.returncode == 0
    assert len(lines) == 1 + 2 * 3 * 2
    assert all(line.endswith(" ok") for line in lines[1:])
    assert len({len(line.rpartition("  ")[0]) for line in lines}) == 1, "columns are aligned"


def test_sweep_writes_csv_with_its_provenance(tmp_path: Path) -> None:
    done = simctl("sweep", "--p", "4", "--out", "sweep.csv", "--format", "csv", cwd=tmp_path)
    assert done.returncode == 0
    written = (tmp_path / "sweep.csv").read_text()
    assert written == done.stdout
    row = next(csv.DictReader(io.StringIO(written)))
    # 2(p-1)(α + V/(pβ)) of the default machine
    assert float(row["time_s"]) == pytest.approx(6 * (1e-6 + 2**26 / 4 / 50e9), rel=1e-9)
    assert row["verdict"] == "ok"
    made = json.loads((tmp_path / "sweep.csv.meta.json").read_text())
    assert made["parameters"]["bandwidth"] == "50GB/s"
    assert set(made["versions"]) >= {"simctl-collectives", "numpy"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep.csv", "sweep.csv.meta.json"]


@pytest.mark.parametrize(
    ("size", "units"), [("64MiB", {"KiB", "MiB", "GiB"}), ("64MB", {"kB", "MB", "GB"})]
)
def test_bytes_of_a_run_are_in_the_units_of_its_size(
    size: str, units: set[str], command: Simctl
) -> None:
    text = command("run", "--p", "62", "--size", size).stdout
    assert set(re.findall(r"\d([kKMGT]i?B)\b(?!/s)", text)) <= units


def test_sizes_that_are_no_round_numbers_keep_to_one_family_of_units(
    command: Simctl, tmp_path: Path
) -> None:
    rows = [f"all_gather,10,{size},{size / 1e4}" for size in (33554400, 67108860, 2**30)]
    (tmp_path / "runs.csv").write_text(
        "\n".join(["collective,ranks,size_bytes,time_us", *rows]) + "\n"
    )
    lines = command(
        "validate", "runs.csv", "--topology", "star:latency=1us", cwd=tmp_path
    ).stdout.splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["32MiB", "64MiB", "1GiB"]


def test_the_end_that_a_range_leaves_out_is_noted_once(tmp_path: Path) -> None:
    said = ["note: 2..5:x2 ends at 4: 5 is left out, 2..5:x2,5 has it too"]
    assert simctl("sweep", "--p", "2..5:x2").stderr.splitlines() == said
    line = ("train", "--topology", "star", "--p", "2..5:x2", "--out", "scaling.csv")
    assert simctl(*line, cwd=tmp_path).stderr.splitlines() == said
    assert (
        "counts" not in json.loads((tmp_path / "scaling.csv.meta.json").read_text())["parameters"]
    )


def test_doctor_names_versions_and_folders() -> None:
    done = simctl("doctor")
    assert done.returncode == 0
    for word in ("numba", "experiments", "compiled code"):
        assert word in done.stdout


def test_json_is_json() -> None:
    rows = json.loads(simctl("sweep", "--p", "2", "--format", "json").stdout)
    assert rows[0]["ranks"] == 2
    assert json.loads(simctl("run", "--p", "4", "--format", "json").stdout)["summary"]["steps"] == 6
    assert {
        entry["algorithm"] for entry in json.loads(simctl("algos", "--format", "json").stdout)
    } >= {"ring", "tree"}


def test_run_explains_all_of_the_time() -> None:
    command = (
        "run",
        "--algo",
        "parameter_server",
        "--topology",
        "star",
        "--p",
        "4",
        "--latency",
        "0s",
    )
    report = json.loads(simctl(*command, "--format", "json").stdout)
    parts, time = report["critical_path_s"], report["summary"]["time_s"]
    assert sum(parts.values()) == pytest.approx(time, rel=1e-12)
    # Of 6 messages in a row, three arrive from three ranks and three leave from one.
    assert parts["contention"] == pytest.approx(time * 2 / 6)
    assert parts["serialisation"] == pytest.approx(time * 4 / 6)
    [wait] = report["contention"]
    assert (wait["where"], wait["waits"], wait["behind"]) == (
        "switch->gpu0",
        "rank 3",
        ["rank 1", "rank 2"],
    )
    assert wait["seconds"] == pytest.approx(parts["contention"])
    assert "switch->gpu0  " in simctl(*command).stdout.partition("contention: waiting behind")[2]


def test_rings_at_full_use_of_their_links_have_no_contention() -> None:
    report = json.loads(
        simctl(
            "run",
            "--algo",
            "rings",
            "--topology",
            "hgx_h100:nodes=2",
            "--p",
            "16",
            "--format",
            "json",
        ).stdout
    )
    assert report["contention"] == []
    assert report["critical_path_s"]["contention"] == 0


def test_validate_fits_and_shows_unseen_sizes() -> None:
    result = json.loads(simctl("validate", str(LOG), "--fit", "--format", "json").stdout)[0]
    assert [point["fitted"] for point in result["points"]] == [True, False] * 5
    assert result["mean_abs_error"]["unseen"] < 0.02
    assert 48e9 < result["fit"]["bandwidth"] < 50e9


def test_validate_without_a_fit_predicts_every_size() -> None:
    done = simctl("validate", str(LOG), "--bandwidth", "49GB/s", "--latency", "5us")
    assert done.returncode == 0
    assert "|error| of 10 sizes" in done.stdout


def test_validate_says_that_nobody_named_the_machine(command: Simctl) -> None:
    said = "note: predicted for default links (star, links of 50GB/s and 1us), not yours"
    assert said in command("validate", str(LOG)).stderr
    for given in (["--fit"], ["--bandwidth", "49GB/s"], ["--topology", "star:latency=2us"]):
        assert command("validate", str(LOG), *given).stderr == ""


def test_pictures_are_written(command: Simctl, tmp_path: Path) -> None:
    commands = {
        "sweep.png": ("sweep", "--p", "2..4", "--plot"),
        "busbw.svg": ("sweep", "--p", "2..4", "--metric", "busbw", "--plot"),
        "run.pdf": ("run", "--p", "4", "--timeline"),
        "run.json": ("run", "--p", "4", "--timeline"),
        "fit.png": ("validate", str(LOG), "--fit", "--plot"),
    }
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".json": b"{"}
    for name, line in commands.items():
        assert command(*line, name, cwd=tmp_path).returncode == 0
        assert (tmp_path / name).read_bytes().startswith(starts[Path(name).suffix])


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "unknown algorithm": (("sweep", "--algo", "rnig"), "did you mean 'ring'"),
    "unknown topology": (("sweep", "--topology", "strr"), "did you mean 'star'"),
    "ranks empty": (("sweep", "--p", ""), "'' is not a whole number"),
    "one rank": (("sweep", "--p", "1"), "at least 2, got 1"),
    "one rank in a range": (("sweep", "--p", "1..4"), "at least 2, got 1"),
    "no ranks": (("sweep", "--p", "0"), "at least 2, got 0"),
    "negative ranks": (("sweep", "--p=-3"), "at least 2, got -3"),
    "backwards": (("sweep", "--p", "2..1"), "'2..1' runs backwards"),
    "not a range": (("sweep", "--p", "2.."), "'2..'"),
    "ranks as words": (("sweep", "--p", "two"), "'two' is not a whole number"),
    "too many ranks at once": (("sweep", "--p", "2..900000000"), "at most"),
    "size without a unit": (("sweep", "--size", "64"), "'64' has no unit"),
    "size with half a unit": (("sweep", "--size", "64M"), "64MB or 64MiB"),
    "size misspelt": (("sweep", "--size", "64mib"), "write 64MiB"),
    "size in seconds": (("sweep", "--size", "64s"), "'64s'"),
    "size zero": (("sweep", "--size", "0B"), "not positive"),
    "size empty": (("sweep", "--size", ""), "''"),
    "nan": (("sweep", "--bandwidth", "nan"), "'nan' is not finite"),
    "infinite": (("sweep", "--bandwidth", "infB/s"), "'infB/s'"),
    "zero bandwidth": (("sweep", "--bandwidth", "0GB/s"), "not positive"),
    "negative bandwidth": (("sweep", "--bandwidth=-5GB/s"), "not positive"),
    "negative latency": (("sweep", "--latency=-5us"), "negative"),
    "latency in bytes": (("sweep", "--latency", "5B"), "'5B' is not a time"),
    "unknown engine": (("sweep", "--engine", "fast"), "'fast'"),
    "unknown option": (("sweep", "--frob"), "--frob"),
    "unknown command": (("frob",), "frob"),
    "unwritable file": (("sweep", "--p", "2", "--out", "/proc/none/x.csv"), "cannot write"),
    "file is a folder": (("sweep", "--p", "2", "--out", "/"), "cannot write"),
    "unknown picture": (("sweep", "--p", "2", "--plot", "x.gif"), ".png, .svg, .pdf"),
    "picture nowhere": (("run", "--timeline", "/none/x.png"), "cannot write"),
    "several ranks for run": (("run", "--p", "2..4"), "one number of ranks"),
    "two algorithms for run": (("run", "--algo", "ring,tree"), "one algorithm here"),
    "no log": (("validate", "none.log"), "none.log"),
    "log is a folder": (("validate", "/"), "/"),
    "algorithm for another collective": (
        ("validate", str(LOG), "--algo", "ring_all_gather"),
        "no curve",
    ),
    "too many ranks": (("run", "--p", "1000000"), "at most 131072"),
    "a size beyond reason": (("sweep", "--size", "1e300B"), "out of range"),
    "a time beyond reason": (("sweep", "--latency", "1e300s"), "out of range"),
    "table and picture in one file": (
        ("sweep", "--p", "2", "--out", "x.png", "--plot", "x.png"),
        "name two files",
    ),
    "a fit that is told its result": (
        ("validate", str(LOG), "--fit", "--latency", "1us"),
        "leave out",
    ),
    "ranks against the log": (("validate", str(LOG), "--p", "4"), "contradicts"),
    "several ranks for a log": (("validate", str(LOG), "--p", "4,8"), "one number of ranks"),
    "no in-place times": (("validate", str(LOG), "--in-place"), "no in-place times"),
}


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD.keys())
def test_a_mistake_gets_one_line_and_exit_code_2(
    arguments: tuple[str, ...], said: str, command: Simctl, tmp_path: Path
) -> None:
    done = command(*arguments, cwd=tmp_path)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note:")]
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    assert said in lines[0]
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == [], "nothing half-written"


def test_one_rank_is_no_plural(command: Simctl, tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text(
        "collective,ranks,size_bytes,time_us\nall_reduce,1,1024,10\nall_reduce,1,2048,11\n"
    )
    assert "has 1 rank: --p 4 contradicts it" in command("validate", str(path), "--p", "4").stderr


LOGS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "binary": (bytes(range(256)) * 8, "binary"),
    "without a table": (b"srun: job 17 started\nsrun: job 17 ended\n", "no nccl-tests table"),
    "cut short": (
        b"#       size  count  type  redop  root  time  algbw  busbw  #wrong\n",
        "cut short",
    ),
    "a CSV without rows": (b"size_bytes,time_us\n", "no rows"),
    "a CSV with words": (b"size_bytes,time_us\n1024,soon\n", "'soon' is not a number"),
    "a CSV of one size": (
        b"collective,ranks,size_bytes,time_us\nall_reduce,4,1024,10\n",
        "too few sizes to fit, 1",
    ),
    "a CSV that does not say how many ranks": (
        b"collective,size_bytes,time_us\nall_reduce,1,9\n",
        "give --p",
    ),
}


@pytest.mark.parametrize(("content", "said"), LOGS.values(), ids=LOGS.keys())
def test_a_log_that_is_none_gets_one_line(
    content: bytes, said: str, command: Simctl, tmp_path: Path
) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(content)
    done = command("validate", str(path), "--fit", "--plot", str(tmp_path / "fit.png"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["job.log"], "no picture of nothing"


def test_alone_it_shows_its_help() -> None:
    done = simctl()
    assert done.returncode == 0
    assert "sweep" in done.stdout


def test_a_terminal_without_greek_gets_the_numbers_all_the_same() -> None:
    script = "from experiments.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "run", "--p", "4"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        check=True,
    )
    assert "\\u03b1" in done.stdout


def test_an_output_that_cannot_be_written_gets_one_line() -> None:
    shell = (
        f'{sys.executable} -c "from experiments.cli import main; main()" sweep --p 2 > /dev/full'
    )
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["simctl: cannot write the output: No space left on device"]


def test_an_interruption_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments import cli

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    monkeypatch.setattr("warnings.showwarning", None)
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 130


def test_a_file_that_cannot_be_opened_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from experiments import cli

    def denied(**_: object) -> None:
        raise PermissionError(13, "Permission denied", "closed/log.csv")

    monkeypatch.setattr(cli, "app", denied)
    monkeypatch.setattr("warnings.showwarning", None)
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert (stop.value.code, capsys.readouterr().err) == (
        2,
        "simctl: cannot open 'closed/log.csv': Permission denied\n",
    )


def test_a_broken_pipe_is_quiet() -> None:
    shell = f'{sys.executable} -c "from experiments.cli import main; main()" algos | head -1'
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_a_number_of_ranks_that_an_algorithm_cannot_take_is_skipped_and_named() -> None:
    done = simctl(
        "sweep",
        "--algo",
        "nvls",
        "--topology",
        "hgx_h100:nodes=2",
        "--p",
        "8,9,16",
        "--format",
        "csv",
    )
    assert done.returncode == 0
    assert [row["ranks"] for row in csv.DictReader(io.StringIO(done.stdout))] == ["8", "16"]
    assert (
        "note: skipped nvls, 9 ranks: nvls: 8 ranks on one switch and 1 on another" in done.stderr
    )
    alone = simctl("sweep", "--algo", "nvls", "--topology", "hgx_h100:nodes=2", "--p", "9")
    assert alone.returncode == 2
    assert len(alone.stderr.splitlines()) == 1


def test_one_rank_a_node_takes_the_steps_that_are_counted() -> None:
    line = [
        "run",
        "--algo",
        "nvls",
        "--p",
        "4",
        "--topology",
        "hgx_h100:nodes=4",
        "--placement",
        "round-robin",
    ]
    assert simctl(*line).returncode == 0


def test_a_machine_is_exported_changed_and_used(command: Simctl, tmp_path: Path) -> None:
    assert command("topo", "import", "dgx1", "--out", "dgx1.yaml", cwd=tmp_path).returncode == 0
    text = (tmp_path / "dgx1.yaml").read_text()
    (tmp_path / "slow.yaml").write_text(text.replace("40GB/s", "20GB/s"))
    times = [
        json.loads(
            command("run", "--p", "8", "--topology", name, "--format", "json", cwd=tmp_path).stdout
        )
        for name in ("dgx1", "./dgx1.yaml", "./slow.yaml")
    ]
    built, read, slow = (report["summary"]["time_s"] for report in times)
    assert built == read < slow


def test_options_that_fit_no_two_ranks_are_fine(tmp_path: Path) -> None:
    assert simctl("sweep", "--topology", "torus:dims=4x4", "--p", "16").returncode == 0
    assert simctl(
        "run", "--algo", "parameter_server_apart", "--topology", "dgx1", "--p", "8"
    ).stdout.count("server: cpu0")
