"""What the documentation shows is what the commands print. SIMCTL_UPDATE_DOCS=1 writes the blocks anew."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMANDS = (
    "sweep",
    "run",
    "train",
    "profile-model",
    "strategies",
    "models",
    "measure",
    "validate",
    "calibrate",
    "diagnose",
    "algos",
    "doctor",
    "topo list",
    "topo show",
    "topo import",
)
BLOCK = re.compile(
    r"(```console\n\$ (?P<command>[^\n]*)\n```\n.*?```text\n)(?P<shown>(?:(?!```).)*?)(\n```)", re.DOTALL
)


def simctl(*arguments: str) -> str:
    """What a command prints, in a terminal of 100 columns."""
    script = "from experiments.cli import main; main()"
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        check=True,
    )
    return "\n".join(line.rstrip() for line in done.stdout.rstrip().split("\n")).replace("Usage: -c", "Usage: simctl")


def checked(path: Path, shown: str, printed: str) -> bool:
    """Whether a block is what was printed."""
    if os.environ.get("SIMCTL_UPDATE_DOCS") and shown != printed:
        path.write_text(path.read_text().replace(f"```text\n{shown}\n```", f"```text\n{printed}\n```", 1))
        return True
    return printed == shown


def examples(page: str) -> list[tuple[str, str, str]]:
    return [(page, match["command"], match["shown"]) for match in BLOCK.finditer((ROOT / page).read_text())]


@pytest.mark.parametrize(("page", "command", "shown"), examples("README.md") + examples("docs/training.md"))
def test_a_page_shows_what_is_printed(page: str, command: str, shown: str, tmp_path: Path) -> None:
    arguments = shlex.split(command.rpartition("simctl ")[2])
    for k, argument in enumerate(arguments):
        if argument.endswith(".png"):
            arguments[k] = str(tmp_path / argument)
    assert checked(ROOT / page, shown, abridged(simctl(*arguments), like=shown))


def abridged(printed: str, like: str) -> str:
    """The first and the last three lines, where that is what the page shows."""
    lines = printed.split("\n")
    return "\n".join([lines[0], "...", *lines[-3:]]) if "\n...\n" in like else printed


def test_readme_has_its_examples() -> None:
    assert [command.rpartition("simctl ")[2].split()[0] for _, command, _ in examples("README.md")] == [
        "sweep",
        "validate",
        "sweep",
        "run",
        "sweep",
        "topo",
        "train",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented_with_its_help(command: str) -> None:
    path = ROOT / "docs" / "commands.md"
    block = re.search(rf"## simctl {command}\n\n```text\n(.*?)\n```", path.read_text(), re.DOTALL)
    assert block is not None
    assert checked(path, block[1], simctl(*command.split(), "--help"))
    assert f"`simctl {command.split()[0]}`" in (ROOT / "README.md").read_text()


def test_no_command_is_missing() -> None:
    listed = simctl("--help").partition("Commands:\n")[2]
    assert tuple(line.split()[0] for line in listed.split("\n") if re.match(r"  \w", line)) == tuple(
        dict.fromkeys(command.split()[0] for command in COMMANDS)
    )


def test_relative_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"
