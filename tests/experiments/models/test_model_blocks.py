"""What blocks compute again, held against what frameworks keep."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.block_cut import BlockCut
from experiments.models.device_times import KERNEL, DeviceTimes
from experiments.models.kernel_times.attention import AttentionSizes
from experiments.models.kernels import computations
from experiments.models.mixer_shapes import window_keys
from experiments.models.mixers import mixture
from experiments.models.model_blocks import PYTHON, blocks
from experiments.models.transformer_blocks import Writer
from experiments.parallel.plan_text import Plan
from grouped_cases import each_case
from shipped_shapes import find_shape
from simulator.parallel.blocks import Block, BlockPart
from topologies.errors import InputError

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


def test_norms_give_what_products_keep_of_them() -> None:
    """In 8 bits under fp8. Adapters keep 16 bits, and frozen matrices without any keep nothing."""
    times = DeviceTimes("h100", "fp8")
    _, shape, seq = find_shape("llama3_8b")
    for cut, each in (BlockCut(), 2 * 8192 * 4096), (BlockCut(lora=8), 2 * 8192 * 4096):
        plain = blocks(shape, seq, cut, times)[1]
        block = blocks(shape, seq, replace(cut, recompute="layernorm"), times)[1]
        assert plain.kept - block.kept == pytest.approx(each)


@each_case("recompute", ["core_attn", "op"])
def test_windowed_attention_is_computed_again_with_its_window(recompute: str) -> None:
    _, shape, _ = find_shape("gpt_oss_120b:layers=2")
    seq = 32768
    windowed, full = blocks(shape, seq, BlockCut(recompute=recompute), TIMES)[1:3]
    plain = blocks(shape, seq, BlockCut(), TIMES)[1]
    sizes = AttentionSizes(1, 64, 8, 64, seq, seq, window=128)
    core = TIMES.attention("flash2", sizes, forward=True)
    if recompute == "core_attn":
        assert again(windowed) < 1.1 * core < again(full)
    else:
        # Attention is kept.
        assert again(windowed) == again(full) < sum(part.seconds for part in plain.forward)


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
    parts = blocks(shape, seq, BlockCut(lora=16), TIMES)
    assert sum(block.parameters for block in parts) == 44_564_480
    assert sum(block.frozen for block in parts) == pytest.approx(shape.parameters, rel=1e-4)


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


@each_case("name", ["llama3_8b", "mixtral_8x7b"])
def test_activations_in_8_bits_keep_half_and_take_longer(name: str) -> None:
    """Gated MLPs keep two vectors of each token and expert."""
    plain, block = layer(name), layer(name, fp8_activations=True)
    tokens, inside = (8192, 14336) if name == "llama3_8b" else (4096 * 2, 14336)
    assert plain.kept - block.kept == 2 * tokens * inside
    for usual, parts in ((plain.forward, block.forward), (plain.backward, block.backward)):
        assert sum(part.seconds for part in parts) > sum(part.seconds for part in usual)


def test_eager_kernels_move_the_bytes_that_their_sources_say() -> None:
    """For each token of Llama 3 8B two norms, a rotation of 32 and 8 heads, copies of 8 heads of
    keys and values for 32, and a gate of 14336 elements."""
    usual, block = layer("llama3_8b"), layer("llama3_8b", eager=True)
    token = 2 * 8192.0
    forward = 2 * (36 - 4) * 4096 + 20 * 5120 + 4 * 5120 - 4 * 2 * 6144 + 2 * 2 * 14336
    backward = 2 * (92 - 10) * 4096 + 20 * 5120 + 4 * 5120 - 4 * 2 * 6144 + 2 * 4 * 14336
    for more, kernels, parts, before in (
        (forward, 22, block.forward, usual.forward),
        (backward, 39, block.backward, usual.backward),
    ):
        seconds = sum(part.seconds for part in parts) - sum(part.seconds for part in before)
        moved = TIMES.traffic(more * token / 2)
        assert seconds == pytest.approx(moved + kernels * KERNEL)
    assert block.kept - usual.kept == token * (2 * 2 * 4096 + 14336)


def test_layer_norms_and_plain_activations_are_single_kernels_anyway() -> None:
    assert layer("gpt3_175b", eager=True) == layer("gpt3_175b")


def test_the_larger_the_rank_the_more_is_trained() -> None:
    few, many = layer("llama3_8b", lora=8), layer("llama3_8b", lora=64)
    assert many.parameters == 8 * few.parameters
    assert sum(part.seconds for part in many.forward) >= sum(part.seconds for part in few.forward)


def test_a_window_of_the_whole_sequence_is_full_attention() -> None:
    _, shape, seq = find_shape("gpt_oss_120b:layers=2")
    wide, full = replace(shape, window=seq), replace(shape, window=0)
    windowed, whole = (blocks(each, seq, BlockCut(), TIMES) for each in (wide, full))
    assert windowed == whole
    assert wide.seen(seq) == full.seen(seq) == 2 * seq
    assert windowed[1] is not windowed[2]


@given(st.integers(1, 300), st.integers(1, 300))
def test_a_window_sees_as_many_pairs_as_a_causal_mask_leaves(window: int, seq: int) -> None:
    """A pair at an edge of the mask counts half: they are as many as there are queries, and more at
    the far edge."""
    query, key = np.indices((seq, seq))
    pairs = np.count_nonzero((key <= query) & (query - key < window))
    edges = (seq + max(0, seq - window)) / 2
    assert seq * window_keys(window, seq) / 2 == pytest.approx(pairs - edges, abs=seq)


def test_windows_and_full_attention_take_turns() -> None:
    _, shape, _ = find_shape("gpt_oss_120b")
    assert shape.kinds[:4] == ["wE", "*E", "wE", "*E"]
    first, second = blocks(shape, 8192, BlockCut(), TIMES)[1:3]
    assert sum(part.seconds for part in first.forward) < sum(p.seconds for p in second.forward)
    assert first.kept == second.kept


def test_a_hybrid_has_a_mixer_in_each_block() -> None:
    """NVIDIA-Nemotron-3-Nano-30B-A3B: 31.6B parameters, of which a token passes 3.6B."""
    _, shape, seq = find_shape("nemotron3_nano")
    parts = blocks(shape, seq, BlockCut(), TIMES)
    assert len(parts) == 2 + 52
    assert len({id(block) for block in parts}) == 2 + 3
    total = sum(block.parameters + block.expert_parameters for block in parts)
    assert total == pytest.approx(shape.parameters, rel=1e-9) == pytest.approx(31.6e9, rel=1e-3)
    assert shape.active_parameters == pytest.approx(3.6e9, rel=0.01)


@each_case("cut", [{"tp": 2, "sp": True}, {"tp": 8, "sp": True}, {"cp": 4}])
def test_ranks_share_the_work_of_a_mamba_mixer(cut: dict[str, Any]) -> None:
    _, shape, seq = find_shape("nemotron3_nano:layers=1")
    whole, block = (blocks(shape, seq, BlockCut(**each), TIMES)[1] for each in ({}, cut))
    ranks = cut.get("tp", 1) * cut.get("cp", 1)
    assert block.kept == pytest.approx(whole.kept / ranks)
    assert sum(part.seconds for part in block.forward) > (
        sum(part.seconds for part in whole.forward) / ranks
    )
    exchanged = [part.nbytes for part in block.forward if part.group == "cp"]
    assert len(exchanged) == (2 if "cp" in cut else 0)


def test_mamba_is_cut_by_its_groups() -> None:
    _, shape, seq = find_shape("nemotron3_nano")
    with pytest.raises(InputError, match="has 8 groups of Mamba-2, which tp=16 does not divide"):
        blocks(shape, seq, BlockCut(tp=16, sp=True), TIMES)


def test_a_further_token_takes_a_layer_and_the_head_once_more() -> None:
    _, shape, seq = find_shape("deepseek_v3")
    plain, more = (blocks(shape, seq, BlockCut(mtp=mtp), TIMES) for mtp in (0, 2))
    *layers, joined, layer, shared, head = more
    assert (layers[:-3], head) == (plain[:-1], plain[-1])
    assert layer is more[-6] is more[-8]
    assert shared.forward == head.forward
    assert shared.parameters == shape.width
    assert joined.parameters == 2 * shape.width**2 + 2 * shape.width


def test_latent_experts_receive_narrow_tokens() -> None:
    """NVIDIA-Nemotron-3-Super-120B-A12B: 1024 of 4096 elements reach 22 experts."""
    _, shape, seq = find_shape("nemotron3_super:layers=2")
    block = blocks(shape, seq, BlockCut(ep=8), TIMES)[2]
    assert {part.nbytes for part in block.forward if part.group} == {seq * 22 * 1024 * 2}
    assert block.parameters == 4096 * (1 + 512 + 2 * 1024 + 2 * 5376)
    assert block.expert_parameters == 512 / 8 * 2 * 1024 * 2688
    whole = find_shape("nemotron3_super")[1]
    assert whole.parameters == pytest.approx(120e9, rel=0.01)
    assert whole.active_parameters == pytest.approx(12e9, rel=0.1)


def test_graphs_launch_the_kernels_of_layers() -> None:
    """The CPU launches none of them, and all else stays."""
    usual, graphs = layer("llama3_8b"), layer("llama3_8b", graphs="yes")
    assert sum(part.launch for part in usual.forward) > 0
    passes: dict[str, Any] = {kind: _unlaunched(getattr(usual, kind)) for kind in PASSES}
    assert graphs == replace(usual, **passes)


def launches(block: Block) -> Counter[str]:
    """Launches of a layer in each pass, in those of a usual layer."""
    return Counter(
        {
            kind: round(sum(part.launch for part in getattr(block, kind)) / TIMES.launch)
            for kind in ("forward", "backward")
        }
    )


def test_graphs_of_modules_take_their_launches_away() -> None:
    """Router and counts have 25 kernels; each layer has 15 of experts with ep=8."""
    some = launches(layer("qwen3_30b_a3b", ep=8, graphs="moe_router+moe_preprocess"))
    none = launches(layer("qwen3_30b_a3b", ep=8))
    assert none["forward"] - some["forward"] == PYTHON * (1 + 15 + 9)
    # The norm before each part is in none.
    for model, graphs, norms in (
        ("nemotron3_nano:layers=1", "mamba", 1),
        ("nemotron3_nano:layers=6", "attn", 1),
        ("llama3_8b", "attn+mlp", 2),
    ):
        left = launches(layer(model, graphs=graphs))
        assert left == {"forward": norms, "backward": norms}
        assert left.total() < launches(layer(model)).total()


@each_case(
    ("dtype", "scaling", "casts"),
    [
        ("bf16", "delayed", 0),
        ("fp8", "delayed", 1),
        ("mxfp8", "delayed", 16),
        ("fp8", "current", 32),
    ],
)
def test_each_expert_is_launched_and_cast_alone(dtype: str, scaling: Any, casts: int) -> None:
    """16 experts of a rank have two products. With delayed scaling a kernel casts all inputs."""
    _, shape, seq = find_shape("qwen3_30b_a3b")
    assert shape.experts
    writer = Writer(DeviceTimes("b200", dtype), BlockCut(ep=8, scaling=scaling), shape, seq)
    first, _, second = computations(writer.expert_mlps(shape.experts))
    assert (first.kernels, second.kernels_back) == (16 + casts, 2 * 16 + casts)
    torch = replace(writer, cut=Plan(ep=8, zero=3, scaling=scaling))
    assert computations(torch.expert_mlps(shape.experts))[0].kernels <= 5


@each_case(
    ("dtype", "plan", "kernels_back"),
    [
        ("bf16", Plan(ep=8, lora=16), 16),
        ("bf16", Plan(ep=8, lora=16, zero=3), 1),
        ("mxfp8", Plan(ep=8, lora=16), 16 + 16),
        ("fp8", Plan(ep=8, lora=16), 16 + 1),
        ("fp8", Plan(ep=8, lora=16, zero=1, fp8_gather=True), 16 + 1 + 16),
    ],
)
def test_a_backward_of_frozen_experts_has_no_kernels_for_weights(
    dtype: str, plan: Plan, kernels_back: int
) -> None:
    """16 experts of a rank have a product for inputs each, whose gradients are cast; on H100,
    matrices in one layout are transposed before it."""
    _, shape, seq = find_shape("qwen3_30b_a3b")
    assert shape.experts
    device = "b200" if dtype == "mxfp8" else "h100"
    writer = Writer(DeviceTimes(device, dtype), plan, shape, seq)
    assert computations(writer.expert_mlps(shape.experts))[0].kernels_back == kernels_back


@each_case(
    ("cut", "waits"),
    [
        ({}, 1),
        ({"capacity": 1.0}, 0),
        ({"overlap_ep": True, "batch": 8}, 0),
        ({"overlap_ep": True, "batch": 4}, 1),
        ({"recompute": "moe"}, 1),
        ({"schedule": "dual_pipe"}, 0),
    ],
)
def test_the_cpu_reads_how_many_tokens_go_to_experts(cut: dict[str, Any], waits: int) -> None:
    _, shape, seq = find_shape("mixtral_8x7b")
    block = blocks(shape, seq, Plan(dp=4, ep=4, **cut), TIMES)[1]
    assert sum(part.waits for part in block.forward) == waits
    assert sum(part.waits for part in block.again) == ("recompute" in cut)
    assert not any(part.waits for part in block.backward)


def test_other_kernels_than_an_all_to_all_take_tokens_unsorted() -> None:
    """DeepEP leaves out the sort of tokens where they start, and that of results."""
    _, shape, seq = find_shape("mixtral_8x7b")
    assert shape.experts
    writers = [
        Writer(TIMES, BlockCut(ep=4, dispatcher=each), shape, seq)
        for each in ("all_to_all", "deepep")
    ]
    first, second = (computations(mixture(each, shape.experts)) for each in writers)
    sorts = TIMES.memory(2 * seq * 2 * shape.width * 2)
    assert sum(each.forward for each in first) == pytest.approx(
        sum(each.forward for each in second) + 2 * sorts
    )


PASSES = "forward", "inputs", "weights", "backward", "again"


def _unlaunched(parts: tuple[BlockPart, ...]) -> tuple[BlockPart, ...]:
    return tuple(part._replace(launch=0.0) for part in parts)
