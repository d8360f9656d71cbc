"""The shapes of the transformers that are shipped, and their training."""

from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import MODELS, find_transformer
from experiments.models.model_shapes import TransformerShape
from experiments.parallel.plan_step import Training

SHAPES = {
    name: each.model for name, each in MODELS.items() if isinstance(each.model, TransformerShape)
}


def find_shape(text: str) -> tuple[str, TransformerShape, int]:
    """The name, the shape and the tokens of a sequence."""
    entry = find_transformer(text)
    return entry.name, entry.shape, entry.size


def training(model: str, device: str = "a100") -> Training:
    """A model on a device."""
    entry = find_transformer(model)
    return Training(entry.name, entry.shape, entry.size, DeviceTimes(device))
