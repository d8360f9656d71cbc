"""BERT, GPT-2 and Llama 2 as Hugging Face's transformers have them, and all shapes as plans take
them."""

from dataclasses import replace

import pytest

from experiments.models.accelerators import PRECISIONS
from experiments.models.block_cut import BlockCut
from experiments.models.device_times import DeviceTimes
from experiments.models.model_blocks import blocks
from experiments.models.model_shapes import TransformerShape
from experiments.models.transformer_blocks import Writer
from experiments.models.transformers import transformer
from flop_times import FlopTimes
from grouped_cases import each_case
from shipped_shapes import SHAPES
from simulator.training.model import Model

SEQ = 128
BERT_BASE, BERT_LARGE, GPT2, LLAMA_7B = (
    SHAPES[name] for name in ("bert_base", "bert_large", "gpt2", "llama_7b")
)


def modelled(shape: TransformerShape, seq: int = SEQ, dtype: str = "bf16") -> Model:
    cut = BlockCut(grads=PRECISIONS[dtype].gradients, dropout=shape.dropout)
    return transformer(Writer(DeviceTimes("h100", dtype), cut, shape, seq))


def flops(shape: TransformerShape, seq: int) -> float:
    return transformer(Writer(FlopTimes("h100"), BlockCut(), shape, seq)).forward


def registered(model: Model) -> list[str]:
    return [tensor.name for layer in model.registered for tensor in model.layers[layer].tensors]


@each_case(
    ("shape", "parameters", "tensors", "layers"),
    [
        (BERT_BASE, 109_482_240, 199, 26),
        (BERT_LARGE, 335_141_888, 391, 50),
        (GPT2, 124_439_808, 148, 27),
        (LLAMA_7B, 6_738_415_616, 291, 131),
    ],
)
def test_parameters_are_those_of_transformers(
    shape: TransformerShape, parameters: int, tensors: int, layers: int
) -> None:
    model = modelled(shape)
    assert model.parameters == 2 * parameters
    assert len(set(registered(model))) == len(registered(model)) == tensors
    assert len(model.layers) == layers
    assert model.state == 2


def test_llama_registers_its_norms_last_and_runs_them_first() -> None:
    model = modelled(LLAMA_7B)
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
    model = modelled(GPT2)
    assert model.layers[-1].name == "lm_head"
    assert model.layers[-1].tensors == ()
    assert model.layers[0].tensors[0].nbytes == 50257 * 768 * 2


@pytest.mark.parametrize("seq", [1, 128, 512])
def test_flops_of_bert(seq: int) -> None:
    """Two a weight and token, and 4 s^2 h of attention a block; the pooler sees one token."""
    weights = 24 * (4 * 1024**2 + 2 * 1024 * 4096)
    assert flops(BERT_LARGE, seq) == 2 * weights * seq + 24 * 4 * seq**2 * 1024 + 2 * 1024**2


@pytest.mark.parametrize("block", [0, 23])
def test_a_block_of_bert_keeps_34_bytes_a_token_and_element(block: int) -> None:
    """Korthikanti et al., MLSys 2023, section 4: 34 s b h in 16 bits, without the scores that fused
    attention drops."""
    layers = modelled(BERT_LARGE).layers
    attention, mlp = layers[1 + 2 * block : 3 + 2 * block]
    assert attention.activation + mlp.activation == 34 * SEQ * 1024


def test_a_block_of_llama_keeps_ten_times_its_width_and_three_its_hidden() -> None:
    """The inputs of two norms and of two matrices; queries, keys, values, rotated queries and keys,
    attention: 10 h. Gate, up, and the input of the last matrix: 3 f."""
    block = modelled(LLAMA_7B).layers[1:5]
    assert sum(layer.activation for layer in block) == 2 * SEQ * (10 * 4096 + 3 * 11008)


def test_logits_are_kept_in_fp32() -> None:
    model = modelled(LLAMA_7B)
    assert model.layers[-1].activation == SEQ * (32000 * 4 + 4096 * 2)
    assert model.outputs == SEQ * 32000 * 2


@pytest.mark.parametrize("dtype", ["fp32", "amp", "bf16", "fp8"])
def test_backward_is_twice_forward_or_more(dtype: str) -> None:
    for shape, seq in ((BERT_BASE, 512), (GPT2, 1024), (LLAMA_7B, 2048)):
        model = modelled(shape, seq, dtype)
        assert 1.5 < model.backward / model.forward < 2.6


# All shapes.


