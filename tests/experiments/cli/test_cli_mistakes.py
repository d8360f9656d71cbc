"""Mistakes on the command line: one line, an exit code, and nothing half-written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simctl_process import Simctl, mistake

ROOT = Path(__file__).parents[3]
LOG = ROOT / "examples" / "h100_10_nodes_all_reduce.csv"
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
    "size in seconds": (("sweep", "--size", "64s"), "its unit is 's', write it in B, like 64MiB"),
    "latency in bits": (("sweep", "--latency", "5b"), "write it in s, like 25us"),
    "bandwidth in meters": (
        ("sweep", "--bandwidth", "5m"),
        "write it in B/s or bit/s, like 50GB/s",
    ),
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
    "a way through no folder": (
        ("sweep", "--p", "2", "--out", "none/../x.csv"),
        "cannot write 'none/../x.csv': name a file in a folder that can be written",
    ),
    "traces by way of no folder": (
        ("train", "--timeline", "none/../x"),
        "cannot write 'none/../x': name a folder that can be written",
    ),
    "a table for another program": (
        ("sweep", "--p", "2", "--out", "x.xlsx"),
        "cannot write 'x.xlsx': its name ends in .csv, .parquet",
    ),
    "no result of a sweep": (("sweep", "--p", "2", "--out", "x.json"), "ends in .csv, .parquet"),
    "a plan's table": (
        ("plan", "--model", "llama3_8b", "dp=2", "--out", "x.xlsx"),
        "cannot write 'x.xlsx': its name ends in .csv, .parquet, .json",
    ),
    "a table without an ending": (("train", "--p", "2", "--out", "x"), "its name ends in .csv, "),
    "measured points of no csv": (("measure", "--p", "2", "--out", "x.json"), "ends in .csv"),
    "metric of no picture": (
        ("sweep", "--p", "2", "--metric", "busbw"),
        "--metric busbw: only a picture shows it",
    ),
    "unknown picture": (("sweep", "--p", "2", "--plot", "x.gif"), ".png, .svg, .pdf"),
    "measured without a picture": (("sweep", "--measured", "a.log"), "give --plot too"),
    "ranks of no trace": (("run", "--ranks", "0-3"), "--ranks 0-3: there is no trace, take --tim"),
    "ranks of a picture": (
        ("run", "--ranks", "transfers=no", "--timeline", "x.png"),
        "--ranks transfers=no: pictures have all ranks, take --timeline FILE.json",
    ),
    "ranks beyond the run": (
        ("run", "--p", "4", "--ranks", "0-3,4", "--timeline", "x.json"),
        "--ranks 0-3,4: rank 4 is not in the trace, which has 4 ranks, 0 to 3",
    ),
    "ranks that are no list": (
        ("train", "--ranks", "0;1", "--timeline", "x.json"),
        "--ranks: '0;1' is no rank or range: write 0-7, 0-14:2 or 0,8",
    ),
    "transfers of Kineto traces": (
        ("train", "--ranks", "transfers=no", "--timeline", "x"),
        "--ranks transfers=no: Kineto traces never have transfers, leave it out",
    ),
    "ranks of Chakra traces": (
        ("train", "--ranks", "0", "--timeline", "x.chakra"),
        "--ranks 0: Chakra traces have all of a run, leave it out",
    ),
    "picture nowhere": (("run", "--timeline", "/none/x.png"), "cannot write"),
    "several ranks for run": (("run", "--p", "2..4"), "one number of ranks"),
    "two algorithms for run": (("run", "--algo", "ring,tree"), "one algorithm here"),
    "an algorithm and a collective": (
        ("sweep", "--algo", "ring", "--collective", "reduce"),
        "--algo ring and --collective reduce: leave one of them out",
    ),
    "unknown collective": (
        ("list", "algos", "--collective", "brodcast"),
        "did you mean 'broadcast'?",
    ),
    "a root that is not there": (
        ("run", "--algo", "tree_broadcast", "--p", "4", "--root", "4"),
        "the root is 4: 4 ranks run from 0 to 3",
    ),
    "a root of a collective without": (
        ("run", "--root", "1"),
        "--root 1: ring is all_reduce, which has no root",
    ),
    "skew of equal parts": (
        ("run", "--algo", "ring", "--skew", "zipf:1.2"),
        "--skew zipf:1.2: ring has parts of equal sizes: choose one of ring_all_gatherv,",
    ),
    "an unknown skew": (("run", "--skew", "pareto:1"), "expected zipf:EXPONENT, like zipf:1.2"),
    "a skew without a number": (("run", "--skew", "zipf:much"), "'much' is not a number"),
    "a skew too steep": (("run", "--skew", "zipf:11"), "the exponent is 11, expected 0 to 10"),
    "a skew with another option": (("run", "--skew", "zipf:1,sed=2"), "did you mean 'seed'?"),
    "a skew and a matrix": (
        ("run", "--skew", "zipf:1", "--matrix", "m.csv"),
        "--skew zipf:1 and --matrix m.csv: leave one of them out",
    ),
    "a skew with two seeds": (("run", "--skew", "zipf:1,seed=2,seed=3"), "seed is given twice"),
    "no matrix": (("run", "--matrix", "none.csv"), "none.csv"),
    "a group of one": (("run", "--groups", "0-3;4"), "call 1: ranks [4]: a group has 2 or more"),
    "no groups": (("run", "--groups", ""), "a group is empty: write ranks like 0-7;8-15"),
    "ranks that are none": (("run", "--groups", "a-b"), "'a-b' is no rank or range: write 0-7"),
    "ranks backwards": (("run", "--groups", "7-0"), "'7-0' runs backwards: write 0-7"),
    "a step of nothing": (("run", "--groups", "0-7:0"), "'0-7:0': ranks are at most 1048576, a"),
    "a group's two sizes": (
        ("run", "--groups", "0-3 1MiB 2MiB"),
        "--groups: 2MiB: the size is given twice",
    ),
    "a group beyond the ranks": (
        ("run", "--groups", "0-7", "--p", "4"),
        "call 0: rank 7: 4 ranks run from 0 to 3",
    ),
    "a group's unknown algorithm": (("run", "--groups", "0-3 rnig"), "did you mean 'ring'?"),
    "a group's stream": (
        ("run", "--groups", "0-3 stream=x"),
        "stream=x: 'x' is not a whole number",
    ),
    "a root that is no rank": (
        ("run", "--algo", "tree_broadcast", "--root", "x"),
        "--root 'x': expected a whole number from 0",
    ),
    "no processes": (
        ("sweep", "--jobs", "0"),
        "--jobs 0: expected 1 to 1024 processes",
    ),
    "a group that waits for a later one": (
        ("run", "--groups", "0-3 after=1;0-3"),
        "call 0: it waits for [1]: earlier calls alone",
    ),
    "groups under a profile": (
        ("run", "--groups", "0-3", "--profile", "mn5_acc"),
        "--groups and --profile mn5_acc: leave one of them out",
    ),
    "groups of a library": (
        ("run", "--groups", "0-3", "--library", "nccl"),
        "--groups and --library nccl: leave one of them out",
    ),
    "a library and a profile": (
        ("sweep", "--library", "openmpi", "--profile", "mn5_acc"),
        "--library openmpi and --profile mn5_acc: leave one of them out",
    ),
    "a library on links with a latency": (
        ("recommend", "--library", "nccl", "--latency", "1us"),
        "--latency 1us: --library nccl has its own, leave one of the two out",
    ),
    "a tolerance under fifo": (
        ("run", "--sharing", "fifo:tolerance=1e-3"),
        "--sharing 'fifo:tolerance=1e-3': choose one of fifo, store-and-forward, fair and "
        "fair:tolerance=1e-3",
    ),
    "a tolerance of nothing": (
        ("run", "--sharing", "fair:x"),
        "--sharing 'fair:x': expected a tolerance from 1e-9 to 0.1",
    ),
    "a large tolerance": (
        ("run", "--sharing", "fair:tolerance=0.5"),
        "--sharing 'fair:tolerance=0.5': expected a tolerance from 1e-9 to 0.1",
    ),
    "a tolerance in training": (
        ("train", "--sharing", "fair:tolerance=1e-3", "--p", "2"),
        "--sharing fair:tolerance=0.001: training is simulated exactly: write --sharing fair",
    ),
    "no log": (("validate", "none.log"), "none.log"),
    "log is a folder": (("validate", "/"), "/"),
    "algorithm for another collective": (
        ("validate", str(LOG), "--algo", "ring_all_gather"),
        "no curve to simulate by ring_all_gather, which is all_gather: choose another algorithm",
    ),
    "too many ranks": (("run", "--p", "10000000"), "at most 1048576"),
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
    "a value of two lines": (
        ("diagnose", str(LOG), "--job", "--profile", "a\nb"),
        "--profile a b: leave one of them out",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD.keys())
def test_a_mistake_gets_one_line_and_exit_code_2(
    arguments: tuple[str, ...], message: str, command: Simctl, tmp_path: Path
) -> None:
    assert message in mistake(command(*arguments, cwd=tmp_path))
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
