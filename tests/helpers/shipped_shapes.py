"""The shapes of the transformers that are shipped."""

from experiments.models.model_catalogue import MODELS, find_transformer
from experiments.models.model_shapes import TransformerShape

SHAPES = {
    name: each.model for name, each in MODELS.items() if isinstance(each.model, TransformerShape)
}


def find_shape(text: str) -> tuple[str, TransformerShape, int]:
    """The name, the shape and the tokens of a sequence."""
    entry = find_transformer(text)
    return entry.name, entry.shape, entry.size
