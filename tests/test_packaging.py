"""The wheel and the sdist hold what the tree holds, and what describes them agrees."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FLOORS = ("topologies", "simulator", "experiments", "simctl")
STUDIES = "experiments/studies/"
"""The tools of developers, which the wheel leaves out."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def built(kind: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(built("wheel", tmp_path_factory.mktemp("wheel")))


def test_the_wheel_holds_the_tree_without_the_studies(wheel: zipfile.ZipFile) -> None:
    packed = {
        name for name in wheel.namelist() if not name.partition("/")[0].endswith(".dist-info")
    }
    tree = {
        str(path.relative_to(ROOT))
        for floor in FLOORS
        for path in (ROOT / floor).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == {name for name in tree if not name.startswith(STUDIES)} != tree
    assert {f"{floor}/py.typed" for floor in FLOORS} <= packed


def test_no_module_of_the_wheel_needs_the_studies(wheel: zipfile.ZipFile) -> None:
    for name in wheel.namelist():
        if name.endswith(".py"):
            assert not re.search(r"(from|import) experiments\.studies", wheel.read(name).decode())


@pytest.mark.exhaustive
def test_every_module_of_the_wheel_is_imported_without_the_studies(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    wheel.extractall(tmp_path)
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in wheel.namelist()
        if name.endswith(".py") and not name.endswith("__main__.py")
    ]
    extras = "torch", "dask", "distributed", "sklearn"
    script = f"""
from importlib import import_module
for name in {modules}:
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in {extras}:
            raise
"""
    line = [sys.executable, "-P", "-c", script]
    subprocess.run(line, check=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)})


def test_the_wheel_has_a_licence_and_the_script(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert any(name.endswith("LICENSE") for name in names)
    entry = next(name for name in names if name.endswith("entry_points.txt"))
    assert "simctl = experiments.cli:main" in wheel.read(entry).decode()


def test_the_sdist_holds_what_builds_tests_and_documents_it(tmp_path: Path) -> None:
    with tarfile.open(built("sdist", tmp_path)) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    pages = {str(path.relative_to(ROOT)) for path in ROOT.glob("[A-Z]*")}
    sources = {
        str(path.relative_to(ROOT))
        for folder in (*FLOORS, "tests", "docs", "examples", "notebooks", ".ci")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts)
    }
    assert pages | sources | {"pyproject.toml", ".pre-commit-config.yaml"} <= packed


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_installs_and_runs(kind: str, tmp_path: Path) -> None:
    (tmp_path / "built").mkdir()
    package = built(kind, tmp_path / "built")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", tmp_path / "packages", package], check=True)
    script = tmp_path / "packages" / "bin" / "simctl"
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "packages")}
    for arguments, shown in ((["--version"], "simctl"), (["doctor"], str(tmp_path / "packages"))):
        command = [sys.executable, str(script), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
        )
        assert shown in done.stdout


def test_the_citation_and_the_changelog_have_the_version_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert str(citation["version"]) == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == PROJECT["version"]


def test_a_commit_runs_the_checks_of_ci() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    commands = {hook["entry"] for hook in repository["hooks"]}
    ran = (ROOT / ".ci" / "run").read_text()
    assert commands == {"ruff format", "ruff check", "mypy", "lint-imports"}
    assert all(f".venv/bin/{command}" in ran for command in commands)


def test_the_classifiers_name_the_python_on_which_all_tests_run() -> None:
    names = [name for name in PROJECT["classifiers"] if "Python ::" in name]
    assert names == ["Programming Language :: Python :: 3.11"]
    assert PROJECT["requires-python"] == ">=3.11"


def test_version() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from experiments.cli import main; main()", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"simctl {version('simctl-collectives')}"
