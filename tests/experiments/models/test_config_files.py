"""Hugging Face's config.json: families, defaults, and files that are none."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.config_files import FAMILIES, parse
from experiments.models.model_catalogue import choose, find
from experiments.models.model_shapes import TransformerShape
from grouped_cases import each_case
from law_cases import tries
from model_texts import CONFIGS, PLAIN
from shipped_shapes import SHAPES, find_shape
from topologies.errors import InputError


def shape_in(text: str) -> tuple[TransformerShape, int]:
    entry = parse(text, "config.json")
    return entry.shape, entry.size


def parameters(config: dict[str, Any]) -> int:
    return shape_in(json.dumps(config))[0].parameters


def refusal(text: str) -> str:
    with pytest.raises(InputError) as error:
        parse(text, "config.json")
    return str(error.value)


@each_case("name", CONFIGS)
def test_a_config_is_the_shape_of_the_catalogue(name: str) -> None:
    entry = parse(json.dumps(CONFIGS[name] | {"architectures": ["any"]}), "config.json")
    assert entry.shape == SHAPES[name]


def test_parameters_of_qwen3_8b() -> None:
    config = {**PLAIN, "model_type": "qwen3", "head_dim": 128, "vocab_size": 151936}
    sizes = {"num_hidden_layers": 36, "intermediate_size": 12288}
    assert parameters(config | sizes) == 8_190_735_360


def test_parameters_of_mpt_7b_with_alibi() -> None:
    """The published weights have neither biases nor learned positions."""
    config = {**CONFIGS["mpt_1b"], "d_model": 4096, "n_heads": 32, "n_layers": 32}
    changes = {"vocab_size": 50432, "no_bias": True, "attn_config": {"alibi": True}}
    assert parameters(config | changes) == 6_649_286_656


def test_a_file_takes_options(tmp_path: Path) -> None:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(CONFIGS["llama3_8b"]))
    entry = choose(f"{path}:seq=2")
    assert entry
    assert (entry.name, entry.choices, entry.size) == ("tiny.json", {"seq": 2}, 2)
    name, shape, seq = find_shape(f"{path}:layers=2,seq=131072")
    assert (name, shape.blocks, seq) == ("tiny.json", 2, 131072)
    assert find_shape(str(path))[2] == 4096
    with pytest.raises(InputError, match=r"tiny\.json: seq=131073: it is 1 to 131072"):
        find_shape(f"{path}:seq=131073")


def test_a_smaller_model_keeps_the_defaults_of_the_help(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_text(json.dumps(CONFIGS["llama3_8b"] | {"num_hidden_layers": 80}))
    entry, usual = choose(f"{path}:layers=1"), choose(str(path))
    assert entry
    assert usual
    named = ",".join(f"{key}={value}" for key, value in usual.defaults._asdict().items())
    again = choose(f"{path}:layers=1,{named}")
    assert again
    assert entry.defaults == again.defaults == usual.defaults


def test_a_file_is_a_model_with_options(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["gpt2"]))
    model = find(f"{path}:batch=3,device=a100,dtype=bf16")
    assert (model.name, model.batch, model.device) == ("config.json", 3, "a100")
    assert model.layers == find("gpt2:batch=3,device=a100,dtype=bf16").layers
    assert find(str(path)).batch == 32


def test_a_trace_is_no_config(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [], "model_type": ""}')
    assert choose(str(path)) is None
    assert choose(str(tmp_path)) is None


@each_case(
    ("changes", "message"),
    [
        ({"model_type": "lama"}, "model_type 'lama' is unknown: did you mean 'llama'?"),
        ({"model_type": 7}, "model_type 7 is unknown: simctl knows bert, deepseek_v3, gpt2"),
        ({"hidden_size": 4097}, "hidden=4097 is no multiple of heads=32"),
        ({"num_key_value_heads": 5}, "heads=32 is no multiple of kv_heads=5"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: 0: "),
        ({"num_hidden_layers": 10**19}, "num_hidden_layers: 10000000000000000000: "),
        ({"num_hidden_layers": "32"}, "num_hidden_layers: '32' is not a whole number"),
        ({"vocab_size": None}, "vocab_size: none is not a whole number"),
        ({"mlp_bias": True}, "mlp_bias: true: input should be False"),
    ],
)
def test_a_wrong_value_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    text = refusal(json.dumps(CONFIGS["llama3_8b"] | changes, indent=1))
    assert text.startswith("config.json")
    assert message in text
    assert "\n" not in text


def test_experts_in_some_blocks_are_refused() -> None:
    config = CONFIGS["qwen3_30b_a3b"]
    assert "mlp_only_layers" in refusal(json.dumps(config | {"mlp_only_layers": [1]}))
    assert "decoder_sparse_step" in refusal(json.dumps(config | {"decoder_sparse_step": 2}))


@each_case(
    ("text", "message"),
    [
        ("", "config.json is empty: it describes nothing"),
        ('{"model_type": "llama", "hidden', "config.json line 1: "),
        ("{}", "config.json: model_type is missing: simctl knows bert"),
        ("[" * 100_000, "config.json is nested too deep"),
        ('{"model_type": "llama", "model_type": "gpt2"}', "is there twice"),
        ('{"model_type": "llama", "x": NaN}', "NaN is no number"),
        ('{"model_type": "llama"}', "is missing"),
        ("[]", "model_type is missing"),
        ("\x00", "is not text"),
    ],
)
def test_a_file_that_is_no_config_is_refused_in_one_line(text: str, message: str) -> None:
    reason = refusal(text)
    assert message in reason
    assert "\n" not in reason


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**40),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@tries(10, 40)
@given(data=st.data(), family=st.sampled_from([*CONFIGS]))
def test_any_values_are_a_shape_or_a_mistake(data: st.DataObject, family: str) -> None:
    keys = st.sampled_from([*CONFIGS[family]])
    changes = data.draw(st.dictionaries(keys, VALUES, max_size=3))
    message = ""
    try:
        shape, seq = shape_in(json.dumps(CONFIGS[family] | changes))
        assert 0 < shape.active_parameters <= shape.parameters
        assert seq > 0
    except InputError as error:
        message = str(error)
    assert "\n" not in message


def test_all_families_are_tested() -> None:
    assert {config["model_type"] for config in CONFIGS.values()} | {"qwen3"} == set(FAMILIES)


@each_case(
    ("name", "changes", "message"),
    [
        ("gpt_oss_20b", {"layer_types": ["full_attention"] * 3}, "full attention in every so many"),
        ("gpt_oss_20b", {"layer_types": ["chunked_attention"] * 24}, "layer_types"),
        ("gpt_oss_20b", {"sliding_window": 0}, "sliding_window: 0: "),
        (
            "nemotron3_nano",
            {"hybrid_override_pattern": "ME*"},
            "pattern has 3 layers, and the model",
        ),
        ("nemotron3_nano", {"hybrid_override_pattern": "M" * 51 + "X"}, "hybrid_override_pattern"),
        ("nemotron3_nano", {"n_routed_experts": 0}, "has E: say how many experts there are"),
        ("nemotron3_nano", {"moe_latent_size": -1}, "moe_latent_size: -1"),
    ],
)
def test_layers_that_simctl_does_not_know_are_refused(
    name: str, changes: dict[str, Any], message: str
) -> None:
    text = refusal(json.dumps(CONFIGS[name] | changes))
    assert message in text
    assert "\n" not in text


def test_attention_may_be_windowed_everywhere_or_nowhere() -> None:
    config, turns = CONFIGS["gpt_oss_20b"], ("sliding_attention", "full_attention")
    windowed, full = (
        shape_in(json.dumps(config | {"layer_types": [kind] * 24}))[0] for kind in turns
    )
    assert (windowed.parts["w"], full.parts["w"]) == (24, 0)
