"""What blocks compute again, held against what frameworks keep."""

from typing import Any

import pytest

from experiments.models.device_times import DeviceTimes
from experiments.models.model_blocks import blocks
from experiments.models.model_shapes import BlockCut
from grouped_cases import each_case
from shipped_shapes import find_shape
from simulator.parallel.blocks import Block

TIMES = DeviceTimes("h100")


def layer(name: str, **cut: Any) -> Block:
    _, shape, seq = find_shape(name)
    return blocks(shape, seq, BlockCut(**cut), TIMES)[-2]


def again(block: Block) -> float:
    return sum(part.seconds for part in block.again)


def test_selective_recomputation_is_that_of_the_core_of_attention() -> None:
    """Megatron-LM: `selective` recomputes the module core_attn unless others are named."""
    for attention in ("unfused", "flash2"):
        usual = {"tp": 4, "attention": attention}
        assert layer("gpt3_175b", recompute="selective", **usual) == layer(
            "gpt3_175b", recompute="core_attn", **usual
        )


@each_case("name", ["llama3_8b", "deepseek_v3"])
@each_case(
    "words", ["core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"]
)
def test_a_module_takes_part_of_a_forward_and_saves_part_of_what_is_kept(
    name: str, words: str
) -> None:
    """What a block does not have is not computed again."""
    plain, block, full = (layer(name, recompute=each) for each in ("none", words, "full"))
    assert 0 <= again(block) < again(full)
    assert full.kept < block.kept <= plain.kept
    assert block.working - plain.working <= plain.kept - block.kept
    assert (again(block) > 0) == (
        words in ("core_attn", "layernorm")
        or (words == "mlp" if name == "llama3_8b" else words != "mlp")
    )


def test_experts_that_compute_again_send_their_tokens_again() -> None:
    block = layer("deepseek_v3", ep=8, recompute="moe")
    exchanges = [part.nbytes for part in block.forward if part.group == "ep"]
    assert [part.nbytes for part in block.again if part.group == "ep"] == exchanges


def test_modules_inside_experts_are_computed_again_once() -> None:
    inside = "moe+moe_act+shared_experts"
    assert layer("deepseek_v3", recompute=inside) == layer("deepseek_v3", recompute="moe")


def test_norms_are_computed_again_from_their_inputs() -> None:
    """Their outputs are the inputs of products: 2sbh each."""
    plain, block = layer("llama3_8b"), layer("llama3_8b", recompute="layernorm")
    assert plain.kept - block.kept == 2 * (2 * 8192 * 4096)


def test_every_second_product_is_kept_as_in_torchtitan() -> None:
    """Of wq, wk, wv, wo, w1, w3 and w2 the outputs of wq, wv, w1 and w2 are kept, with that of
    attention and the input of the block."""
    block, token = layer("llama3_8b", recompute="op"), 2 * 8192
    assert block.kept == token * (4096 + 4096 + 1024 + 4096 + 14336 + 4096)
    compiled = layer("llama3_8b", recompute="op", compiled=True)
    assert block.kept - compiled.kept == token * 4096
    products = [(1024, 4096), (4096, 4096), (14336, 4096)]
    least = sum(TIMES.product(8192, *sides) for sides in products)
    assert least < again(block) < again(layer("llama3_8b", recompute="full")) / 2


@pytest.mark.parametrize("recompute", ["full", "op", "mlp+layernorm"])
def test_recomputation_changes_no_other_pass(recompute: str) -> None:
    plain, block = layer("llama3_8b"), layer("llama3_8b", recompute=recompute)
    assert (block.forward, block.backward) == (plain.forward, plain.backward)
    assert (block.inputs, block.weights) == (plain.inputs, plain.weights)


def test_adapters_of_llama_2_70b_are_those_of_mlperf() -> None:
    """Its benchmark of LoRA trains 44,564,480 elements of rank 16 on attention."""
    _, shape, seq = find_shape("llama2_70b")
    made = blocks(shape, seq, BlockCut(lora=16), TIMES)
    assert sum(block.parameters for block in made) == 44_564_480
    assert sum(block.frozen for block in made) == pytest.approx(shape.parameters, rel=1e-4)


@each_case("name", ["llama3_8b", "deepseek_v3", "mixtral_8x7b"])
@each_case("more", [{}, {"tp": 4, "sp": True}, {"adapters": "all"}, {"recompute": "full"}])
def test_frozen_matrices_have_no_gradients(name: str, more: dict[str, Any]) -> None:
    plain, block = layer(name, **{**more, "adapters": "attention"}), layer(name, lora=8, **more)
    assert 0 < block.parameters < 0.05 * plain.parameters
    assert (block.frozen, block.frozen_experts) == (plain.parameters, plain.expert_parameters)
    assert (block.expert_parameters > 0) == (name != "llama3_8b" and "adapters" in more)
    assert block.kept <= plain.kept
    assert block.kept_for_weights <= plain.kept_for_weights
    forward, backward = (
        sum(part.seconds for part in parts) for parts in (block.forward, block.backward)
    )
    assert forward > sum(part.seconds for part in plain.forward)
    assert backward < sum(part.seconds for part in plain.backward)


def test_the_larger_the_rank_the_more_is_trained() -> None:
    few, many = layer("llama3_8b", lora=8), layer("llama3_8b", lora=64)
    assert many.parameters == 8 * few.parameters
    assert sum(part.seconds for part in many.forward) >= sum(part.seconds for part in few.forward)
