"""NAME:key=value,... and files: what is understood, what is estimated, and what is said of the
rest."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.accelerators import ACCELERATORS, PRECISIONS, accelerator
from experiments.models.model_catalogue import MODELS, find, fits
from grouped_cases import each_case
from law_cases import tries
from shipped_shapes import SHAPES
from simulator.training.model import WIDTHS, Model
from topologies.errors import InputError

SMALL = ("resnet50", "vgg16", "bert_base", "bert_large", "gpt2", "llama_7b", "mpt_125m", "vit_l16")
"""Models that any device holds."""
GPUS = ("v100", "a100", "h100", "h200", "b200")


def refusal(text: str) -> str:
    with pytest.raises(InputError) as error:
        find(text)
    return str(error.value)


def one_line(text: str) -> str:
    message = refusal(text)
    assert "\n" not in message
    return message


def rate(text: str) -> float:
    model = find(text)
    return model.batch / model.compute


# Names.


@pytest.mark.parametrize("name", MODELS)
def test_every_name_is_found_with_its_defaults(name: str) -> None:
    entry = MODELS[name]
    model = find(name)
    batch, dtype, device = entry.defaults
    assert (model.name, model.batch, model.device) == (name, batch, device)
    assert find(f"{name}:") == model
    option = "seq" if name in SHAPES else "image"
    spelt = f"{name}:batch={batch},{option}={entry.size},device={device},dtype={dtype}"
    assert find(spelt) == model


@each_case("name", SMALL)
def test_the_default_of_a_small_model_fits_into_an_h100(name: str) -> None:
    """Parameters, gradients, the optimizer's state and activations."""
    model = find(name)
    needed = model.parameters * (1 + model.state) + model.gradients + model.activations
    assert needed < accelerator("h100").memory
    assert model.device == "h100"
    assert fits(model)


def test_defaults_are_the_first_that_fit() -> None:
    """The defaults of the four oldest models are smaller."""
    for name in set(SHAPES) - {"bert_large", "gpt2"}:
        entry = MODELS[name]
        assert replace(entry, setup=None).defaults == entry.defaults


def test_a_model_that_no_device_holds_has_a_batch_of_one() -> None:
    large = [name for name in MODELS if not fits(find(name))]
    assert "llama2_70b" in large
    assert "llama2_13b" not in large
    assert {MODELS[name].defaults.batch for name in large} == {1}


@each_case("name", SMALL)
@each_case("device", ACCELERATORS)
def test_no_estimate_passes_for_a_measurement(name: str, device: str) -> None:
    model = find(f"{name}:device={device},dtype={'fp32' if device == 'p100' else 'amp'}")
    assert model.source.startswith("estimated, not measured: FLOPs at ")
    assert device in model.source
    assert model.memory_bandwidth == ACCELERATORS[device].bandwidth
    assert model.multiprocessors == ACCELERATORS[device].multiprocessors
    assert (model.multiprocessors > 0) == (device != "cpu")


@each_case(
    ("text", "near"),
    [
        ("resnet5", "resnet50"),
        ("ResNet50", "resnet50"),
        ("bertlarge:batch=1", "bert_large"),
        ("resnet5:a=1.5", "resnet50"),
    ],
)
def test_a_name_that_is_none_is_answered_with_the_nearest(text: str, near: str) -> None:
    message = one_line(text)
    assert message.startswith(
        f"no model or file {text.partition(':')[0]!r}: did you mean {near!r}? "
    )
    assert message.endswith("('simctl list models' lists them)")


@each_case("text", ["", ":", ":batch=2", "zzzzzz", "x\0y", "\n", "a" * 5000])
def test_a_name_like_none_is_answered_with_all(text: str) -> None:
    message = one_line(text)
    assert "did you mean" not in message
    assert len(message) < 300


# Options.


def test_options_are_obeyed() -> None:
    model = find("bert_large:batch=3,seq=64,device=a100,dtype=tf32")
    assert (model.batch, model.device, model.dtype) == (3, "a100", "fp32")
    assert model.inputs == 3 * 64 * 3 * 8
    assert "156 TFLOP/s in tf32 of a100" in model.source
    assert find("resnet50:image=32,batch=2").inputs == 2 * 3 * 32**2 * 4


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("resnet50", "batch image device dtype power"),
        ("gpt2", "batch seq device dtype power layers hidden heads kv_heads mlp vocab"),
    ],
)
def test_a_wrong_option_is_answered_with_all(name: str, options: str) -> None:
    first, *rest = refusal(f"{name}:bach=1").splitlines()
    assert (
        first
        == f"{name} has no option 'bach': did you mean 'batch'? write {name}:key=value,... with"
    )
    assert [line.split()[0] for line in rest] == options.split()
    assert all("[" in line for line in rest)


# What is estimated.


@pytest.mark.parametrize("name", SMALL)
def test_a_faster_device_is_faster(name: str) -> None:
    times = [find(f"{name}:device={device},dtype=amp").compute for device in GPUS]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == len(times)


