"""Settings of files: keys, values and lines, and files that are none."""

from pathlib import Path

import pytest

from experiments.frameworks.settings import MOST_SETTINGS, FileSetting, read_settings
from grouped_cases import each_case
from job_texts import JOBS
from refusals import attempt, refusal


def settings(folder: Path, name: str, text: str) -> dict[str, FileSetting]:
    path = folder / name
    path.write_text(text)
    return {each.key: each for each in read_settings(path)}


def test_yaml_has_paths_and_lines(tmp_path: Path) -> None:
    values = settings(
        tmp_path, "a.yaml", "model:\n  tp: 8\n  parts:\n  - {b: yes}\n  - c: [1, x]\n"
    )
    assert values["model.tp"] == FileSetting("model.tp", 8, "a.yaml line 2")
    assert values["model.parts[0].b"].value is True
    assert values["model.parts[1].c"].value == [1, "x"]


def test_functions_and_members_of_enumerations_are_values(tmp_path: Path) -> None:
    text = (
        "f: {_target_: torch.nn.functional.silu, _call_: false}\n"
        "e: {_target_: enums.AttnBackend, _args_: [5], _call_: true}\n"
        "m: {_target_: a.Model, size: 3}\n"
    )
    values = settings(tmp_path, "a.yaml", text)
    assert values["f"].value == "torch.nn.functional.silu"
    assert values["e"].value == 5
    assert values["m._target_"].value == "a.Model"
    assert values["m.size"].value == 3


def test_aliases_are_read_again_and_tags_as_text(tmp_path: Path) -> None:
    text = "a: &x {b: 1}\nc: *x\nd: !!python/tuple [1, 2]\ne: !!python/name:torch.bfloat16 ''\n"
    values = settings(tmp_path, "a.yaml", text)
    assert values["c.b"].value == 1
    assert values["d"].value == [1, 2]
    assert values["e"].value == ""


def test_toml_has_paths_and_lines(tmp_path: Path) -> None:
    values = settings(tmp_path, "a.toml", "[a.b]\n# c = 1\nc = 2\n\n[d]\ne = [1, 2]\n")
    assert values["a.b.c"] == FileSetting("a.b.c", 2, "a.toml line 3")
    assert str(values["d.e"]) == "a.toml line 6, d.e=1,2"


def test_huge_numbers_are_written_in_short(tmp_path: Path) -> None:
    values = settings(tmp_path, "a.toml", f"a = 0x1{'0' * 5000}\n")
    assert len(str(values["a"])) < 200


@each_case(
    ("name", "text", "message"),
    [
        ("a.yaml", "a: 1\na: 2\n", "a.yaml line 2: the key 'a' is there twice"),
        ("a.yaml", "a: [1, 2\n", "expected YAML"),
        ("a.yaml", "? [a]\n: 1\n", "a.yaml line 1: a key that is not text"),
        ("a.yaml", "a: " + "[" * 100 + "]" * 100, "nested"),
        ("a.yaml", "a: &x\n  b: *x\n", "nested more than"),
        ("a.yaml", "# nothing\n", "a.yaml is empty"),
        (
            "a.yaml",
            "a0: &a0 [1]\n" + "".join(f"a{k}: &a{k} [*a{k - 1}]\n" for k in range(1, 30)),
            "nested more than",
        ),
        ("a.toml", "a = 1\na = 2\n", "a.toml line 2: Cannot overwrite a value: expected TOML"),
        ("a.toml", "a = \n", "a.toml line 1: Invalid value: expected TOML"),
        ("a.toml", "a = " + "[" * 20_000, "a.toml"),
        ("a.toml", ".".join("a" * 100) + " = 1", "a.toml: nested more than 24 deep"),
        ("a.sh", "echo hello\n", "a.sh has no settings"),
        ("a.sh", "  \n", "a.sh is empty"),
        ("a.sh", "--a \x00", "is not text"),
        ("a.sh", "--a 1\n" * (MOST_SETTINGS + 1), f"more than {MOST_SETTINGS} settings"),
        ("a.sh", "--a 1\n" * 200_000, "larger than 1 MiB"),
    ],
)
def test_other_files_are_refused_in_a_line(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    assert message in refusal(settings, tmp_path, name, text)


def test_a_bomb_of_aliases_is_refused(tmp_path: Path) -> None:
    levels = [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12)]
    text = "\n".join(["a0: &a0 {x: 1}", *levels])
    assert "values" in refusal(settings, tmp_path, "a.yaml", text)


@each_case("rows", ["[{}]", "[[{}]]", "{{x: [{}]}}", "{{x: {{y: [{}]}}}}"])
def test_lists_of_aliases_take_no_time(tmp_path: Path, rows: str) -> None:
    size = 60_000
    text = f"a: &a [{'1,' * size}]\nb: {rows.format('*a,' * size)}\n"
    message = refusal(settings, tmp_path, "a.yaml", text)
    assert message == "a.yaml line 2: more than 100000 values: a plan is smaller"


def test_files_that_are_not_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xff\xfe\x00\x80")
    assert "UTF-8" in refusal(read_settings, path)
    assert "no such file" in refusal(read_settings, tmp_path / "b.yaml")
    assert "directory" in refusal(read_settings, tmp_path)


@pytest.mark.parametrize("name", JOBS)
def test_truncated_files_are_read_or_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for end in range(0, len(JOBS[name]), 13):
        path.write_text(JOBS[name][:end])
        _, message = attempt(lambda _: read_settings(path), "")
        assert not message or name in message
