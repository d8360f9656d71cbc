"""Every block of code on a page is run by a test, or a note above it says why not."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

import chakra_files
import job_traces
import model_texts
import monitor_files
import smi_matrices
from grouped_cases import each_case
from page_blocks import Block, blocks, uncompared, untested
from simctl_process import Simctl

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    )
)
SHOWN = "docs/reference/commands.md"
"""A page whose blocks are the help of all commands."""
FINDINGS = ("diagnose", "validate")
"""Commands that exit with 1 if they find something."""
MN5 = ROOT / "examples" / "mn5_acc_all_reduce.csv"


def runs(name: str, keep: str = "") -> Callable[[Path], object]:
    """Writes the measured runs of the examples whose rows begin with `keep`."""
    header, *rows = MN5.read_text().splitlines(keepends=True)

    def write(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        kept = "".join(row for row in rows if row.startswith(keep))
        path.write_text(header + kept.replace("pico", path.stem))

    return write


def copied(source: str, name: str) -> Callable[[Path], object]:
    return lambda folder: shutil.copy(ROOT / source, folder / name)


PROFILE = copied("experiments/profiles/mn5_acc.yaml", "mine.yaml")
LOG = "examples/alps_gh200_p16_aws-ofi-1.9.2.log"


def set_ups(folder: Path) -> None:
    """Runs of GPU and host buffers."""
    runs("runs/gpu.csv", "all_reduce,ring")(folder)
    runs("runs/host.csv", "all_reduce,ring")(folder)


def two_points(folder: Path) -> None:
    """Two sizes of an all-reduce, and a link."""
    columns = "collective,algorithm,ranks,nodes,size_bytes,time_us,library"
    rows = ["all_reduce,ring,16,4,1048576,161.5,NCCL", "all_reduce,ring,16,4,134217728,3650,NCCL"]
    (folder / "two-points.csv").write_text("\n".join([columns, *rows]) + "\n")
    sizes = [2.0**k for k in range(3, 28)]
    links = [f"send_recv,,2,2,{size:.0f},{5 + size / 25e3:.3f},NCCL" for size in sizes]
    (folder / "p2p.txt").write_text("\n".join([columns, *links]) + "\n")


def late_job(folder: Path) -> None:
    """Traces of two ranks: one enters late."""
    calls = [job_traces.all_reduce(1000.0 * k, 900.0, k) for k in range(8)]
    late = [job_traces.all_reduce(1000.0 * k + 500, 400.0, k) for k in range(8)]
    job_traces.kineto(folder / "traces", [calls, late])


def silent_rank(folder: Path) -> None:
    """The status of a job in which a rank does not answer."""
    status = monitor_files.communicator([monitor_files.answering(0)], [monitor_files.silent(1)])
    monitor_files.written(folder, monitor_files.document(status))


def chakra_job(folder: Path) -> None:
    """The workload of 16 ranks: an all-reduce and an all-gather."""
    nodes = [chakra_files.compute(0, 100), chakra_files.collective(1, 0, 2**20, 0)]
    chakra_files.folder(
        folder / "workload", [[*nodes, chakra_files.collective(2, 2, 2**16, 1)]] * 16
    )


def transformer(folder: Path) -> None:
    """The configuration of a model of Hugging Face."""
    (folder / "path").mkdir()
    (folder / "path" / "config.json").write_text(json.dumps(model_texts.CONFIGS["llama3_8b"]))


def eight_gpus(folder: Path) -> None:
    """What nvidia-smi prints of eight GPUs on NVSwitch."""
    names = [f"GPU{k}" for k in range(8)]
    words = [["X" if row == name else "NV18" for name in names] for row in names]
    (folder / "topo.txt").write_text(smi_matrices.rendered(names, words))


FILES: dict[str, list[Callable[[Path], object]]] = {
    "docs/how-to/animate-an-algorithm.md": [copied("examples/middle.py", "middle.py")],
    "docs/how-to/write-a-report.md": [copied(LOG, "today.log"), copied(LOG, "last_week.log")],
    "docs/how-to/calibrate.md": [
        runs("ring-16.log", "all_reduce,ring"),
        runs("tree-16.log", "all_reduce,tree"),
        runs("other-runs/all.csv", "all_reduce,ring,16"),
        runs("runs.csv", "all_reduce,ring,16"),
        runs("today.log", "all_reduce,ring,16"),
        set_ups,
        two_points,
    ],
    "docs/how-to/describe-a-machine.md": [eight_gpus],
    "docs/how-to/diagnose.md": [
        PROFILE,
        copied(LOG, "all_reduce.log"),
        copied(LOG, "today.log"),
        runs("before.csv", "all_reduce,ring,16"),
        runs("after.csv", "all_reduce,ring,16"),
        runs("results/all.csv"),
        late_job,
        silent_rank,
    ],
    "docs/how-to/exchange-traces.md": [chakra_job],
    "docs/reference/models.md": [transformer],
    "docs/reference/machines.md": [eight_gpus],
}
"""The files that the commands of a page read, for pages of which a user has such files."""


@each_case("page", [page for page in PAGES if page != SHOWN])
def test_every_block_is_tested_or_says_why_not(page: str) -> None:
    assert untested((ROOT / page).read_text()) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", [page for page in PAGES if uncompared((ROOT / page).read_text())])
def test_the_commands_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, simctl: Simctl
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for write in FILES.get(page, ()):
        write(tmp_path)
    for block in uncompared((ROOT / page).read_text()):
        if block.kind != "needs" or installed(block.note):
            run(block, simctl, monkeypatch)


def installed(extra: str) -> bool:
    required = extra in os.environ.get("SIMCTL_REQUIRE", "").split(",")
    return required or find_spec(extra) is not None


def run(block: Block, simctl: Simctl, monkeypatch: pytest.MonkeyPatch) -> None:
    if block.kind == "file":
        Path(block.note).write_text(block.text)
    if block.kind in ("file", "not run"):
        return
    for program, *words in block.commands:
        if program == "export":
            monkeypatch.setenv(*words[0].split("=", 1))
        elif program == "pip":
            installs_extras(words)
        elif program == "simctl":
            done = simctl(*(name for word in words for name in matching(word)))
            assert done.returncode in ((0, 1) if words[0] in FINDINGS else (0,)), done.stderr
            assert "Traceback" not in done.stderr
        else:
            monkeypatch.setenv("PYTHONPATH", str(ROOT))
            subprocess.run([sys.executable, *words], check=True, capture_output=True)


def matching(word: str) -> list[str]:
    """The files that a shell puts in place of a word."""
    return sorted(map(str, Path().glob(word))) if "*." in word else [word]


def installs_extras(words: list[str]) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras in re.findall(r"^\.\[(.*)\]$", "\n".join(words), re.MULTILINE):
        assert set(extras.split(",")) <= set(known["optional-dependencies"])


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in (ROOT / page).read_text()]
)
def test_examples_in_python_print_what_the_page_shows(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    text = (ROOT / page).read_text()
    listed = blocks(text)
    for block, after in zip(listed, [*listed[1:], None], strict=True):
        if block.language != "python" or block.kind == "not run":
            continue
        with contextlib.redirect_stdout(io.StringIO()) as stream:
            exec(compile(block.text, page, "exec"), names)
        if after is not None and after.language == "text" and not after.kind:
            assert after.text == stream.getvalue(), f"{page}, line {after.line}"


@pytest.mark.parametrize("page", [page for page in PAGES if "```toml" in (ROOT / page).read_text()])
def test_settings_on_a_page_are_toml(page: str) -> None:
    for block in blocks((ROOT / page).read_text()):
        assert block.language != "toml" or tomllib.loads(block.text)


@each_case(
    ("page", "shown"),
    [
        ("```sh\nmpirun -np 4 x\n```\n", ["line 1: sh: mpirun -np 4 x"]),
        ("<!-- not run: needs MPI -->\n```sh\nmpirun -np 4 x\n```\n", []),
        ("```text\na\n```\n", ["line 1: text: a"]),
        ("```console\n$ a\n```\n\n```text\nb\n```\n", []),
        ("```python\n1\n```\n\n```text\n1\n```\n\n```yaml\na: b\n```\n", ["line 9: yaml: a: b"]),
        ("```sh\nsimctl a \\\n  b\nexport A=B\n```\n", []),
    ],
)
def test_a_block_that_no_test_runs_is_listed(page: str, shown: list[str]) -> None:
    assert untested(page) == shown


def test_the_mistake_of_the_page_has_the_message_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, simctl: Simctl
) -> None:
    monkeypatch.chdir(tmp_path)
    right = (ROOT / "examples" / "middle.py").read_text()
    Path("middle.py").write_text(right.replace("range(half)", "range(1, half)"))
    done = simctl("run", "--algo-file", "middle.py", "--p", "8", "--topology", "line")
    page = (ROOT / "docs" / "how-to" / "your-own-algorithm.md").read_text()
    assert done.stderr in [block.text for block in blocks(page)]
