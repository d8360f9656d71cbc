"""Functions are short, and so are lines."""

from tests.style_numbers import excesses, measure


def test_no_function_is_too_long_too_deep_or_takes_too_much() -> None:
    assert excesses() == []


def test_what_breaks_a_limit_is_named() -> None:
    deep = "def f(a):\n" + "".join(f"{'    ' * k}if a:\n" for k in range(1, 7))
    wide = f"def g({', '.join('abcdefghi')}):\n    return 1\n"
    tall = "def h():\n" + "    a = 1\n" * 81
    chain = "def i(a):\n    if a:\n        pass\n" + "    elif a:\n        pass\n" * 9
    source = f"{deep}{' ' * 28}return 1\n{wide}{tall}{chain}"
    found = {one.name: one.excess for one in measure("simulator/x.py", source)}
    assert found == {"f": "6 blocks deep", "g": "9 parameters", "h": "81 lines", "i": ""}
    assert [one.excess for one in measure("experiments/cli/x.py", wide)] == [""]
