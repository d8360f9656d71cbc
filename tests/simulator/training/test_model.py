"""What a training step sees of a model."""

from dataclasses import replace

import pytest

from grouped_cases import each_case
from refusals import refusal
from simulator.training.model import Layer, Model, Tensor
from topologies.errors import InputError

LAYER = Layer("fc", 1.0, 2.0, 10.0, (Tensor("weight", 400.0), Tensor("bias", 4.0)), buffers=8.0)


def test_a_model_adds_up_its_layers() -> None:
    model = Model("m", 4, (LAYER, Layer("relu", 0.5, 0.25, 5.0)), optimizer=0.125)
    assert (model.forward, model.backward, model.compute) == (1.5, 2.25, 3.875)
    assert (model.parameters, model.gradients, model.buffers, model.activations) == (
        404.0,
        404.0,
        8.0,
        15.0,
    )
    assert model.registered == (0, 1)


def test_gradients_travel_in_their_own_type() -> None:
    assert Model("m", 1, (LAYER,), gradient_dtype="bf16").gradients == 202.0


@each_case(
    ("changes", "message"),
    [
        ({"layers": ()}, "m has no layers"),
        ({"layers": (Layer("relu", 1.0, 1.0),)}, "m has no gradients"),
        (
            {"layers": (Layer("fc", -1.0, 1.0, tensors=LAYER.tensors),)},
            "layer fc of m has forward = -1.0",
        ),
        ({"layers": (Layer("fc", 1.0, float("nan"), tensors=LAYER.tensors),)}, "backward = nan"),
        ({"layers": (Layer("fc", 1.0, 1.0, tensors=(Tensor("w", -4.0),)),)}, "w = -4.0"),
        ({"batch": 0}, "a batch of 0"),
        ({"dtype": "int3"}, "dtype 'int3'"),
        ({"optimizer": -1.0}, "optimizer = -1.0"),
        ({"memory_bandwidth": 0.0}, "memory bandwidth of 0.0"),
        ({"registration": (1, 1)}, "each of them once"),
        ({"layers": (replace(LAYER, arrival=(0,)),)}, "each parameter once"),
        ({"layers": (replace(LAYER, arrival=(0, 2)),)}, "each parameter once"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Model(**({"name": "m", "batch": 1, "layers": (LAYER,)} | changes))  # type: ignore[arg-type]


def test_ranks_may_have_times_of_their_own() -> None:
    layer = Layer(
        "a", 2.0, 4.0, tensors=(Tensor("w", 4.0),), forwards=(1.0, 3.0), backwards=(4.0, 4.0)
    )
    model = Model("m", 1, (layer, replace(layer, name="b")), optimizer=1.0, optimizers=(1.0, 1.0))
    assert model.ranks == 2
    assert model.forward_of(2).tolist() == [2.0, 6.0]
    assert model.backward_of(1).tolist() == [8.0]
    assert model.optimizer_of(2).tolist() == [1.0, 1.0]
    assert "the model has the times of 2 ranks, 3 is too many" in refusal(model.forward_of, 3)
    for change in ({"backwards": ()}, {"forwards": (1.0,)}, {"backwards": (1.0, -1.0)}):
        with pytest.raises(InputError, match="layer b of m"):
            replace(model, layers=(layer, replace(layer, name="b", **change)))
    assert "model m has optimizers of 1 ranks, and the first layer of 2" in refusal(
        replace, model, optimizers=(1.0,)
    )
