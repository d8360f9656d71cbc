"""The command line as a user runs it, and what ends a command."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from csv_texts import rows_of
from simctl_process import Simctl, mistake, simctl

ROOT = Path(__file__).parents[3]
LOG = ROOT / "examples" / "h100_10_nodes_all_reduce.csv"


def test_sweep_prints_a_row_a_point_and_succeeds(command: Simctl) -> None:
    done = command(
        "sweep", "--algo", "ring,naive", "--p", "2..4", "--size", "1MiB,1GiB", "--topology", "star"
    )
    machine, table, *_ = done.stdout.split("\n\n")
    lines = table.splitlines()
    assert done.returncode == 0
    assert machine.startswith("machine: star (every rank on one non-blocking switch), links of")
    assert len(lines) == 1 + 2 * 3 * 2
    assert all(line.endswith(" ok") for line in lines[1:])
    assert len({len(line.rpartition("  ")[0]) for line in lines}) == 1, "columns are aligned"


def test_sweep_writes_csv_with_its_provenance(command: Simctl, tmp_path: Path) -> None:
    done = command("sweep", "--p", "4", "--out", "sweep.csv", "--format", "csv", cwd=tmp_path)
    assert done.returncode == 0
    written = (tmp_path / "sweep.csv").read_text()
    assert written == done.stdout
    row = rows_of(written)[0]
    # 2(p-1)(2α + V/(pβ)): a route of the default machine, a star, has two links
    assert float(row["time_s"]) == pytest.approx(6 * (2e-6 + 2**26 / 4 / 50e9), rel=1e-9)
    assert row["verdict"] == "ok"
    provenance = json.loads((tmp_path / "sweep.csv.meta.json").read_text())
    assert provenance["parameters"]["bandwidth"] == "50GB/s"
    assert set(provenance["versions"]) >= {"simctl-collectives", "numpy"}
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
    assert [line.split()[0] for line in lines[6:9]] == ["32MiB", "64MiB", "1GiB"]


def test_the_end_that_a_range_leaves_out_is_noted_once(tmp_path: Path) -> None:
    messages = ["note: 2..5:x2 ends at 4: 5 is left out, 2..5:x2,5 has it too"]
    assert simctl("sweep", "--p", "2..5:x2").stderr.splitlines() == messages
    line = ("train", "--topology", "star", "--p", "2..5:x2", "--out", "scaling.csv")
    assert simctl(*line, cwd=tmp_path).stderr.splitlines() == messages
    assert (
        "counts" not in json.loads((tmp_path / "scaling.csv.meta.json").read_text())["parameters"]
    )


def test_doctor_names_versions_and_folders() -> None:
    done = simctl("doctor")
    assert done.returncode == 0
    for word in ("numba", "experiments", "compiled code"):
        assert word in done.stdout


def test_json_is_json(command: Simctl) -> None:
    rows = json.loads(command("sweep", "--p", "2", "--format", "json").stdout)
    assert rows[0]["ranks"] == 2
    assert (
        json.loads(command("run", "--p", "4", "--format", "json").stdout)["summary"]["steps"] == 6
    )
    assert {
        entry["algorithm"]
        for entry in json.loads(command("list", "algos", "--format", "json").stdout)
    } >= {"ring", "tree"}


def test_run_explains_all_of_the_time(command: Simctl) -> None:
    options = ("--topology", "star", "--p", "4", "--latency", "0s")
    line = ("run", "--algo", "parameter_server", *options)
    report = json.loads(command(*line, "--format", "json").stdout)
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
    assert "switch->gpu0  " in command(*line).stdout.partition("Contention: waiting behind")[2]


def test_rings_at_full_use_of_their_links_have_no_contention(command: Simctl) -> None:
    machine = ("--topology", "hgx_h100:nodes=2", "--p", "16")
    report = json.loads(command("run", "--algo", "rings", *machine, "--format", "json").stdout)
    assert report["contention"] == []
    assert report["critical_path_s"]["contention"] == 0


def test_validate_fits_and_shows_unseen_sizes(command: Simctl) -> None:
    result = json.loads(command("validate", str(LOG), "--fit", "--format", "json").stdout)[0]
    assert [point["fitted"] for point in result["points"]] == [True, False] * 5
    assert result["mean_abs_error"]["unseen"] < 0.02
    assert 48e9 < result["fit"]["bandwidth"] < 50e9


def test_validate_without_a_fit_predicts_every_size(command: Simctl) -> None:
    done = command("validate", str(LOG), "--bandwidth", "49GB/s", "--latency", "5us")
    assert done.returncode == 0
    assert "|error| of 10 sizes" in done.stdout


def test_validate_says_that_nobody_named_the_machine(command: Simctl) -> None:
    words = "The links of star have the default bandwidth 50GB/s"
    assert words in command("validate", str(LOG)).stdout
    for options in (["--fit"], ["--bandwidth", "49GB/s"], ["--topology", "star:latency=2us"]):
        assert words not in command("validate", str(LOG), *options).stdout


def test_validate_takes_latencies_of_pairs_for_a_ping_pong(command: Simctl, tmp_path: Path) -> None:
    """A user may compare them with a shift, in which one rank of a node sends to another."""
    log = tmp_path / "multi.out"
    log.write_text(
        "$ srun -N 2 -n 8 ./osu_multi_lat\n# OSU MPI Multi Latency Test v7.4\n"
        "# Size          Latency (us)\n4194304                 357.00\n"
    )
    machine = ("--topology", "nodes:per_node=4,bandwidth=25GB/s,latency=0s", "--format", "json")
    for options, algorithm, factor in (((), "ping_pong", 2), (("--algo", "shift"), "shift", 1)):
        (result,) = json.loads(command("validate", str(log), *machine, *options).stdout)
        assert result["algorithm"] == algorithm
        assert result["points"][0]["predicted_s"] == pytest.approx(factor * 4194304 / 25e9)
    refused = mistake(command("validate", str(log), "--algo", "ring"))
    assert "by ring, which is all_reduce: choose another algorithm" in refused


def test_pictures_are_written(command: Simctl, tmp_path: Path) -> None:
    commands = {
        "sweep.png": ("sweep", "--p", "2..4", "--plot"),
        "busbw.svg": ("sweep", "--p", "2..4", "--metric", "busbw", "--plot"),
        "log.png": ("sweep", "--p", "10", "--size", "32MiB", "--measured", str(LOG), "--plot"),
        "run.pdf": ("run", "--p", "4", "--timeline"),
        "run.json": ("run", "--p", "4", "--timeline"),
        "fit.png": ("validate", str(LOG), "--fit", "--plot"),
    }
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".json": b"{"}
    for name, line in commands.items():
        assert command(*line, name, cwd=tmp_path).returncode == 0
        assert (tmp_path / name).read_bytes().startswith(starts[Path(name).suffix])


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


def test_a_number_of_ranks_that_an_algorithm_cannot_take_is_skipped_and_named(
    command: Simctl,
) -> None:
    sweep = ("sweep", "--algo", "nvls", "--topology", "hgx_h100:nodes=2", "--p")
    done = command(*sweep, "8,9,16", "--format", "csv")
    assert done.returncode == 0
    assert [row["ranks"] for row in rows_of(done.stdout)] == ["8", "16"]
    assert (
        "note: skipped nvls, 9 ranks: nvls: 8 ranks on one switch and 1 on another" in done.stderr
    )
    mistake(command(*sweep, "9"))


def test_one_rank_a_node_takes_the_steps_that_are_counted(command: Simctl) -> None:
    machine = ("--topology", "hgx_h100:nodes=4", "--placement", "round-robin")
    assert command("run", "--algo", "nvls", "--p", "4", *machine).returncode == 0


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


def test_options_that_fit_no_two_ranks_are_fine(command: Simctl, tmp_path: Path) -> None:
    assert command("sweep", "--topology", "torus:dims=4x4", "--p", "16").returncode == 0
    assert command(
        "run", "--algo", "parameter_server_apart", "--topology", "dgx1", "--p", "8"
    ).stdout.count("server: cpu0")


def test_a_collective_is_swept_by_all_of_its_algorithms(command: Simctl) -> None:
    line = ("--collective", "all-to-all", "--p", "4", "--topology", "star", "--format", "json")
    rows = json.loads(command("sweep", *line).stdout)
    listed = json.loads(
        command("list", "algos", "--collective", "all_to_all", "--format", "json").stdout
    )
    assert {row["algorithm"] for row in rows} == {entry["algorithm"] for entry in listed}
    assert {"pairwise", "gloo_all_to_all"} <= {entry["algorithm"] for entry in listed}


def test_the_algorithm_is_a_word(command: Simctl) -> None:
    for name in ("run", "sweep"):
        word = command(name, "tree", "--p", "4", "--size", "1KiB")
        assert word.returncode == 0
        assert word.stdout == command(name, "--algo", "tree", "--p", "4", "--size", "1KiB").stdout


def test_a_root_is_part_of_the_title(command: Simctl) -> None:
    line = ("--algo", "tree_broadcast", "--p", "4", "--root", "3", "--topology", "star")
    title = "\n\ntree_broadcast, 4 ranks, 64MiB from root 3 on star"
    assert title in command("run", *line).stdout


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


@pytest.mark.parametrize(("content", "message"), LOGS.values(), ids=LOGS.keys())
def test_a_log_that_is_none_gets_one_line(
    content: bytes, message: str, command: Simctl, tmp_path: Path
) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(content)
    assert message in mistake(
        command("validate", str(path), "--fit", "--plot", str(tmp_path / "fit.png"))
    )
    assert [file.name for file in tmp_path.iterdir()] == ["job.log"], "no picture of nothing"


def test_an_output_that_cannot_be_written_gets_one_line() -> None:
    shell = (
        f'{sys.executable} -c "from experiments.cli import main; main()" sweep --p 2 > /dev/full'
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["sh", "-c", shell], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["simctl: cannot write the output: No space left on device"]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, ""),
        (
            PermissionError(13, "Permission denied", "closed/log.csv"),
            2,
            "simctl: cannot open 'closed/log.csv': Permission denied\n",
        ),
    ],
    ids=["an interruption", "a file that cannot be opened"],
)
def test_what_ends_a_command_is_no_traceback(
    error: BaseException,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from experiments import cli

    def ended(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "_command", lambda: ended)
    monkeypatch.setattr("warnings.showwarning", None)
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert (stop.value.code, capsys.readouterr().err) == (code, message)