def cut(name: str) -> TransformerShape:
    """The first four blocks, with experts in the last if there are any."""
    return replace(SHAPES[name], blocks=4)


def test_layers_have_the_parameters_of_their_shapes() -> None:
    for name in SHAPES:
        assert modelled(cut(name)).parameters == 2 * cut(name).parameters


@each_case("name", SHAPES)
@each_case("dtype", ["amp", "bf16"])
def test_layers_of_a_strategy_are_the_blocks_of_a_plan_that_nothing_cuts(
    name: str, dtype: str
) -> None:
    shape, times = cut(name), DeviceTimes("h100", dtype)
    model = modelled(shape, 192, dtype)
    plan = BlockCut(grads=PRECISIONS[dtype].gradients, dropout=shape.dropout)
    whole = blocks(shape, 192, plan, times)
    assert model.forward == pytest.approx(sum(p.seconds for b in whole for p in b.forward))
    assert model.backward == pytest.approx(sum(p.seconds for b in whole for p in b.backward))
    assert model.activations == pytest.approx(sum(block.kept for block in whole))


HYBRIDS = {name for name, shape in SHAPES.items() if shape.mamba}


def test_a_token_multiplies_its_active_parameters() -> None:
    """Two FLOPs for each element of a matrix that a token passes, and attention's."""
    for name in set(SHAPES) - {"bert_base", "bert_large", "vit_l16"} - HYBRIDS:
        shape = replace(cut(name), biases=False, sinks=False)
        head = shape.head.parameters if shape.tied else 0
        multiplied = shape.active_parameters - shape.embedding - shape.norms + head
        scores = SEQ * shape.seen(SEQ) * shape.heads * (shape.key_size + shape.value_size)
        assert flops(shape, SEQ) == 2 * multiplied * SEQ + scores


@each_case(
    ("name", "layer", "tensors"),
    [
        (
            "bert_base",
            "embeddings",
            "word_embeddings position_embeddings token_type_embeddings LayerNorm",
        ),
        ("bert_base", "encoder.layer.0.attention", "query key value output.dense output.LayerNorm"),
        ("bert_base", "encoder.layer.0.mlp", "intermediate.dense output.dense output.LayerNorm"),
        ("gpt2", "embeddings", "transformer.wte transformer.wpe"),
        ("gpt2", "h.0.attn", "transformer.h.0.ln_1 attn.c_attn attn.c_proj"),
        ("gpt2", "h.0.mlp", "ln_2 mlp.c_fc mlp.c_proj"),
        ("gpt2", "ln_f", "transformer.ln_f"),
        ("mixtral_8x7b", "layers.3.mlp", "mlp.gate mlp.experts.gate_up_proj experts.down_proj"),
        (
            "deepseek_v3",
            "layers.0.self_attn",
            "q_a_proj q_a_layernorm q_b_proj kv_a_proj_with_mqa kv_a_layernorm kv_b_proj o_proj",
        ),
        ("deepseek_v3", "layers.2.mlp", "layers.2.mlp.gate_proj mlp.up_proj mlp.down_proj"),
        (
            "deepseek_v3",
            "layers.3.mlp",
            "mlp.gate experts.gate_up_proj experts.down_proj shared_experts.gate_proj "
            "shared_experts.up_proj shared_experts.down_proj",
        ),
        ("vit_l16", "embeddings", "class_token conv_proj encoder.pos_embedding"),
        ("vit_l16", "encoder_layer_0.self_attention", "ln_1 in_proj_weight in_proj_bias out_proj"),
        ("vit_l16", "head", "heads.head"),
    ],
)
def test_the_tensors_of_a_layer_have_the_names_of_the_library(
    name: str, layer: str, tensors: str
) -> None:
    (found,) = (each.tensors for each in modelled(cut(name)).layers if each.name == layer)
    matrices = (each.name.removesuffix(".weight").removesuffix(".bias") for each in found)
    for got, end in zip(dict.fromkeys(matrices), tensors.split(), strict=True):
        assert got.endswith(end)


def test_dropout_and_positions_are_left_out_where_there_are_none() -> None:
    """MPT has no dropout: a mask of a byte an element less, twice a block."""
    gpt, mpt = (replace(cut("mpt_1b"), dropout=dropped) for dropped in (True, False))
    kept = [modelled(shape, SEQ).layers[1].activation for shape in (gpt, mpt)]
    assert kept[0] - kept[1] == SEQ * 2048
    names = registered(modelled(replace(mpt, positions=0), SEQ))
    assert "transformer.wpe.weight" not in names
