"""BERT, GPT-2 and Llama 2 as Hugging Face's transformers have them."""

from dataclasses import replace

import pytest

from experiments.models.device_times import estimate
from experiments.models.model_shapes import Shape
from experiments.models.transformers import architecture, scores
from experiments.models.work import Architecture
from grouped_cases import each_case
from shipped_shapes import SHAPES
from simulator.training.model import Model

SEQ = 128
BERT_BASE, BERT_LARGE, GPT2, LLAMA_7B = (
    SHAPES[name] for name in ("bert_base", "bert_large", "gpt2", "llama_7b")
)


def modelled(architecture: Architecture, dtype: str = "bf16") -> Model:
    return estimate("model", architecture, batch=1, device="h100", dtype=dtype)


def registered(model: Model) -> list[str]:
    return [tensor.name for layer in model.registered for tensor in model.layers[layer].tensors]


@each_case(
    ("architecture", "parameters", "tensors", "layers"),
    [
        (architecture(BERT_BASE, SEQ), 109_482_240, 199, 26),
        (architecture(BERT_LARGE, SEQ), 335_141_888, 391, 50),
        (architecture(GPT2, SEQ), 124_439_808, 148, 27),
        (architecture(LLAMA_7B, SEQ), 6_738_415_616, 291, 131),
    ],
)
def test_parameters_are_those_of_transformers(
    architecture: Architecture, parameters: int, tensors: int, layers: int
) -> None:
    model = modelled(architecture)
    assert architecture.parameters == parameters
    assert model.parameters == 2 * parameters
    assert len(set(registered(model))) == len(registered(model)) == tensors
    assert len(model.layers) == layers
    assert model.state == 2


