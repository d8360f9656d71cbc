"""Strategies by name and options."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.training.strategy_options import find, swept_values
from simulator.training.ddp import DDP
from topologies.errors import InputError
from topologies.option_text import options_of


def test_options_are_read_in_their_units() -> None:
    assert find("ddp:bucket=4MiB,overlap=no,streams=2,launch=10us,slowdown=0.1,algo=tree") == DDP(
        bucket=4 * 2.0**20, overlap=False, streams=2, launch=1e-5, slowdown=0.1, algo="tree"
    )
    assert find("ddp:bucket=0") == find("ddp:bucket=0B") == DDP(bucket=0.0)


def swept(key: str, text: str) -> list[tuple[object, ...]]:
    return [tuple(value) for value in swept_values(DDP(), "ddp", key, text)]


def test_a_swept_value_has_its_type_and_its_texts() -> None:
    assert swept("bucket", "1MiB..4MiB:x2") == [
        ("1048576.0B", 2.0**20, "1MiB"),
        ("2097152.0B", 2.0**21, "2MiB"),
        ("4194304.0B", 2.0**22, "4MiB"),
    ]
    zero = ("0", 0.0, "0")
    assert swept("bucket", "0,1MiB..1MiB:x2") == [zero, ("1048576.0B", 2.0**20, "1MiB")]
    assert swept("bucket", "0,25MiB,0") == [zero, ("25MiB", 25 * 2.0**20, "25MiB")]
    assert swept("streams", "1..3") == [("1", 1, "1"), ("2", 2, "2"), ("3", 3, "3")]
    assert swept("overlap", "yes,no") == [("yes", True, "yes"), ("no", False, "no")]


@pytest.mark.parametrize(
    ("key", "text"), [("launch", "1us..2us"), ("bukcet", "1MiB"), ("bucket", "4MiB..1MiB:x2")]
)
def test_a_sweep_of_what_has_no_range_is_refused(key: str, text: str) -> None:
    with pytest.raises(InputError):
        swept_values(DDP(), "ddp", key, text)


@given(st.text(max_size=30), st.sampled_from([*options_of(DDP()), "x"]))
def test_any_text_is_an_option_or_refused(text: str, key: str) -> None:
    with suppress(InputError):
        assert isinstance(find(f"ddp:{key}={text}"), DDP)
