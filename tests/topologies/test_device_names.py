"""Names of devices that only count are the names that they stand for, and none is there twice."""

from itertools import count, islice

from hypothesis import example, given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import refusal
from topologies.device_names import DeviceNames, Numbered

ENDS = st.tuples(st.text("a1.", max_size=2), st.text("a1.", max_size=2))
NUMBERED = st.builds(
    lambda size, ends: Numbered(size, *ends),
    st.integers(0, 13),
    st.lists(ENDS, min_size=1, max_size=3),
)
PARTS = st.lists(
    st.one_of(NUMBERED, st.lists(st.text("ab01.", max_size=3), max_size=3)), max_size=4
)


def listed(names: Numbered) -> list[str]:
    texts = (f"{head}{number}{tail}" for number in count() for head, tail in names.ends)
    return list(islice(texts, names.size))


@given(NUMBERED)
def test_numbered_names_are_what_they_stand_for(names: Numbered) -> None:
    assert list(names) == [names[row] for row in range(len(names))] == listed(names)


@given(NUMBERED)
@example(Numbered(13, ("a", "0"), ("a0", "")))
@example(Numbered(13, ("a1", ""), ("a", "")))
def test_names_that_are_different_are_different(names: Numbered) -> None:
    if names.are_different:
        assert len(set(names)) == len(names)


@given(PARTS)
@example([Numbered(12, ("a", "")), ["a11"]])
@example([["a11"], Numbered(12, ("a", ""))])
@example([Numbered(2, ("a", "")), ["b"], ["c"], Numbered(2, ("b", ""))])
def test_a_name_that_is_there_twice_is_refused(parts: list[list[str]]) -> None:
    names, plain = DeviceNames(), list[str]()
    for part in parts:
        together = [*plain, *part]
        repeated = [name for k, name in enumerate(together) if name in together[:k]]
        if repeated:
            message = f"device {repeated[0]!r} is there twice: names are unique"
            assert refusal(lambda part=part: names.add(part)) == message
            break
        names.add(part)
        plain = together
    assert names == plain
    assert list(names) == plain
    assert names.numbers() == {name: row for row, name in enumerate(plain)}


def test_a_copy_takes_further_names_alone() -> None:
    names = DeviceNames()
    names.add(["a"])
    names.add(Numbered(2, ("b", "")))
    copy = names.copy()
    copy.add(["c"])
    names.add(["d"])
    assert (tuple(names), tuple(copy)) == (("a", "b0", "b1", "d"), ("a", "b0", "b1", "c"))


@each_case(
    ("names", "different"),
    [
        (Numbered(9, ("gpu", "")), True),
        (Numbered(9, ("out", ""), ("in", "")), True),
        (Numbered(9, ("rail0.leaf", ""), ("rail1.leaf", "")), True),
        (Numbered(9, ("node", ".gpu0"), ("node", ".gpu1")), True),
        (Numbered(9, ("node", ".gpu0"), ("node", ".gpu0")), False),
        (Numbered(9, ("a", "0"), ("a", "1")), False),
        (Numbered(9, ("a", ".b"), ("c", ".d")), False),
    ],
)
def test_heads_and_tails_tell_whether_names_are_different(names: Numbered, different: bool) -> None:
    assert names.are_different is different
