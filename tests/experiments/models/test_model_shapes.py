"""Parameters of shapes, part by part."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.mixer_shapes import Experts
from experiments.models.model_catalogue import MODELS, OPTIONS, find_transformer
from experiments.models.model_shapes import shape_of
from grouped_cases import each_case
from shipped_shapes import SHAPES, find_shape
from topologies.errors import InputError

SMALL = {"blocks": 1, "width": 96, "heads": 12, "hidden": 400, "vocabulary": 10}


def test_parts_of_gpt2() -> None:
    """Two tables; four matrices and two, with biases; two norms a block and another at the end."""
    shape = SHAPES["gpt2"]
    assert shape.embedding == (50257 + 1024) * 768
    assert shape.part_parameters("*") == 4 * 768**2 + 4 * 768
    assert shape.part_parameters("-") == 8 * 768**2 + 5 * 768
    assert shape.norms == (2 * 12 + 1) * 2 * 768
    assert shape.head_parameters == 0


def test_latent_attention_of_deepseek() -> None:
    """Five matrices, and norms of the two narrow vectors."""
    shape = SHAPES["deepseek_v3"]
    queries = 7168 * 1536 + 1536 * 128 * 192
    keys = 7168 * (512 + 64) + 512 * 128 * (128 + 128)
    assert shape.part_parameters("*") == queries + keys + 128 * 128 * 7168
    assert shape.norms == (2 * 61 + 1) * 7168 + 61 * (1536 + 512)
    assert (shape.key_size, shape.value_size) == (192, 128)


def test_the_first_blocks_are_dense() -> None:
    shape = SHAPES["deepseek_v3"]
    assert shape.parts["E"] == 58
    assert shape.part_parameters("-") == 3 * 7168 * 18432
    assert replace(shape, blocks=2).parts["E"] == 0


def test_a_token_passes_the_top_experts_and_all_shared_ones() -> None:
    """All experts have a matrix of the router."""
    shape = SHAPES["deepseek_v3"]
    expert, experts = 3 * 7168 * 2048, shape.experts
    assert experts
    assert shape.part_parameters("E") == shape.expert_parameters == expert
    assert shape.parameters - shape.active_parameters == 58 * (256 - 8) * expert
    smaller = replace(shape, experts=replace(experts, number=255, shared=0))
    assert shape.parameters - smaller.parameters == 58 * (2 * expert + 7168)


def test_all_parameters_are_active_without_experts() -> None:
    shape = SHAPES["llama3_8b"]
    blocks = 32 * (shape.part_parameters("*") + shape.part_parameters("-"))
    assert shape.active_parameters == shape.parameters
    assert shape.parameters == blocks + shape.embedding + shape.norms + shape.head_parameters


def test_heads_share_the_width() -> None:
    with pytest.raises(InputError, match=r"hidden=100 is no multiple of heads=12: .* heads=10"):
        shape_of({**SMALL, "width": 100})


def test_heads_of_queries_are_a_multiple_of_those_of_keys() -> None:
    with pytest.raises(InputError, match=r"heads=12 is no multiple of kv_heads=8: .*kv_heads=6"):
        shape_of({**SMALL, "kv_heads": 8})


def test_a_token_passes_no_more_experts_than_there_are() -> None:
    with pytest.raises(InputError, match="a token passes 3 of 2 experts"):
        shape_of({**SMALL, "experts": Experts(2, 3, 8)})


def refusal(text: str) -> str:
    with pytest.raises(InputError) as error:
        find_shape(text)
    return str(error.value)


# Parameters.


@each_case(
    ("name", "parameters"),
    [
        ("bert_base", 109_482_240),
        ("bert_large", 335_141_888),
        ("gpt2", 124_439_808),
        ("llama2_7b", 6_738_415_616),
        ("llama2_13b", 13_015_864_320),
        ("llama2_70b", 68_976_648_192),
        ("llama3_8b", 8_030_261_248),
        ("llama3_70b", 70_553_706_496),
        ("llama3_405b", 405_853_388_800),
        ("mixtral_8x7b", 46_702_792_704),
        ("qwen3_30b_a3b", 30_532_122_624),
        ("qwen3_235b_a22b", 235_093_634_560),
        ("vit_l16", 304_326_632),
    ],
)
def test_parameters_are_those_of_the_published_weights(name: str, parameters: int) -> None:
    assert SHAPES[name].parameters == parameters


@each_case(
    ("name", "total", "active"),
    [
        ("mixtral_8x7b", 46.7, 12.9),
        ("deepseek_v3", 671.0, 37.6),
        ("qwen3_30b_a3b", 30.5, 3.4),
        ("qwen3_235b_a22b", 235.1, 22.2),
    ],
)
def test_parameters_of_mixtures_of_experts(name: str, total: float, active: float) -> None:
    """In G; the reports say 47 and 13, 671 and 37, 30.5 and 3.3, 235 and 22."""
    shape = SHAPES[name]
    assert round(shape.parameters / 1e9, 1) == total
    assert round(shape.active_parameters / 1e9, 1) == active


@each_case(
    ("name", "published"),
    [
        ("gpt3_1_7b", 1.7),
        ("gpt3_3_6b", 3.6),
        ("gpt3_7_5b", 7.5),
        ("gpt3_18b", 18.4),
        ("gpt3_39b", 39.1),
        ("gpt3_76b", 76.1),
        ("gpt3_145b", 145.6),
        ("gpt3_175b", 174.6),
        ("gpt3_530b", 529.6),
        ("gpt3_1t", 1008.0),
    ],
)
def test_parameters_of_gpt3_are_those_of_narayanan(name: str, published: float) -> None:
    """Equation 2 of Narayanan et al. (SC 2021), which leaves out the last norm."""
    shape, seq = SHAPES[name], MODELS[name].size
    blocks, width = shape.blocks, shape.width
    factor = 1 + 13 / (12 * width) + (shape.vocabulary + seq) / (12 * blocks * width)
    assert shape.parameters - 2 * width == pytest.approx(12 * blocks * width**2 * factor, rel=1e-12)
    assert shape.parameters / 1e9 == pytest.approx(published, abs=0.06)


@each_case(
    ("size", "seq", "parameters"),
    [
        ("125m", 512, 124_131_840),
        ("350m", 1024, 354_936_832),
        ("760m", 2048, 760_470_528),
        ("1b", 4096, 1_320_144_896),
        ("3b", 8192, 2_667_566_080),
        ("7b", 16384, 6_717_579_264),
        ("7b", 65536, 6_918_905_856),
        ("13b", 32768, 13_011_240_960),
        ("30b", 512, 29_964_204_032),
    ],
)
def test_parameters_of_mpt_are_those_of_its_benchmarks(
    size: str, seq: int, parameters: int
) -> None:
    """mosaicml/llm-foundry, scripts/train/benchmarking/README.md: a sequence has as many learned
    positions as tokens."""
    assert find_shape(f"mpt_{size}:seq={seq}")[1].parameters == parameters


# Options.


def test_layers_hidden_heads_and_vocabulary() -> None:
    name, shape, seq = find_shape(
        "gpt3_1_7b:layers=4,hidden=1024,heads=16,vocab=50257,seq=1024,batch=3"
    )
    assert (name, shape.blocks, shape.width, shape.heads, seq) == ("gpt3_1_7b", 4, 1024, 16, 1024)
    assert (shape.kv_heads, shape.head_size, shape.hidden) == (16, 64, 4096)
    assert (shape.vocabulary, shape.positions) == (50257, 1024)


def test_without_options_the_shape_is_that_of_the_catalogue() -> None:
    for name, shape in SHAPES.items():
        seq = MODELS[name].size
        assert find_shape(name) == (name, shape, seq)
        values = (shape.blocks, shape.width, shape.heads, shape.hidden, shape.kv_heads)
        keys = ("layers", "hidden", "heads", "mlp", "kv_heads")
        written = ",".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))
        assert find_shape(f"{name}:{written}") == (name, shape, seq)


def test_groups_of_heads_and_the_ratio_of_the_mlp_stay() -> None:
    _, shape, _ = find_shape("llama3_70b:hidden=4096,heads=32")
    assert (shape.kv_heads, shape.head_size, shape.hidden) == (4, 128, 14336)
    _, shape, _ = find_shape("qwen3_30b_a3b:hidden=1024,heads=16")
    assert (shape.kv_heads, shape.head_size) == (2, 128)
    assert shape.experts is not None
    assert shape.experts.hidden == 384


def test_a_mixture_can_be_cut_to_its_dense_blocks() -> None:
    assert find_shape("deepseek_v3:layers=3")[1].parts["E"] == 0


def test_options_of_the_training_are_kept() -> None:
    entry = find_transformer("llama3_8b:batch=2,device=a100,layers=1")
    assert entry.choices == {"batch": 2, "device": "a100", "layers": 1}


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    assert refusal("lama3_8b") == (
        "no transformer or config.json 'lama3_8b': did you mean 'llama3_8b'? ('simctl list models' "
        "lists them)"
    )


@given(
    name=st.sampled_from([*SHAPES]),
    values=st.dictionaries(st.sampled_from(["seq", *OPTIONS]), st.integers(0, 300), max_size=4),
)
def test_any_options_are_a_shape_or_a_mistake(name: str, values: dict[str, int]) -> None:
    text = ",".join(f"{key}={value}" for key, value in values.items())
    message = ""
    try:
        _, shape, _ = find_shape(f"{name}:{text}")
        assert 0 < shape.active_parameters <= shape.parameters
    except InputError as error:
        message = str(error)
    assert "\n" not in message
