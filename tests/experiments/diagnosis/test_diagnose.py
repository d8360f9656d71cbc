"""The command: tables, exit codes, pictures, and one line for a mistake."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import nccl_logs
from experiments.commands.diagnose import Diagnose
from experiments.measurements import Curve, read, write_runs
from experiments.measurements.curve import NO_FOOTER
from experiments.options.options import Format
from grouped_cases import each_case
from topologies.errors import InputError

ROOT = Path(__file__).parents[3]
LOG = ROOT / "examples" / "h100_10_nodes_all_reduce.csv"

Spoil = Callable[[Curve, Iterable[int], float], Curve]


def run(*logs: Path, plot: Path | None = None, how: str = "table", **options: Any) -> int:
    return Diagnose(logs=list(logs), plot=plot, format=cast(Format, how), **options).run()


@pytest.fixture
def files(tmp_path: Path, healthy: Curve, spoil: Spoil) -> tuple[Path, Path]:
    """A healthy run and one with a bump."""
    good, bad = tmp_path / "net_set4_ar_p16.csv", tmp_path / "net_set5_ar_p16.csv"
    good.write_text(write_runs([healthy]).replace("healthy_ar_p16.csv", good.name))
    bad.write_text(
        write_runs([spoil(healthy, range(10, 15), 6)]).replace("healthy_ar_p16.csv", bad.name)
    )
    return good, bad


def test_the_example_gives_what_ten_nodes_of_one_gpu_should(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(LOG, topology="hgx_h100:nodes=10", placement="round-robin", how="json") == 0
    (curve,) = json.loads(capsys.readouterr().out)["curves"]
    assert not curve["abnormal"]
    assert curve["points"][-1]["fraction"] == pytest.approx(1.091, abs=0.03)


def test_a_file_that_knows_no_nodes_is_not_blamed_for_a_guess(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(LOG, topology="hgx_h100") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "if the ranks fill 2 nodes one after the other (else: --placement)" in printed


def test_a_bump_is_named_and_the_exit_code_is_1(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(files[1]) == 1
    printed = capsys.readouterr().out
    assert "abnormal: bump, 8KiB to 128KiB" in printed
    assert "try: " in printed
    assert run(files[0]) == 0


def test_two_files_are_compared(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*files) == 1
    assert "set5 is slower than set4: 6 times at 8KiB to 128KiB" in capsys.readouterr().out


def test_the_first_line_counts_what_the_exit_code_stands_for(
    tmp_path: Path, healthy: Curve, spoil: Spoil, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, factor in (("a_ar_p16", 1.0), ("b_ar_p16", 2.0)):
        text = write_runs([spoil(healthy, range(28), factor)])
        (tmp_path / f"{name}.csv").write_text(text.replace("healthy_ar_p16", name))
    assert run(tmp_path) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first.endswith(": 0 of 2 curves abnormal, 1 difference between set-ups")


def test_a_folder_prints_a_line_a_curve(
    tmp_path: Path, healthy: Curve, capsys: pytest.CaptureFixture[str]
) -> None:
    for ranks in range(2, 8):
        text = write_runs([replace(healthy, device="")]).replace(",16,4,", f",{ranks},1,")
        (tmp_path / f"made_ar_p{ranks}.csv").write_text(text)
    assert run(tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.endswith("healthy")]) == 6
    assert lines[0].endswith(": 0 of 6 curves abnormal")


def test_csv_and_json_hold_every_point(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run(files[1], how="csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 28
    assert [row["abnormal"] for row in rows[9:16]] == ["", *["bump"] * 5, ""]
    run(*files, how="json")
    record = json.loads(capsys.readouterr().out)
    assert [curve["abnormal"] for curve in record["curves"]] == [False, True]
    assert record["curves"][1]["findings"][0]["sizes_B"][0] == 8192
    assert record["differences"][0]["factor"] == pytest.approx(6 ** (5 / 28))


def test_one_point_is_not_judged_and_one_that_cannot_be_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one_ar_p4.csv"
    path.write_text("size_bytes,time_us\n4,0.005\n")
    assert run(path, path, topology="star", plot=tmp_path / "one.svg") == 0
    output = capsys.readouterr()
    assert "all_reduce, 4 ranks, one_ar_p4.csv: faster than the links allow\n" in output.out
    assert output.out.startswith("Diagnosis of one_ar_p4.csv: 0 of 1 curve abnormal\n")
    assert f"note: skipped {path}: given twice, counted once\n" in output.err
    assert "note: one_ar_p4.csv, row of 4B: it takes 5ns, which is impossible" in output.err


def test_a_test_that_died_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.log"
    path.write_text(nccl_logs.log() + "\n".join(nccl_logs.preamble()) + "\n")
    assert run(path) == 1
    printed = capsys.readouterr().out
    assert "job.log:11: healthy" in printed
    assert "abnormal: test died, job.log:30: all_reduce has a table header and no rows" in printed
    assert printed.startswith("Diagnosis of job.log: 0 of 1 curve abnormal, 1 failure of tests\n")
    run(path, how="json")
    (failure,) = json.loads(capsys.readouterr().out)["failures"]
    assert failure["kind"] == "test died"
    run(path, how="csv")
    last = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))[-1]
    assert (last["abnormal"], last["size_B"], last["source"]) == ("test died", "", f"{path}:30")


def test_a_footer_that_is_missing_is_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.log"
    path.write_text("\n".join([*nccl_logs.preamble(), *nccl_logs.rows()]) + "\n")
    assert run(path) == 0
    assert f"  note: {NO_FOOTER}\n" in capsys.readouterr().out
    run(path, how="json")
    assert json.loads(capsys.readouterr().out)["curves"][0]["notes"] == [NO_FOOTER]
    path.write_text("\n".join([*nccl_logs.preamble(), *nccl_logs.rows()[:3]]) + "\n")
    assert run(path) == 1
    printed = capsys.readouterr().out
    assert (
        "abnormal: test died, job.log:11: all_reduce ended after 128KiB of 16MiB, and the log "
        "ends there" in printed
    )
    assert NO_FOOTER not in printed, "the finding says so already"


@pytest.mark.parametrize("how", ["table", "csv", "json"])
def test_a_log_of_a_dead_test_alone_is_judged(
    tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.log"
    path.write_text("\n".join(nccl_logs.preamble()) + "\n")
    assert run(path, how=how) == 1
    assert "test died" in capsys.readouterr().out


def test_processes_that_were_no_job_are_one_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = nccl_logs.log(ranks=1).replace("  12.5", "   0").splitlines()
    second = [line.replace("Pid   4200", "Pid   4300") for line in lines]
    path = tmp_path / "job.log"
    path.write_text(
        "\n".join(line for pair in zip(lines, second, strict=True) for line in pair) + "\n"
    )
    assert run(path) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("abnormal: ") == 1
    assert (
        "2 processes of 1 rank each and no job of 2: nccl-tests was built or started without MPI"
        in printed
    )
    assert "try: build nccl-tests with make MPI=1" in printed


def test_a_latency_and_a_bandwidth_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "osu.txt"
    latency = (
        "# OSU MPI Latency Test v7.4\n# Size          Latency (us)\n1024                    2.00\n"
    )
    bandwidth = (
        "# OSU MPI Bandwidth Test v7.4\n# Size      Bandwidth (MB/s)\n1024                 "
        "3000.00\n"
    )
    path.write_text(latency + bandwidth)
    assert run(path) == 0
    printed = capsys.readouterr().out
    assert "send_recv, latency, 2 ranks, osu.txt:2: " in printed
    assert "send_recv, bandwidth, 2 ranks, osu.txt:5: " in printed


def test_a_picture_is_drawn_a_curve(files: tuple[Path, Path], tmp_path: Path) -> None:
    run(files[1], topology="star", plot=tmp_path / "one.svg")
    assert (tmp_path / "one.svg").read_text().count("<svg") == 1
    run(*files, plot=tmp_path / "many.png")
    assert all((tmp_path / f"many-{k}.png").read_bytes().startswith(b"\x89PNG") for k in (1, 2))


@pytest.mark.parametrize("topology", ["hgx_h100", "hgx_h100:nodes=10", "hgx_h100:nics=8"])
def test_ranks_are_where_the_file_says(
    tmp_path: Path, topology: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten nodes of one GPU have a NIC each, and ten GPUs of two nodes would have NVLink."""
    path = tmp_path / "ten_ar_p10.csv"
    path.write_text(write_runs([replace(read(LOG).curves[0], nodes=10)]))
    assert run(path, topology=topology) == 0
    assert "48.89GB/s a node: 98% of 1 x ib link at 50GB/s, the limit" in capsys.readouterr().out


@each_case(
    "text", ["", "size_bytes,time_us\n", "size_bytes,time_us\n8,abc\n", "\0" * 99, "no table"]
)
def test_a_broken_file_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        run(path)
    assert "\n" not in str(error.value)


def test_other_mistakes_are_one_line(files: tuple[Path, Path], tmp_path: Path) -> None:
    mistakes: list[dict[str, Any]] = [
        {"p": "8"},
        {"in_place": True},
        {"plot": tmp_path / "a.gif"},
        {"topology": "hgx_h100:nodes=1"},
        {"family": "F01"},
    ]
    for mistake in mistakes:
        with pytest.raises(InputError) as error:
            run(files[0], **mistake)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="nowhere"):
        run(tmp_path / "nowhere.log")


def test_the_command_line_exits_with_what_was_found(files: tuple[Path, Path]) -> None:
    script = "from experiments.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "diagnose", str(files[1])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "bump" in done.stdout
    assert done.stderr.startswith("note: nccl on machines like this: ")
