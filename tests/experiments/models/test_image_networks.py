"""ResNet-50 and VGG-16 as torchvision has them."""

from collections import Counter

from experiments.models.block_cut import BlockCut
from experiments.models.device_times import DeviceTimes
from experiments.models.image_networks import ImageNetworks
from flop_times import FlopTimes
from grouped_cases import each_case
from simulator.training.model import Layer, Model

NETWORKS = ImageNetworks(DeviceTimes("v100", "fp32"), BlockCut())
FLOPS = ImageNetworks(FlopTimes("v100", "fp32"), BlockCut())
RESNET, VGG = "resnet50", "vgg16"


def network(maker: ImageNetworks, name: str, image: int = 224) -> Model:
    return maker.network(name, image)


MODEL, VGG_MODEL = network(NETWORKS, RESNET), network(NETWORKS, VGG)
RESNET_FLOPS, VGG_FLOPS = network(FLOPS, RESNET).forward, network(FLOPS, VGG).forward


def names(layer: Layer) -> list[str]:
    return [tensor.name for tensor in layer.tensors]


def test_its_parameters_are_torchvisions() -> None:
    assert MODEL.parameters == 4 * 25_557_032
    assert sum(len(layer.tensors) for layer in MODEL.layers) == 161


def test_its_batch_norms() -> None:
    """53 with 26,560 channels; of each two running statistics and a counter of 8 bytes."""
    channels = [layer.channels for layer in MODEL.layers if layer.channels]
    assert (len(channels), sum(channels)) == (53, 26_560)
    assert MODEL.buffers == 2 * 4 * 26_560 + 53 * 8


def test_its_multiply_adds() -> None:
    """4.09 G; the convolutions alone 4,087,136,256, the classifier 2048 x 1000."""
    assert RESNET_FLOPS == 2 * (4_087_136_256 + 2048 * 1000)


def test_its_activations() -> None:
    """By hand, in elements: 11,113,984 that convolutions leave to their batch norms; as many that
    ReLU leaves, without the 1,505,280 of the four downsamples; a pooled 64 x 56 x 56 with an index
    of eight bytes each; 2048 averages and 1000 logits."""
    convolved, pooled = 11_113_984, 64 * 56**2
    elements = convolved + convolved - 1_505_280 + pooled + 2048 + 1000
    assert MODEL.activations == 4 * elements + 8 * pooled
    assert 80e6 < MODEL.activations < 110e6
    half = network(ImageNetworks(DeviceTimes("v100", "amp"), BlockCut(micro=3)), RESNET)
    assert half.activations == 3 * (2 * elements + 8 * pooled)


def test_layers_run_as_they_are_registered() -> None:
    first = [layer.name.removeprefix("layer1.") for layer in MODEL.layers[:6]]
    assert first == ["conv1", "0.conv1", "0.conv2", "0.conv3", "0.downsample", "1.conv1"]
    assert [layer.name for layer in MODEL.layers if "downsample" in layer.name] == [
        f"layer{stage}.0.downsample" for stage in (1, 2, 3, 4)
    ]
    assert MODEL.layers[-1].name == "fc"
    assert len(MODEL.layers) == 54
    assert MODEL.registered == tuple(range(54))


def test_tensors_have_their_names_and_sizes() -> None:
    layers = {layer.name: layer for layer in MODEL.layers}
    assert names(layers["conv1"]) == ["conv1.weight", "bn1.weight", "bn1.bias"]
    assert names(layers["layer2.0.conv2"]) == [
        f"layer2.0.{name}" for name in ("conv2.weight", "bn2.weight", "bn2.bias")
    ]
    assert names(layers["layer2.0.downsample"]) == [
        f"layer2.0.downsample.{name}" for name in ("0.weight", "1.weight", "1.bias")
    ]
    sizes = [tensor.nbytes for tensor in layers["layer4.2.conv2"].tensors]
    assert sizes == [512 * 512 * 9 * 4, 2048, 2048]
    assert names(layers["fc"]) == ["fc.weight", "fc.bias"]


def test_the_stem_needs_no_gradient_of_the_image() -> None:
    """118 M multiply-adds in the backward, not 236 M."""
    stem, later = network(FLOPS, RESNET).layers[:2]
    assert stem.forward == stem.backward == 2 * 64 * 3 * 49 * 112**2
    assert later.backward == 2 * later.forward


@each_case("image", [32, 97, 160, 288])
def test_another_image_is_other_work_for_the_same_parameters(image: int) -> None:
    resized = network(FLOPS, RESNET, image)
    assert resized.parameters == MODEL.parameters
    assert (resized.forward < RESNET_FLOPS) == (image < 224)
    assert resized.inputs == 12 * image**2


def test_which_convolutions_winograds_algorithm_is_for() -> None:
    """The 3x3 of every block but the first of the stages that halve the image: 13 of 16."""
    count: Counter[bool] = Counter()

    class Counted(FlopTimes):
        def convolution(self, flops: float, nbytes: float, *, square: bool) -> float:
            count[square] += 1
            return flops

    network(ImageNetworks(Counted("v100", "fp32"), BlockCut()), RESNET)
    assert count == {True: 13, False: 40}


# VGG-16.


def test_vggs_parameters_are_torchvisions() -> None:
    assert VGG_MODEL.parameters == 4 * 138_357_544
    assert sum(len(layer.tensors) for layer in VGG_MODEL.layers) == 32
    assert VGG_MODEL.buffers == 0


def test_vggs_multiply_adds() -> None:
    """15.47 G: 15,346,630,656 in convolutions, 123,633,664 in the classifier."""
    assert VGG_FLOPS == 2 * (15_346_630_656 + 123_633_664)


def test_vggs_layers_are_numbered_as_torchvision_numbers_them() -> None:
    assert [layer.name for layer in VGG_MODEL.layers] == [
        *(f"features.{place}" for place in (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)),
        *(f"classifier.{place}" for place in (0, 3, 6)),
    ]
    largest = VGG_MODEL.layers[13]
    assert names(largest) == ["classifier.0.weight", "classifier.0.bias"]
    assert [tensor.nbytes for tensor in largest.tensors] == [25088 * 4096 * 4, 4096 * 4]


def test_vggs_activations() -> None:
    """By hand, in elements: what ReLU leaves in place of the 13 convolutions' 13,547,520; the five
    poolings' 1,555,456 with their indices; averages 25,088; the two hidden layers' ReLU and dropout
    (and a mask), and the logits."""
    convolved = 224**2 * 128 + 112**2 * 256 + 56**2 * 768 + 28**2 * 1536 + 14**2 * 1536
    pooled = 112**2 * 64 + 56**2 * 128 + 28**2 * 256 + 14**2 * 512 + 7**2 * 512
    hidden = 2 * 4096
    assert (
        VGG_MODEL.activations
        == 4 * (convolved + pooled + 25_088 + 2 * hidden + 1000) + 8 * pooled + hidden
    )
