"""A small model as text and as a value, and what is made of any text."""

import refusals
from experiments.models.model_files import parse
from simulator.training.model import Layer, Model, Tensor
from topologies.errors import InputError

SMALL = """\
name: m
batch: 4
layers:
- {name: a, forward: 1ms, backward: 2ms, parameters: {weight: 4MB, bias: 4kB}}
- {name: b, forward: 100us, backward: 0s, parameters: 1MiB}
"""
TWO = Model(
    "m",
    4,
    (
        Layer("a", 1e-3, 2e-3, tensors=(Tensor("weight", 4e6), Tensor("bias", 4e3))),
        Layer("b", 1e-4, 0.0, tensors=(Tensor("weight", 2.0**20),)),
    ),
)


def outcome(text: str, name: str) -> Model | str:
    """The model in a text, or the line with which it is refused."""
    try:
        return parse(text, name)
    except InputError as error:
        return str(error)


def refusal(text: str, name: str = "m.yaml") -> str:
    """The one line with which a text is refused."""
    return refusals.refusal(parse, text, name)
