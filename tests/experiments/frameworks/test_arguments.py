"""Arguments in shell scripts: variables, arrays, texts of arguments, conditions, quotes."""

from hypothesis import given
from hypothesis import strategies as st

from experiments.frameworks.arguments import arguments_in
from grouped_cases import each_case
from refusals import attempt, refusal

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


@given(st.text(alphabet="ab -=$(){}[]\"'\\\n#;|&<>123", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    _, message = attempt(lambda words: list(arguments_in(words, "run.sh")), text)
    assert not message or message.startswith("run.sh line ")


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
