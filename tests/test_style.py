"""Functions, lines and files are short, and no two files share a name."""

from collections import Counter
from pathlib import Path

from tests.style_numbers import FOLDERS, excesses, files, long_files, long_lines, measure


def test_no_function_file_or_line_breaks_a_limit() -> None:
    assert excesses() == []


def test_what_breaks_a_limit_is_named() -> None:
    deep = "def f(a):\n" + "".join(f"{'    ' * k}if a:\n" for k in range(1, 7))
    wide = f"def g({', '.join('abcdefghi')}):\n    return 1\n"
    tall = "def h():\n" + "    a = 1\n" * 81
    chain = "def i(a):\n    if a:\n        pass\n" + "    elif a:\n        pass\n" * 9
    source = f"{deep}{' ' * 28}return 1\n{wide}{tall}{chain}"
    excess_of = {function.name: function.excess for function in measure("simulator/x.py", source)}
    assert excess_of == {"f": "6 blocks deep", "g": "9 parameters", "h": "81 lines", "i": ""}
    assert [function.excess for function in measure("experiments/cli/x.py", wide)] == [""]


def test_long_lines_and_files_are_named() -> None:
    assert list(long_lines("x.py", f"{'a' * 100}\n{'é' * 101}\n")) == ["x.py:2: 101 columns"]
    assert list(long_files("x.py", "a\n" * 400)) == []
    assert list(long_files("x.py", "a\n" * 401)) == ["x.py: 401 lines"]


def test_no_two_files_share_a_name() -> None:
    names = Counter(Path(path).name for path in files(FOLDERS))
    shared = {name for name in names if names[name] > 1}
    assert shared <= {"__init__.py", "__main__.py", "conftest.py"}
