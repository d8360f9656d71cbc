"""VGG-16 as torchvision has it."""

from experiments.models.vgg import vgg16
from experiments.models.work import estimate

VGG = vgg16(224)
MODEL = estimate("vgg16", VGG, batch=1, device="v100", dtype="fp32")


def test_its_parameters_are_torchvisions() -> None:
    assert VGG.parameters == 138_357_544
    assert sum(len(layer.tensors) for layer in MODEL.layers) == 32
    assert MODEL.buffers == 0


def test_its_multiply_adds() -> None:
    """15.47 G: 15,346,630,656 in convolutions, 123,633,664 in the classifier."""
    assert VGG.flops == 2 * (15_346_630_656 + 123_633_664)


def test_its_layers_are_numbered_as_torchvision_numbers_them() -> None:
    assert [layer.name for layer in MODEL.layers] == [
        *(f"features.{place}" for place in (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)),
        *(f"classifier.{place}" for place in (0, 3, 6)),
    ]
    largest = MODEL.layers[13]
    assert [tensor.name for tensor in largest.tensors] == [
        "classifier.0.weight",
        "classifier.0.bias",
    ]
    assert [tensor.nbytes for tensor in largest.tensors] == [25088 * 4096 * 4, 4096 * 4]


def test_three_quarters_of_its_bytes_are_in_one_tensor() -> None:
    """What makes its communication hard to hide: they are there at the very start of the backward,
    though."""
    assert MODEL.layers[13].nbytes / MODEL.parameters > 0.74


def test_its_activations() -> None:
    """By hand, in elements: what ReLU leaves in place of the 13 convolutions' 13,547,520; the five
    poolings' 1,555,456 with their indices; averages 25,088; the two hidden layers' ReLU and dropout
    (and a mask), and the logits."""
    convolved = 224**2 * 128 + 112**2 * 256 + 56**2 * 768 + 28**2 * 1536 + 14**2 * 1536
    pooled = 112**2 * 64 + 56**2 * 128 + 28**2 * 256 + 14**2 * 512 + 7**2 * 512
    hidden = 2 * 4096
    assert (
        MODEL.activations
        == 4 * (convolved + pooled + 25_088 + 2 * hidden + 1000) + 8 * pooled + hidden
    )


def test_the_classifier_is_the_same_for_any_image() -> None:
    assert vgg16(96).parameters == VGG.parameters
    assert vgg16(448).flops - 4 * 2 * 15_346_630_656 == 2 * 123_633_664
