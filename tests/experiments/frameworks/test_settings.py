"""Settings of files and arguments in shell scripts."""

from pathlib import Path

from experiments.frameworks.arguments import arguments_in
from experiments.frameworks.settings import MOST_SETTINGS, FileSetting, read_settings
from grouped_cases import each_case
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


TEST = '[[ "$A" == "b" ]]'


def read(text: str) -> dict[str, object]:
    return {key: value for key, value, _ in arguments_in(text, "run.sh")}


@each_case(
    ("text", "expected"),
    [
        ("--bf16", {"bf16": True}),
        ("--tp 8 \\\n  --pp=4", {"tp": "8", "pp": "4"}),
        ("X=8\n--tp $X --pp ${X} --cp ${Y:-2}", {"tp": "8", "pp": "8", "cp": "2"}),
        ("ARGS=(\n  --tp 8 # no --pp 3\n  --swiglu\n)\n", {"tp": "8", "swiglu": True}),
        ("--modules mlp moe\nother words", {"modules": ["mlp", "moe"]}),
        ("\"--fp8-format hybrid\" --split '99,1'", {"fp8_format": "hybrid", "split": "99,1"}),
        ('options=" \\\n --tp 8 \\\n --sp"\n', {"tp": "8", "sp": True}),
        ("torchrun --nnodes 1 run.py ${ARGS[@]}", {"nnodes": "1"}),
        ("--nproc $((2*4))", {"nproc": "8"}),
        ("--tp $UNKNOWN", {"tp": "$UNKNOWN"}),
        ('A="echo on; run.py --tp 2 --sp x"', {"tp": "2", "sp": "x"}),
        ('echo "Usage: --pp 8"; printf --cp 2; --tp 4\necho --sp', {"tp": "4"}),
        ('ARGS="--echo 1 --tp 2"\nrun.py echo --cp 2', {"echo": "1", "tp": "2", "cp": "2"}),
        ("--lr -1.5", {"lr": "-1.5"}),
        ("if [ $A = b ]; then\n--tp 2\nfi\n--pp 3", {"condition.tp": "2", "pp": "3"}),
        ("case $A in\n b) TP=2 ;;\n c) TP=4 ;;\nesac\n--tp $TP", {"tp": "$TP"}),
        ("if true; then\n--tp 2\nelse\n--tp 4\nfi", {"condition.tp": "4"}),
        (f"A=b\nif {TEST}; then\n--tp 2\nelse\n--cp 4\nfi\n--pp 3", {"tp": "2", "pp": "3"}),
        (f"A=c\nif {TEST}; then\n--tp 2\nelse\n--cp 4\nfi\n--pp 3", {"cp": "4", "pp": "3"}),
        (f"A=c\nif {TEST} || [ $A -gt 1 ]\nthen --tp 2; fi", {"condition.tp": "2"}),
        ("A=2\nif [ $A -gt 1 ] && [[ -n $A ]]\nthen --tp 2; else --cp 2; fi", {"tp": "2"}),
        (f"A=b\nif [ -z $A ]; then\n--tp 2\nelif {TEST}; then --cp 4; fi", {"cp": "4"}),
        (f"A=c\nif {TEST}; then\nif [ $B ]; then T=2; fi --tp 2\nfi\n--pp 3", {"pp": "3"}),
        ("A=c\ncase $A in\n b|d) T=2 ;;\n c) T=4 ;;\n *) T=8 ;;\nesac\n--tp $T", {"tp": "4"}),
        ("A=x\ncase $A in\n b) --tp 2;;\n *)\n --tp 8\nesac\n--pp 3", {"tp": "8", "pp": "3"}),
        ('FP8=0; [ "$FP8" = 1 ] && ARGS="--fp8-format e4m3"\n--tp 2', {"tp": "2"}),
        ("X=1; [ 1 = 2 ] && X=5\n--tp $X", {"tp": "1"}),
        ("[ 1 = 1 ] && X=5 || X=6\n--tp $X", {"tp": "5"}),
        ("[ 1 = 2 ] && X=5 || X=6\n--tp $X", {"tp": "6"}),
        ("[ 1 = 2 ] && A='--tp 5' || A='--tp 6'", {"tp": "6"}),
        ("X=1; [ $Y ] && X=5\n--tp $X", {"tp": "$X"}),
        ("[ -n $X ] || X=5\n--tp $X", {"tp": "5"}),
        ("[ $Y ] && A='--tp 5'; --pp 2", {"condition.tp": "5", "pp": "2"}),
        ("[ 1 = 2 ] && A=(\n--tp 5\n--cp 2\n)\n--pp 2", {"pp": "2"}),
        ("[ 1 = 2 ] && {\nA=b; --tp 5; --cp 2\n}\n--pp 2", {"pp": "2"}),
        ("[ 1 = 2 ] &&\n if [ 1 = 1 ]; then --tp 5; fi\n--pp 2", {"pp": "2"}),
        ("if [ 1 = 1 ]; then [ 1 = 2 ] && --tp 5; --cp 2; fi", {"cp": "2"}),
        ("for i in 1; do [ 1 = 2 ] && --tp 5; done", {}),
        ("[[ 1 = 1 || 1 = 2 ]] && --tp 5", {"condition.tp": "5"}),
        ("command -v a >/dev/null 2>&1 && --tp 5", {"condition.tp": "5"}),
        ("(( N > 1 )) && --tp 5", {"condition.tp": "5"}),
        ("cd a && TP=2 && torchrun --tp $TP || exit 1", {"tp": "2"}),
        ("cat <<EOF > a\nif you don't (\n--cp 2\nEOF\n--tp 2", {"tp": "2"}),
        ("a <<-'B' <<\\C\ncase x\n\tB\nif\nC\n--tp 2", {"tp": "2"}),
        ("sbatch <<EOF\n--cp 2\nEOF\ncat <<EOF >run.sh\n--tp 2\nEOF", {"cp": "2", "tp": "2"}),
        ("(( A = 1<<2 ))\na <<< b\n--tp 2", {"tp": "2"}),
        ("no arguments - at all", {}),
        ("--a\xa01", {"a": "1"}),
    ],
)
def test_arguments_are_what_a_shell_gives(text: str, expected: dict[str, object]) -> None:
    assert read(text) == expected


def test_each_argument_has_its_line() -> None:
    text = 'cat <<A\nb\nA\n# a\n--a 1 \\\n  --b 2\n\nX=" \\\n --c 3 \\\n --d 4"\n'
    lines = {key: line for key, _, line in arguments_in(text, "run.sh")}
    assert lines == {"a": 5, "b": 6, "c": 9, "d": 10}


def test_a_quote_without_an_end_names_its_line() -> None:
    message = refusal(lambda text: list(arguments_in(text, "run.sh")), '--a 1\n--b "2\n')
    assert message == 'run.sh line 2: " has no end: close the quote'


@each_case(
    "part",
    [
        *("${", "$(", "((", "--a ", "${a:-${b:-", "'a' ", "if ", "if a\nthen a=1\n", "<<a\n"),
        *("<<a <<b ", "\\"),
    ],
)
def test_long_texts_take_no_time(part: str) -> None:
    attempt(lambda text: list(arguments_in(text, "run.sh")), part * 20_000)


def test_scripts_are_nested_so_deep() -> None:
    message = refusal(lambda text: list(arguments_in(text, "run.sh")), "(a=1\n" * 200_000)
    assert message == "run.sh line 101: nested more than 100 deep"