def test_names_of_bert() -> None:
    block = "encoder.layer.0"
    assert registered(modelled(architecture(BERT_BASE, SEQ)))[:21] == [
        *(f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")),
        *(f"embeddings.LayerNorm.{name}" for name in ("weight", "bias")),
        *(
            f"{block}.attention.self.{of}.{name}"
            for of in ("query", "key", "value")
            for name in ("weight", "bias")
        ),
        *(
            f"{block}.attention.output.{of}.{name}"
            for of in ("dense", "LayerNorm")
            for name in ("weight", "bias")
        ),
        *(f"{block}.intermediate.dense.{name}" for name in ("weight", "bias")),
        *(
            f"{block}.output.{of}.{name}"
            for of in ("dense", "LayerNorm")
            for name in ("weight", "bias")
        ),
    ]


def test_names_of_gpt2() -> None:
    names = registered(modelled(architecture(GPT2, SEQ)))
    parts = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
    assert names[:14] == [
        *("transformer.wte.weight", "transformer.wpe.weight"),
        *(f"transformer.h.0.{part}.{name}" for part in parts for name in ("weight", "bias")),
    ]
    assert names[-2:] == ["transformer.ln_f.weight", "transformer.ln_f.bias"]


def test_llama_registers_its_norms_last_and_runs_them_first() -> None:
    model = modelled(architecture(LLAMA_7B, SEQ))
    block = "model.layers.31"
    assert registered(model)[0] == "model.embed_tokens.weight"
    assert registered(model)[-11:] == [
        *(f"{block}.self_attn.{of}_proj.weight" for of in "qkvo"),
        *(f"{block}.mlp.{of}_proj.weight" for of in ("gate", "up", "down")),
        *(f"{block}.{of}_layernorm.weight" for of in ("input", "post_attention")),
        *("model.norm.weight", "lm_head.weight"),
    ]
    assert [layer.name for layer in model.layers[1:5]] == [
        *(
            "layers.0.input_layernorm",
            "layers.0.self_attn",
            "layers.0.post_attention_layernorm",
            "layers.0.mlp",
        )
    ]


def test_the_head_of_gpt2_is_its_embedding() -> None:
    """So the largest gradient is there last of all."""
    model = modelled(architecture(GPT2, SEQ))
    assert model.layers[-1].name == "lm_head"
    assert model.layers[-1].tensors == ()
    assert model.layers[0].tensors[0].nbytes == 50257 * 768 * 2


@pytest.mark.parametrize("seq", [1, 128, 512])
def test_flops_of_bert(seq: int) -> None:
    """Two a weight and token, and 4 s^2 h of attention a block; the pooler sees one token."""
    weights = 24 * (4 * 1024**2 + 2 * 1024 * 4096)
    assert (
        architecture(BERT_LARGE, seq).flops
        == 2 * weights * seq + 24 * 4 * seq**2 * 1024 + 2 * 1024**2
    )


@pytest.mark.parametrize("seq", [2, 1024])
def test_flops_of_gpt2(seq: int) -> None:
    """A causal attention is half of a full one; the tied head multiplies as well."""
    weights = 12 * 12 * 768**2 + 50257 * 768
    assert architecture(GPT2, seq).flops == 2 * weights * seq + 12 * 2 * seq**2 * 768


@pytest.mark.parametrize("seq", [2, 4096])
def test_flops_of_llama(seq: int) -> None:
    """All parameters but the embedding's and the norms' multiply."""
    weights = 6_738_415_616 - 32000 * 4096 - 65 * 4096
    assert architecture(LLAMA_7B, seq).flops == 2 * weights * seq + 32 * 2 * seq**2 * 4096


@pytest.mark.parametrize("block", [0, 23])
def test_a_block_of_bert_keeps_34_bytes_a_token_and_element(block: int) -> None:
    """Korthikanti et al., MLSys 2023, section 4: 34 s b h in 16 bits, without the scores that fused
    attention drops."""
    layers = modelled(architecture(BERT_LARGE, SEQ)).layers
    attention, mlp = layers[1 + 2 * block : 3 + 2 * block]
    assert attention.activation + mlp.activation == 34 * SEQ * 1024


def test_a_block_of_gpt2_keeps_as_much() -> None:
    attention, mlp = modelled(architecture(GPT2, SEQ)).layers[1:3]
    assert attention.activation + mlp.activation == 34 * SEQ * 768


def test_a_block_of_llama_keeps_eight_times_its_width_and_four_its_hidden() -> None:
    """Two norms; queries, keys, values, attention; two sums: 8 h. Gate, up, silu and their product:
    4 f."""
    block = modelled(architecture(LLAMA_7B, SEQ)).layers[1:5]
    assert sum(layer.activation for layer in block) == 2 * SEQ * (8 * 4096 + 4 * 11008)


def test_logits_and_their_logarithms_are_kept() -> None:
    model = modelled(architecture(LLAMA_7B, SEQ))
    assert model.layers[-1].activation == SEQ * 32000 * (2 + 4)
    assert model.outputs == SEQ * 32000 * 2


@pytest.mark.parametrize("dtype", ["fp32", "amp", "bf16", "fp8"])
def test_backward_is_about_twice_forward(dtype: str) -> None:
    for layers in (
        architecture(BERT_BASE, 512),
        architecture(GPT2, 1024),
        architecture(LLAMA_7B, 2048),
    ):
        model = modelled(layers, dtype)
        assert 1.5 < model.backward / model.forward < 2.2


# All shapes.


def cut(name: str) -> Shape:
    """The first four blocks, with experts in the last if there are any."""
    return replace(SHAPES[name], blocks=4)


def test_architectures_have_the_parameters_of_their_shapes() -> None:
    for name in SHAPES:
        assert architecture(cut(name), SEQ).parameters == cut(name).parameters


def test_a_token_multiplies_its_active_parameters() -> None:
    """Two FLOPs for each element of a matrix that a token passes, and attention's."""
    for name in set(SHAPES) - {"bert_base", "bert_large", "vit_l16"}:
        shape = replace(cut(name), biases=False)
        parts, head = shape.parts, shape.head.parameters
        multiplied = shape.active_parameters - parts.embedding - parts.norms - parts.head + head
        scores = SEQ**2 * shape.blocks * shape.heads * (shape.key_size + shape.value_size)
        assert architecture(shape, SEQ).flops == 2 * multiplied * SEQ + scores


def test_shared_keys_and_values_are_read_once() -> None:
    """Eight heads of queries share a head of keys."""
    shape = cut("llama3_70b")
    alone = replace(shape, kv_heads=shape.heads)
    shared, whole = (scores(each, SEQ) for each in (shape, alone))
    assert (shared.flops, shared.kept) == (whole.flops, whole.kept)
    assert shared.moved == SEQ * 8192 * (2 + 2 / 8)
    assert whole.moved == SEQ * 8192 * 4


def test_names_of_mixtral() -> None:
    names = registered(modelled(architecture(cut("mixtral_8x7b"), SEQ)))
    block = "model.layers.3"
    assert names[-11:] == [
        *(f"{block}.self_attn.{of}_proj.weight" for of in "qkvo"),
        f"{block}.mlp.gate.weight",
        *(f"{block}.mlp.experts.{of}_proj" for of in ("gate_up", "down")),
        *(f"{block}.{of}_layernorm.weight" for of in ("input", "post_attention")),
        *("model.norm.weight", "lm_head.weight"),
    ]


def test_names_of_deepseek() -> None:
    model = modelled(architecture(cut("deepseek_v3"), SEQ))
    layers = {layer.name: [tensor.name for tensor in layer.tensors] for layer in model.layers}
    attention, dense, experts = (
        [name.removeprefix(f"model.{layer}.").removesuffix(".weight") for name in layers[layer]]
        for layer in ("layers.0.self_attn", "layers.2.mlp", "layers.3.mlp")
    )
    assert attention == [
        *("q_a_proj", "q_a_layernorm", "q_b_proj"),
        *("kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj", "o_proj"),
    ]
    assert dense == ["gate_proj", "up_proj", "down_proj"]
    assert experts == [
        *("gate", "experts.gate_up_proj", "experts.down_proj"),
        *(f"shared_experts.{of}_proj" for of in ("gate", "up", "down")),
    ]


def test_names_of_vit() -> None:
    names = registered(modelled(architecture(cut("vit_l16"), 197)))
    assert names[:4] == [
        "class_token",
        "conv_proj.weight",
        "conv_proj.bias",
        "encoder.pos_embedding",
    ]
    assert (
        names[6].removeprefix("encoder.layers.encoder_layer_0.") == "self_attention.in_proj_weight"
    )
    assert names[-2:] == ["heads.head.weight", "heads.head.bias"]


def test_dropout_and_positions_are_left_out_where_there_are_none() -> None:
    """MPT has no dropout: a mask of a byte an element less, twice a block."""
    gpt, mpt = (replace(cut("mpt_1b"), dropout=dropped) for dropped in (True, False))
    kept = [modelled(architecture(shape, SEQ)).layers[1].activation for shape in (gpt, mpt)]
    assert kept[0] - kept[1] == SEQ * 2048
    names = registered(modelled(architecture(replace(mpt, positions=0), SEQ)))
    assert "transformer.wpe.weight" not in names
