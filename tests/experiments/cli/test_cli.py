"""The command line as a user meets it: tables, files, pictures, notes."""

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


def test_a_root_is_part_of_the_title(command: Simctl) -> None:
    line = ("--algo", "tree_broadcast", "--p", "4", "--root", "3", "--topology", "star")
    title = "\n\ntree_broadcast, 4 ranks, 64MiB from root 3 on star"
    assert title in command("run", *line).stdout