@given(
    name=st.sampled_from(SMALL),
    batch=st.integers(1, 500),
    dtype=st.sampled_from(["fp32", "tf32", "amp", "bf16"]),
)
def test_laws_of_the_batch(name: str, batch: int, dtype: str) -> None:
    """Parameters and optimizer know nothing of it, activations are linear, and time grows hardly
    faster than it: measured products of some sizes reach less than those of half the rows."""
    small, large = (find(f"{name}:batch={size},dtype={dtype}") for size in (batch, 2 * batch))
    assert [layer.tensors for layer in small.layers] == [layer.tensors for layer in large.layers]
    assert (small.optimizer, small.buffers) == (large.optimizer, large.buffers)
    assert large.activations == pytest.approx(2 * small.activations)
    assert small.forward < large.forward <= 2 * small.forward * 1.15
    assert small.gradients == small.parameters * WIDTHS[small.gradient_dtype] / WIDTHS[small.dtype]


@each_case(
    ("text", "images"),
    [
        ("resnet50:batch=256,device=v100,dtype=fp32", 367),
        ("resnet50:batch=256,device=v100,dtype=amp", 1200),
        ("resnet50:batch=256,device=a100,dtype=tf32", 938),
        ("resnet50:batch=256,device=a100,dtype=amp", 2470),
        ("resnet50:batch=64,device=p100,dtype=fp32", 219),
        ("vgg16:batch=64,device=p100,dtype=fp32", 154),
    ],
)
def test_images_are_trained_about_as_fast_as_measured(text: str, images: float) -> None:
    """Images/s of one GPU: NVIDIA DeepLearningExamples, PyTorch, ResNet50 v1.5, DGX-1 and DGX A100,
    21.03; and on P100 tensorflow/docs_src/performance/benchmarks.md, synthetic data, May 2017."""
    assert rate(text) == pytest.approx(images, rel=0.2)


@pytest.mark.parametrize(("device", "measured"), [("v100", 64e12), ("a100", 136e12)])
def test_a_block_of_bert_is_about_as_fast_as_measured(device: str, measured: float) -> None:
    """FLOP/s of forward and backward of a block, in 16 bits:
    github.com/fanghostt/transformers-benchmarks."""
    model = find(f"bert_large:batch=64,seq=128,device={device},dtype=amp")
    flops = 3 * 64 * (2 * 12 * 1024**2 * 128 + 4 * 128**2 * 1024)
    block = model.layers[1:3]
    assert flops / sum(layer.forward + layer.backward for layer in block) == pytest.approx(
        measured, rel=0.3
    )


@pytest.mark.parametrize(
    ("text", "peak"), [("llama_7b", 989e12), ("llama_7b:device=a100,seq=2048", 312e12)]
)
def test_llama_uses_about_half_of_the_peak(text: str, peak: float) -> None:
    """Model FLOPs utilisation: 6 FLOPs a parameter and token, and attention's, over the whole
    step."""
    model = find(text)
    tokens = model.inputs / 16
    flops = 6 * 6_738_415_616 * tokens + 3 * 32 * 2 * tokens**2 * 4096
    assert 0.4 < flops / model.compute / peak < 0.6


# Files.


def test_a_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    wanted = find("resnet50")

    def read(path: Path) -> Model:
        asked.append(path)
        return wanted

    monkeypatch.setattr("experiments.models.model_files.read", read)
    (tmp_path / "plain").write_text("")
    (tmp_path / "with:colon").write_text("")
    texts = [str(tmp_path / "plain"), str(tmp_path / "with:colon"), "no/such", "no.yaml"]
    assert all(find(text) is wanted for text in texts)
    assert asked == [Path(text) for text in texts]


def test_a_file_takes_no_options(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    assert (
        one_line(f"{path}:batch=2")
        == f"{str(path)!r} is a file, which takes no options: leave out 'batch=2'"
    )


@pytest.mark.parametrize("text", ["no.yaml", "no/where", "/", "..", "a\0/b"])
def test_a_path_to_nothing_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one_line(text)


# Anything.

KEYS = st.sampled_from(["batch", "image", "seq", "device", "dtype", "layers", "heads", "bach", ""])
VALUES = st.one_of(
    st.integers(-5, 10**10).map(str),
    st.sampled_from([*ACCELERATORS, *PRECISIONS]),
    st.text(max_size=8),
)
OPTIONS = st.lists(st.tuples(KEYS, VALUES).map("=".join), max_size=4).map(",".join)
SPELT = st.tuples(st.sampled_from([*SMALL, "resnet", "x"]), OPTIONS).map(":".join)


@given(text=st.one_of(SPELT, st.text(max_size=30)))
@tries(75, 300)
def test_any_text_is_a_model_or_a_mistake(text: str) -> None:
    message = ""
    try:
        assert isinstance(find(text), Model)
    except InputError as error:
        message = str(error)
    assert all(len(line) < 400 for line in message.splitlines())
