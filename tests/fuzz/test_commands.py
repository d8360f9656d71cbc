"""Random command lines: an exit code of 0, 1 or 2, one line for a mistake, and never a
traceback."""

import logging
import shlex
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import chakra_files
import file_seeds
import msccl_texts
import pretended_ranks
from command_lines import annotation, command_line, commands, value_of
from command_runs import Done, mistakes, run
from costs import counted
from fuzz_findings import Finding, Request
from grouped_cases import each_case

SHARES = {
    ("run",): 0.2,
    ("sweep",): 0.18,
    ("train",): 0.2,
    ("topo", "show"): 0.1,
    ("validate",): 0.09,
    ("diagnose",): 0.05,
    ("topo", "import"): 0.05,
    ("calibrate",): 0.02,
    ("report",): 0.03,
    ("measure",): 0.03,
    ("profile-model",): 0.01,
}
"""Of the count; commands that only list something have the smallest."""
FITS = (("calibrate",), ("validate",))
"""Commands that fit may take longer: of these the memory alone is judged."""
LEAST = 0.005
FEW = 120
MODULE = """
from torch import nn
Net = lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
make = nn.Linear(4, 4)
wrong = 3
"""
PAIRS = "collective,ranks,nodes,size_bytes,time_us,library\n" + "".join(
    f"send_recv,2,2,{4**k},{3 + 4**k / 12000:.3f},MPI 1\n" for k in range(4, 12)
)
INDEX = (
    "case,family,collective,ranks,nodes\none,F01 one,all_reduce,4,4\ntwo,F02 other,all_reduce,4,4\n"
)
SMALL = "collective,algorithm,ranks,nodes,size_bytes,time_us,library\n" + "".join(
    f"all_reduce,ring,{p},{p},{size},{5 + 2 * (p - 1) * (3 + size / p / 2000):.3f},MPI 1\n"
    for p in (2, 4)
    for size in (4**k for k in range(4, 12))
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files that command lines name, with ranks that only pretend to measure."""
    for reader, names in {
        "measurements": ("log.txt", "latency.txt", "runs.csv", "both.log", "all.json"),
        "topology": ("machine.yaml", "machine.json", "machine.graphml"),
        "model": ("trace.json", "model.json"),
        "noise": ("noise.txt",),
        "sizes": ("sizes.csv", "chunks.csv"),
    }.items():
        for seed in file_seeds.seeds(reader):
            if seed.name in names and not (tmp_path / seed.name).exists():
                (tmp_path / seed.name).write_bytes(seed.data)
    root = file_seeds.ROOT
    for source, name in {
        "examples/h100_10_nodes_all_reduce.csv": "h100.csv",
        "examples/two_layer_model.yaml": "model.yaml",
        "examples/middle.py": "middle.py",
        "experiments/profiles/mn5_acc.yaml": "profile.yaml",
        "tests/topologies/readers/data/nccl_hgx.xml": "nccl.xml",
        "tests/topologies/readers/data/smi_cube_mesh.txt": "topo.txt",
    }.items():
        (tmp_path / name).write_bytes((root / source).read_bytes())
    for name, text in {
        "module.py": MODULE,
        "ring.xml": msccl_texts.SHAPES["ring"],
        "small.csv": SMALL,
        "pairs.csv": PAIRS,
        "pipeline.csv": "0F0,0B0\n1F0,1B0\n",
        "points.csv": "isl,osl,concurrency,ttft_ms,tpot_ms\n1024,1024,8,100,10\n",
        "steps.csv": 'model,plan,seconds\ngpt2:layers=2,"dp=2,micro=1",0.05\n',
        "empty.txt": "",
        "=1\x1b[2J.csv": SMALL,
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.bin").write_bytes(bytes(range(256)))
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "families").mkdir()
    (tmp_path / "families" / "index.csv").write_text(INDEX)
    for name in ("one.csv", "two.csv"):
        (tmp_path / "families" / name).write_text(SMALL)
    chakra_files.folder(
        tmp_path / "workload",
        [[chakra_files.collective(0, 0, 4096), chakra_files.compute(1, 5)]] * 2,
    )
    (tmp_path / "logs").mkdir()
    for name in ("log.txt", "h100.csv"):
        (tmp_path / "logs" / name).write_bytes((tmp_path / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    pretended_ranks.pretend(monkeypatch)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    logger, path = logging.getLogger("simctl"), list(sys.path)
    level = logger.level
    yield tmp_path
    logger.setLevel(level)
    sys.path[:] = path


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_a_command_line_succeeds_or_is_refused(
    path: tuple[str, ...], folder: Path, fuzz: Request
) -> None:
    share = SHARES.get(path, LEAST)
    warm(folder, torch=path == ("profile-model",))
    outcomes, wrong = Counter[int](), list[Finding]()
    before = {file.name for file in folder.iterdir()}
    for number in range(fuzz.share(share, max(2, round(FEW * share)))):
        words = command_line(path, Random(f"{fuzz.seed} {' '.join(path)} {number}"))
        with counted() as cost:
            done = run(words)
        outcomes[done.code] += 1
        wrong += [Finding(shlex.join(words), kind, report(done)) for kind in mistakes(done)]
        if fuzz.limits and (excess := cost.excess(timed=path not in FITS)):
            wrong.append(Finding(shlex.join(words), "too dear", excess))
        left = [file for file in folder.iterdir() if file.name not in before]
        if done.code == 2 and not done.is_partial and left and path != ("measure",):
            wrong.append(Finding(shlex.join(words), "a file is left behind", left[0].name))
        for file in left:
            if file.is_dir():
                shutil.rmtree(file)
            else:
                file.unlink()
    fuzz.say(f"simctl {' '.join(path)}: {dict(outcomes)}")
    assert not wrong, Finding.listed(wrong)


def report(done: Done) -> str:
    """What was printed, short enough to be looked at."""
    return f"{done.code}, {done.err[-300:]!r}"


def warm(folder: Path, torch: bool) -> None:
    """Load what is loaded once: no command line is to blame for that."""
    if torch:
        run(["profile-model", "module.py:Net", "--input", "2x4", "--steps", "1"])
    import matplotlib.figure  # noqa: F401

    for sharing in ("fifo", "fair"):
        run(
            [
                "run",
                "--engine",
                "compiled",
                "--sharing",
                sharing,
                "--timeline",
                str(folder / "warm.png"),
            ]
        )
    (folder / "warm.png").unlink()


@each_case("path", commands())
def test_every_option_has_values(path: tuple[str, ...]) -> None:
    """A new option has to get some in `command_values`."""
    for parameter in commands()[path]:
        assert isinstance(value_of(path, parameter)(Random(0)), str)
        assert annotation(parameter) is not None


def test_a_seed_makes_the_same_command_lines() -> None:
    lines = [
        [command_line(path, Random(f"{seed} {path}")) for path in commands()] for seed in (1, 1, 2)
    ]
    assert lines[0] == lines[1] != lines[2]


@each_case(
    ("done", "expected"),
    [
        (Done(["run"], 2, "", "note: this\nsimctl: no algorithm of that name\n"), []),
        (
            Done(
                ["run"], 2, "", "simctl: star has no option 'x': write\n  bandwidth  like 50GB/s\n"
            ),
            [],
        ),
        (Done(["run"], 2, "", "simctl: one\nsimctl: two\n"), ["2 lines for a mistake"]),
        (
            Done(["run"], 2, "a table", "simctl: no algorithm of that name\n"),
            ["output beside a mistake"],
        ),
        (Done(["run"], 2, "", "ValueError\n"), ["an unclear line for a mistake"]),
        (Done(["run"], 1, "a table", ""), ["exit code 1"]),
        (Done(["diagnose"], 1, "a table", ""), []),
        (Done(["run"], 0, "", ""), ["no output"]),
        (Done(["run"], -1, "", "", "KeyError at run.py:3"), ["KeyError at run.py:3"]),
        (Done(["run", "--format", "json"], 0, '{"a": NaN}', ""), ["no json: NaN in JSON"]),
        (Done(["run", "--format", "csv"], 0, "a,b\n1\n", ""), ["rows of several lengths"]),
    ],
)
def test_what_is_wrong_is_found(done: Done, expected: list[str]) -> None:
    assert list(mistakes(done)) == expected
