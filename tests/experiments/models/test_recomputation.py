"""What is computed again, as the user writes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.recomputation import WHOLE, parse_recomputation
from grouped_cases import each_case
from topologies.errors import InputError


@given(st.integers(0, 20), st.integers(0, 30))
def test_a_number_is_of_the_first_layers_of_a_stage(first: int, count: int) -> None:
    layers = parse_recomputation(f"full:{first}").layers(count)
    assert layers == [number < first for number in range(count)]


@given(st.integers(1, 20), st.integers(0, 30))
def test_every_so_many_th_layer_computes_again(every: int, count: int) -> None:
    layers = parse_recomputation(f"op/{every}").layers(count)
    assert [number for number, again in enumerate(layers, 1) if again] == list(
        range(every, count + 1, every)
    )


@given(st.sampled_from(WHOLE), st.integers(0, 30))
def test_a_word_alone_is_of_all_layers(word: str, count: int) -> None:
    assert parse_recomputation(word).layers(count) == [True] * count


def test_modules_are_joined_and_counted_once() -> None:
    assert parse_recomputation("moe+layernorm+moe").words == ("moe", "layernorm")


@each_case(
    "text",
    [
        *("", "all", "full+mlp", "mlp+", "full:", "full/0", "full:-1", "none:3", "none/2"),
        *("op:1:2", "full:" + "9" * 9, "mlp,moe", "full:\u0663", "mlp" + "+mlp" * 10_000 + "x"),
    ],
)
def test_a_wrong_text_says_what_would_be_right(text: str) -> None:
    with pytest.raises(InputError, match="none, selective, full, op, or modules joined by"):
        parse_recomputation(text)
