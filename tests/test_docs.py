"""What the documentation shows is what the commands print. SIMCTL_UPDATE_DOCS=1 writes the blocks
anew."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name

import pytest

from experiments.shipped_tables import rows_of
from experiments.studies import generated_pages
from grouped_cases import each_case
from page_blocks import blocks
from refusals import refusal
from simctl_process import Simctl

ROOT = Path(__file__).parents[1]
COMMANDS = (
    *("sweep", "run", "train", "plan", "profile-model", "animate", "recommend", "measure"),
    *("validate", "calibrate", "diagnose", "expect", "serve", "report", "list", "pipelines"),
    *("doctor", "algos import", "algos export", "topo show", "topo import"),
)
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "experiments" / "studies").rglob("*.md"),
    )
)
NOTEBOOKS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "notebooks").glob("*.ipynb"))
Printed = Callable[..., str]
BLOCK = re.compile(
    r"(```console\n\$ (?P<command>[^\n]*)\n```\n(?:(?!```).)*?```text\n)"
    r"(?P<shown>(?:(?!```).)*?)(\n```)",
    re.DOTALL,
)


def alone(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """`simctl` in a process of its own."""
    script = [sys.executable, "-c", "from experiments.cli import main; main()"]
    return subprocess.run(
        [*script, *arguments], capture_output=True, text=True, cwd=ROOT, check=True
    )


@pytest.fixture(params=["here", pytest.param("alone", marks=pytest.mark.exhaustive)])
def printed(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, simctl: Simctl
) -> Printed:
    """What a command prints, in a terminal of 100 columns."""
    run = simctl if request.param == "here" else alone
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def shown(*arguments: str) -> str:
        done = run(*arguments)
        assert done.returncode == 0, done.stderr
        return "\n".join(line.rstrip() for line in done.stdout.rstrip().split("\n"))

    return shown


def checked(path: Path, shown: str, printed: str) -> bool:
    """Whether a block is what was printed."""
    if os.environ.get("SIMCTL_UPDATE_DOCS") and shown != printed:
        path.write_text(
            path.read_text().replace(f"```text\n{shown}\n```", f"```text\n{printed}\n```", 1)
        )
        return True
    return printed == shown


def examples(page: str) -> list[tuple[str, str, str]]:
    return [
        (page, match["command"], match["shown"])
        for match in BLOCK.finditer((ROOT / page).read_text())
    ]


@pytest.mark.parametrize(
    ("page", "command", "shown"),
    [
        pytest.param(*example, marks=[pytest.mark.exhaustive] * page.startswith("docs/zh"))
        for page in PAGES
        for example in examples(page)
    ],
)
def test_a_page_shows_what_is_printed(
    page: str, command: str, shown: str, tmp_path: Path, printed: Printed
) -> None:
    arguments = shlex.split(command.rpartition("simctl ")[2])
    for k, argument in enumerate(arguments):
        if argument.endswith((".png", ".html", ".gif")):
            arguments[k] = str(tmp_path / argument)
    assert checked(ROOT / page, shown, abridged(printed(*arguments), like=shown))


def abridged(printed: str, like: str) -> str:
    """The first and the last three lines of a table, where that is what the page shows, and what is
    below it."""
    if "\n...\n" not in like:
        return printed
    machine, table, *below = printed.split("\n\n")
    heading, *rows = table.split("\n")
    return "\n\n".join([machine, "\n".join([heading, "...", *rows[-3:]]), *below])


@pytest.mark.parametrize("arguments", [("--version",), ("sweep", "--algo", "ring", "--p", "2..9")])
def test_a_process_of_its_own_prints_the_same(arguments: tuple[str, ...], simctl: Simctl) -> None:
    assert alone(*arguments).stdout == simctl(*arguments).stdout != ""


def test_a_page_installs_torch_before_it_measures() -> None:
    page = (ROOT / "docs" / "how-to" / "measure.md").read_text()
    block, *_ = (
        block
        for block in re.findall(r"```\w+\n(.*?)```", page, re.DOTALL)
        if "simctl measure" in block
    )
    assert "pip install '.[torch]'" in block.partition("simctl measure")[0]


@each_case(
    ("page", "commands"),
    [
        ("README.md", ["sweep", "validate", "sweep"]),
        ("docs/how-to/choose-an-algorithm.md", ["recommend", "recommend", *["sweep"] * 5]),
        ("docs/how-to/explain-a-time.md", ["run"]),
        ("docs/how-to/animate-an-algorithm.md", ["animate"]),
        ("docs/how-to/describe-a-machine.md", ["topo"]),
        ("docs/how-to/find-where-a-step-stalls.md", ["train", "train"]),
        ("docs/how-to/train-in-parallel.md", ["plan", "plan"]),
        ("docs/reference/training.md", ["train"]),
        ("docs/how-to/compare-by-learning.md", ["train"]),
    ],
)
def test_a_page_has_its_examples(page: str, commands: list[str]) -> None:
    names = [command.rpartition("simctl ")[2].split()[0] for _, command, _ in examples(page)]
    assert names == commands


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented_with_its_help(command: str, printed: Printed) -> None:
    path = ROOT / "docs" / "reference" / "commands.md"
    block = re.search(rf"## simctl {command}\n\n```text\n(.*?)\n```", path.read_text(), re.DOTALL)
    assert block is not None
    assert checked(path, block[1], printed(*command.split(), "--help-all"))
    assert f"`simctl {command.split()[0]}`" in (ROOT / "docs" / "README.md").read_text()


def test_no_command_is_missing(printed: Printed) -> None:
    listed = printed("--help").partition("Commands:\n")[2]
    assert tuple(
        line.split()[0] for line in listed.split("\n") if re.match(r"  \w", line)
    ) == tuple(dict.fromkeys(command.split()[0] for command in COMMANDS))


@pytest.mark.parametrize("group", [(), ("topo",), ("algos",)])
def test_no_help_of_one_line_is_cut_off(
    group: tuple[str, ...], simctl: Simctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = simctl(*group, "--help").stdout.partition("Commands:\n")[2].splitlines()
    assert [line for line in listed if not line.endswith(".") or line.endswith("..")] == []


def prose(page: str) -> str:
    """The text of a page, or the Markdown cells of a notebook, without its blocks of code."""
    text = (ROOT / page).read_text()
    if page.endswith(".ipynb"):
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*?) *$", prose(page), re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    repeated = {name: names.count(name) for name in names}
    return set(names) | {f"{name}-{k}" for name, n in repeated.items() for k in range(1, n)}


@each_case("page", PAGES + NOTEBOOKS)
def test_relative_links_lead_to_files_and_headings(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        path = ((ROOT / page).parent / name).resolve() if name else ROOT / page
        assert path.exists(), f"{page}: no file {target}"
        if anchor:
            assert anchor in anchors(str(path.relative_to(ROOT))), f"{page}: no heading {target}"


SENTENCE = 25
"""Words of a sentence at the most."""


@each_case("page", [page for page in PAGES + NOTEBOOKS if page != "CHANGELOG.md"])
def test_sentences_are_short(page: str) -> None:
    text = re.sub(r"\$\$.*?\$\$|<!--.*?-->", "", prose(page), flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "code", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text))
    paragraphs = re.split(r"\n\s*\n|\n(?=[-*] |\d+\. |\|)|(?<=\S) \| ", text)
    sentences = [s for part in paragraphs for s in re.split(r"(?<=[.!?:])\s+", part)]
    assert [s for s in sentences if len(s.split()) > SENTENCE] == []


def test_the_index_lists_every_page() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "docs" / "README.md").read_text())
    listed = {(ROOT / "docs" / link).resolve() for link in links if not link.startswith("http")}
    pages = {ROOT / page for page in PAGES if page.startswith("docs/")} - {ROOT / "docs/README.md"}
    assert pages <= listed


def test_generated_parts_of_pages_are_what_the_results_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    written = generated_pages.pages()
    if os.environ.get("SIMCTL_UPDATE_DOCS"):
        generated_pages.main()
    assert {path for path, text in written.items() if path.read_text() != text} == set()
    for page in (generated_pages.ACCURACY, generated_pages.PLAN_ACCURACY):
        assert all(written[page].count(mark) == 1 for mark in generated_pages.MARKS)
    marked = {
        name for text in written.values() for *_, name in generated_pages.FIGURE.findall(text)
    }
    assert {row["figure"] for row in rows_of(generated_pages.FIGURES)} <= marked


OVERVIEWS = ("README.md", "docs/zh/README.md", "docs/README.md", "docs/explanation/why-simctl.md")
OTHER_ERRORS = ("docs/how-to/train-in-parallel.md", "docs/how-to/run-groups.md")
"""What a report prints, and errors of a tolerance."""


@each_case("page", sorted({*OVERVIEWS, *(p for p in PAGES if "how-to" in p)} - {*OTHER_ERRORS}))
def test_a_figure_of_accuracy_is_no_copy_that_may_differ(page: str) -> None:
    """It has its name in a comment, by which it is generated."""
    lines = prose(page).splitlines()
    unmarked = [line for line in lines if re.search(r"\d ?%(?!<!-- )", line)]
    assert [line for line in unmarked if re.search("error|误差|中位数|median of", line)] == []


def test_a_figure_without_results_is_refused() -> None:
    assert "no figure 'tea': line kept, " in refusal(generated_pages.with_figures, "8%<!-- tea -->")


def test_the_chinese_readme_has_the_blocks_and_links_of_the_english_one() -> None:
    english, chinese = (ROOT / "README.md"), (ROOT / "docs" / "zh" / "README.md")
    texts = [blocks(page.read_text()) for page in (english, chinese)]
    assert [block.text for block in texts[0]] == [block.text for block in texts[1]]
    links = [
        sorted(
            os.path.relpath((page.parent / target).resolve(), ROOT)
            for target in re.findall(r"\]\(([^)]+)\)", prose(str(page.relative_to(ROOT))))
            if (page.parent / target).resolve() not in (english, chinese)
        )
        for page in (english, chinese)
    ]
    assert links[0] == links[1]


def test_no_page_calls_runs_by_a_number() -> None:
    for page in set(PAGES + NOTEBOOKS) - {"CHANGELOG.md"}:
        text = (ROOT / page).read_text()
        if page.endswith(".ipynb"):
            text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
        assert not re.search(r"\bF\d\dp?\b", text), page


def test_the_python_api_exists() -> None:
    text = (ROOT / "docs" / "reference" / "python-api.md").read_text()
    names = re.findall(r"`((?:topologies|simulator|experiments)(?:\.\w+)+)", text)
    assert len(names) > 10
    for name in names:
        assert resolve_name(name), name


def commands_in(page: str) -> list[str]:
    """Every call of simctl in the blocks of a page or notebook."""
    text = (ROOT / page).read_text()
    if page.endswith(".ipynb"):
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    blocks = re.findall(r"```(?:sh|bash|console)\n(.*?)```", text, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").split("\n")
    return [match[1] for line in lines if (match := re.search(r"\bsimctl ([a-z].*)", line))]


@each_case("page", [page for page in PAGES + NOTEBOOKS if commands_in(page)])
def test_commands_in_pages_have_their_options(page: str) -> None:
    reference = (ROOT / "docs" / "reference" / "commands.md").read_text()
    for line in commands_in(page):
        names = sorted(COMMANDS, key=len, reverse=True)
        name = next(name for name in (*names, "") if f"{line} ".startswith(f"{name} "))
        assert name, f"{page}: no command {line}"
        usage = reference.partition(f"## simctl {name}\n")[2].partition("\n## ")[0]
        options = re.findall(r"(?<= )--[a-z-]+", line)
        assert [option for option in options if option not in usage] == [], f"{page}: {line}"
