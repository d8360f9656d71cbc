"""Models in files: what is written is read back to the bit."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.model_files import dumps, parse, read
from law_cases import tries
from model_texts import SMALL, TWO
from simulator.training.model import WIDTHS, Layer, Model, Tensor

EXAMPLE = Path(__file__).parents[3] / "examples" / "two_layer_model.yaml"
names = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="\x85\u2028\u2029"),
    min_size=1,
    max_size=12,
)
seconds = st.just(0.0) | st.floats(1e-12, 1e9)
sizes = st.just(0.0) | st.floats(1.0, 1e20) | st.integers(1, 2**60).map(float)


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Any model that a file can hold."""
    chosen = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    layers = [draw(layer(name)) for name in chosen]
    layers[0] = replace(
        layers[0], tensors=(*layers[0].tensors, Tensor("the one that there must be", 4.0))
    )
    return Model(
        draw(names),
        draw(st.integers(1, 2**31 - 1)),
        tuple(layers),
        dtype=draw(st.sampled_from(list(WIDTHS))),
        gradient_dtype=draw(st.sampled_from(list(WIDTHS))),
        optimizer=draw(seconds),
        state=draw(st.floats(0, 1e6)),
        inputs=draw(sizes),
        outputs=draw(sizes),
        memory_bandwidth=draw(st.just(float("inf")) | st.floats(1, 1e18)),
        multiprocessors=draw(st.integers(0, 2**31 - 1)),
        device=draw(names),
        source=draw(names),
        registration=draw(st.just(()) | st.permutations(range(len(layers))).map(tuple)),
    )


def layer(name: str) -> st.SearchStrategy[Layer]:
    """Any layer of that name."""
    tensors = st.dictionaries(names, sizes, max_size=3).map(
        lambda size_of: tuple(Tensor(*item) for item in size_of.items())
    )
    return st.builds(
        Layer, st.just(name), seconds, seconds, sizes, tensors, sizes, st.integers(0, 2**31 - 1)
    )


@given(models())
def test_what_is_written_is_read_back_to_the_bit(model: Model) -> None:
    assert parse(dumps(model), "m.yaml") == model


@tries(6, 20)
@given(models())
def test_as_json_it_is_the_same(model: Model) -> None:
    assert parse(json.dumps(yaml.safe_load(dumps(model))), "m.json") == model


def test_a_small_model_is_as_it_says() -> None:
    assert parse(SMALL, "m.yaml") == TWO


def test_what_is_as_usual_is_not_written() -> None:
    assert dumps(TWO) == (
        "name: m\nbatch: 4\nlayers:\n"
        "- name: a\n  forward: 1ms\n  backward: 2ms\n  parameters: {weight: 4MB, bias: 4kB}\n"
        "- {name: b, forward: 100us, backward: 0s, parameters: 1.048576MB}\n"
    )


def test_layers_may_be_registered_in_another_order() -> None:
    model = parse(SMALL + "registration: [b, a]\n", "m.yaml")
    assert model.registration == (1, 0)
    assert "registration: [b, a]" in dumps(model)


def test_the_example_can_be_read() -> None:
    model = read(EXAMPLE)
    assert (model.batch, model.state, model.optimizer) == (32, 2.0, 200e-6)
    assert model.parameters == 2**22 + 2**12 + 40e3
    assert model.forward == pytest.approx(1.26e-3)
    assert [tensor.name for tensor in model.layers[0].tensors] == ["weight", "bias"]


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    (tmp_path / "m.yml").write_text(dumps(TWO))
    (tmp_path / "m").write_text(SMALL)
    (tmp_path / "m.json").write_text("\ufeff" + json.dumps(yaml.safe_load(SMALL)))
    (tmp_path / "m.yaml.gz").write_bytes(gzip.compress(SMALL.encode()))
    for name in ("m.yml", "m", "m.json", "m.yaml.gz"):
        assert read(tmp_path / name) == TWO
