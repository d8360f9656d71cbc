"""Blocks of transformers, held against what is published of their memory, FLOPs and traffic."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.models.block_cut import BlockCut, Loss
from experiments.models.device_times import DeviceTimes
from experiments.models.model_blocks import blocks
from experiments.models.transformer_blocks import Writer
from grouped_cases import each_case
from shipped_shapes import SHAPES, find_shape
from simulator.parallel.blocks import Block, BlockPart
from topologies.errors import InputError

TIMES = DeviceTimes("a100")


def seconds(parts: tuple[BlockPart, ...]) -> float:
    return sum(part.seconds for part in parts)


def traffic(parts: tuple[BlockPart, ...]) -> Counter[str]:
    count: Counter[str] = Counter()
    for part in parts:
        if part.collective:
            count[f"{part.group} {part.collective}"] += 1
    return count


def layer(name: str, **cut: Any) -> Block:
    _, shape, seq = find_shape(name)
    routed = cut.pop("routed", False)
    return blocks(shape, cut.pop("seq", seq), BlockCut(**cut), TIMES, routed=routed)[-2]


@each_case(
    ("cut", "factor"),
    [
        ({}, 34 + 5 * 96 * 2048 / 12288),
        ({"tp": 8}, 10 + 24 / 8 + 5 * 96 * 2048 / 12288 / 8),
        ({"tp": 8, "sp": True}, 34 / 8 + 5 * 96 * 2048 / 12288 / 8),
        ({"tp": 8, "recompute": "selective"}, 10 + 24 / 8),
        ({"tp": 8, "sp": True, "recompute": "selective"}, 34 / 8),
        ({"recompute": "full"}, 2),
    ],
)
def test_activations_of_a_gpt_block_are_those_of_korthikanti(
    cut: dict[str, Any], factor: float
) -> None:
    """Korthikanti et al., arXiv 2205.05198, table 2, in units of sbh."""
    block = layer("gpt3_175b", micro=1, attention="unfused", dropout=True, **cut)
    assert block.kept / (2048 * 12288) == pytest.approx(factor)


@each_case(("tp", "sp"), [(1, False), (2, True), (8, True)])
def test_a_block_of_llama_holds_what_transformer_engine_holds(tp: int, sp: bool) -> None:
    """Bytes of a token of Llama 3 70B: inputs of two norms and their outputs, queries, keys and
    values in one tensor, rotated queries and keys, attention; gate and up, and their product. In
    the backward come the gradients of gate and up, and of the block's output."""
    block = layer("llama3_70b", tp=tp, sp=sp)
    h, f, kv = 8192, 28672, 1024
    assert block.kept * tp / 8192 == 2 * (4 * h + (h + 2 * kv) + (h + kv) + h + 2 * f + f)
    assert block.working * tp / 8192 == 2 * (2 * f + h)


@each_case(
    ("loss", "tp", "kept", "working"),
    [
        ("fused", 1, 4, 4),  # the softmax in fp32; a gradient in 16 bits after its conversion
        ("fused", 4, 4, 4),
        ("unfused", 4, 4, 4),
        ("eager", 1, 4, 8),  # the log-softmax in fp32; two gradients in fp32
        ("eager", 4, 4, 12),  # and its exponential
        ("compiled", 1, 2, 2),
        ("chunked", 1, 0, 12 / 8),
    ],
)
def test_a_head_holds_logits_as_its_framework_does(
    loss: str, tp: int, kept: float, working: float
) -> None:
    _, shape, _ = find_shape("llama3_8b")
    cut = BlockCut(tp=tp, sp=tp > 1, loss=loss)  # type: ignore[arg-type]
    head = blocks(shape, 4096, cut, TIMES)[-1]
    logits, inputs = 4096 * 128256 / tp, 2 * 4096 * 4096 * 2 / tp
    assert head.kept == kept * logits + inputs
    assert head.working == working * logits


@each_case("tp", [1, 2, 8])
def test_an_eager_loss_holds_most_and_moves_most(tp: int) -> None:
    _, shape, _ = find_shape("llama3_8b")
    cuts = [BlockCut(tp=tp, loss=loss) for loss in ("chunked", "compiled", "fused", "eager")]
    heads = [blocks(shape, 4096, cut, TIMES)[-1] for cut in cuts]
    nbytes = [head.kept + head.working for head in heads]
    assert nbytes == sorted(nbytes)
    times = [seconds(head.forward) + seconds(head.backward) for head in heads[1:]]
    assert times == sorted(times)


def test_an_unfused_loss_adds_kernels_and_what_they_move() -> None:
    """Of each logit in fp32, a difference is written and read, an exponential read and written, and
    a quotient written: 18 bytes more."""
    _, shape, _ = find_shape("gpt3_1_7b")
    fused, unfused = (blocks(shape, 1024, BlockCut(loss=loss), TIMES) for loss in _LOSSES)
    longer = seconds(unfused[-1].forward) - seconds(fused[-1].forward)
    assert longer == pytest.approx(TIMES.traffic(18 * 1024 * 51200))
    kernels = [
        [
            sum(part.launch for part in parts) / TIMES.launch
            for parts in (each.forward, each.backward)
        ]
        for each in (fused[0], unfused[0], fused[1], unfused[1], fused[-1], unfused[-1])
    ]
    assert np.diff(kernels, axis=0)[::2].round() == pytest.approx(
        np.array([[16, 8], [0, 20], [27, 11]])
    )


_LOSSES: tuple[Loss, Loss] = "fused", "unfused"


@each_case(("dtype", "factor"), [("bf16", 3), ("fp32", 1)])
def test_products_with_rows_of_an_odd_number_of_16_bits_take_longer(
    dtype: str, factor: float
) -> None:
    """A vocabulary of 50257 is slow, and one of 50258 is not. Megatron-LM pads the first one."""
    cut, (_, shape, _) = BlockCut(loss="eager"), find_shape("gpt3_1_7b")
    writer = Writer(DeviceTimes("a100", dtype), cut, shape, 1024)
    padded = replace(writer, cut=BlockCut(loss="fused"))
    assert padded.product(1024, 50257, 2048) == pytest.approx(
        padded.product(1024, 50258, 2048), rel=1e-3
    )
    odd, even = (writer.product(1024, vocabulary, 2048) for vocabulary in (50257, 50258))
    for part, other in zip(odd[:2], even[:2], strict=True):
        assert part == pytest.approx(factor * other, rel=1e-3)
    assert writer.product(1023, 50258, 2048).forward < 1.01 * even.forward


def test_the_backward_for_weights_needs_what_zero_bubble_says() -> None:
    """32sbh (Qi et al., arXiv 2401.10241, table 1)."""
    block = layer("gpt3_7_5b", dropout=True)
    assert block.kept_for_weights / (2048 * 4096) == pytest.approx(32)


@each_case("tp", [1, 2, 8])
@each_case("sp", [False, True])
@each_case(
    "more", [{"overlap_tp": False}, {"overlap_tp": True}, {"overlap_tp": True, "pieces": True}]
)
@each_case("name", ["gpt3_3_6b", "llama3_8b", "mixtral_8x7b", "deepseek_v3"])
def test_a_backward_takes_as_long_as_its_two_halves(
    name: str, tp: int, sp: bool, more: dict[str, Any]
) -> None:
    _, shape, seq = find_shape(name)
    sp = sp or (shape.experts is not None and tp > 1)
    for block in blocks(shape, seq, BlockCut(tp=tp, sp=sp, **more), TIMES):
        halves = seconds(block.inputs) + seconds(block.weights)
        assert seconds(block.backward) == pytest.approx(halves)


def test_tensor_parallel_reduces_twice_in_each_direction() -> None:
    block = layer("llama3_8b", tp=4)
    assert traffic(block.forward) == {"tp all_reduce": 2}
    assert traffic(block.backward) == {"tp all_reduce": 2}
    assert {part.nbytes for part in block.forward if part.group} == {8192 * 4096 * 2}


def test_sequence_parallel_moves_the_same_bytes_in_halves() -> None:
    """An all-reduce is a reduce-scatter and an all-gather. The backward gathers what norms gave
    once more."""
    block = layer("llama3_8b", tp=4, sp=True)
    assert traffic(block.forward) == {"tp all_gather": 2, "tp reduce_scatter": 2}
    assert traffic(block.backward) == {"tp all_gather": 4, "tp reduce_scatter": 2}


def test_computing_again_repeats_the_collectives_of_the_forward() -> None:
    block = layer("gpt3_175b", tp=8, recompute="full")
    assert traffic(block.again) == traffic(block.forward)
    assert seconds(block.again) == pytest.approx(seconds(block.forward))
    assert block.working > 0


def test_a_checkpoint_that_stops_leaves_out_the_last_product() -> None:
    whole = layer("mpt_7b", recompute="full")
    stops = layer("mpt_7b", recompute="full", stops=True)
    rows = 2048
    last = TIMES.product(rows, 4096, 4 * 4096)
    assert seconds(stops.again) == pytest.approx(
        seconds(whole.again) - last - TIMES.memory(3 * rows * 4096 * 2)
    )


def test_a_ring_of_context_parallel_sends_all_other_keys_and_values() -> None:
    block = layer("llama3_8b", cp=4)
    shifts = [part for part in block.forward if part.collective == "shift"]
    keys = 8192 / 4 * 2 * 8 * 128 * 2
    assert [part.nbytes for part in shifts] == [keys] * 3
    assert all(part.overlaps and part.seconds > 0 for part in shifts)
    assert [part.nbytes for part in block.backward if part.collective == "shift"] == [2 * keys] * 3


def test_a_busy_rank_of_experts_computes_and_sends_more() -> None:
    even, skewed = layer("deepseek_v3", ep=8), layer("deepseek_v3", ep=8, imbalance=1.5)
    assert seconds(skewed.forward) > seconds(even.forward)
    assert max(part.nbytes for part in skewed.forward) == pytest.approx(
        1.5 * max(part.nbytes for part in even.forward)
    )


def sent(parts: tuple[BlockPart, ...], group: str, size: int) -> float:
    """Bytes that a rank sends."""
    share = (size - 1) / size
    factors = {"all_reduce": 2 * share, "shift": 1.0}
    return sum(
        factors.get(part.collective, share) * part.nbytes for part in parts if part.group == group
    )


@each_case(
    ("cut", "group", "forward", "backward"),
    [
        # Megatron-LM: two all-reduces of sbh in each direction (Korthikanti et al., section 4).
        ({"tp": 4}, "tp", 2 * 2 * 4096, 2 * 2 * 4096),
        # Sequence parallel: as many bytes, and two gathers once more.
        ({"tp": 4, "sp": True}, "tp", 4 * 4096, 6 * 4096),
        # Keys and values of all ranks; then again, with their gradients.
        ({"cp": 4, "context": "ring"}, "cp", 2 * 1024, 2 * 2 * 1024),
        ({"cp": 4, "context": "gather"}, "cp", 2 * 1024, 2 * 2 * 1024),
        # DeepSpeed-Ulysses: queries, keys, values and outputs, each cut over the ranks.
        ({"cp": 4, "context": "ulysses"}, "cp", 2 * 5120 / 4, 2 * 5120 / 4),
    ],
)
def test_a_rank_sends_what_the_formulas_of_the_field_say(
    cut: dict[str, Any], group: str, forward: float, backward: float
) -> None:
    """Elements of a token of an 8192-token sequence: Llama 3 8B has 4096, and 1024 of keys."""
    block, unit = layer("llama3_8b", **cut), 3 / 4 * 8192 * 2
    assert sent(block.forward, group, 4) == pytest.approx(unit * forward)
    assert sent(block.backward, group, 4) == pytest.approx(unit * backward)
    halves = sent(block.inputs, group, 4) + sent(block.weights, group, 4)
    assert halves == pytest.approx(unit * backward)


def test_next_stages_get_a_share_under_sequence_parallel() -> None:
    assert layer("llama3_8b", micro=2).output == 2 * 8192 * 4096 * 2
    assert layer("llama3_8b", tp=4, sp=True).output == 8192 * 4096 * 2 / 4


def test_experts_send_four_times_what_their_tokens_are() -> None:
    block = layer("deepseek_v3", ep=64)
    each = 63 / 64 * 4096 * 8 * 7168 * 2
    assert sent(block.forward, "ep", 64) == pytest.approx(2 * each)
    assert sent(block.backward, "ep", 64) == pytest.approx(2 * each)


@each_case("cut", [{"tp": 4, "sp": True, "ep": 8}, {"tp": 2, "sp": True, "ep": 16, "cp": 2}])
def test_experts_are_cut_as_the_rest_unless_the_plan_says_otherwise(cut: dict[str, Any]) -> None:
    same = layer("deepseek_v3", **cut, etp=cut["tp"])
    assert same == layer("deepseek_v3", **cut)


def test_experts_that_are_not_cut_gather_no_tokens() -> None:
    """Each rank of tensor parallel sends its share of the tokens, and no expert is shared."""
    cut, whole = (layer("qwen3_235b_a22b", tp=4, sp=True, ep=8, etp=etp) for etp in (4, 1))
    assert sent(whole.forward, "ep", 8) == sent(cut.forward, "ep", 8)
    # What is left is that of attention.
    assert sent(whole.forward, "tp", 4) == pytest.approx(2 * 3 / 4 * 4096 * 4096 * 2)
    assert "etp" not in {part.group for part in whole.forward}
    assert whole.expert_parameters == 4 * cut.expert_parameters
    assert seconds(whole.forward) == pytest.approx(seconds(cut.forward), rel=0.2)


@pytest.mark.parametrize("routed", [False, True])
def test_payloads_of_128_tokens_are_those_of_deepep(routed: bool) -> None:
    """77 us at 98 GB/s for a dispatch in FP8, and 114 us at 127 GB/s for a combine in BF16
    (DeepEP, low latency, 8 ranks)."""
    block = layer("deepseek_v3", seq=128, ep=8, dispatch="fp8", routed=routed)
    dispatch, combine = (part.nbytes for part in block.forward if part.group)
    assert dispatch == 128 * 8 * (7168 + 56 * 4) == pytest.approx(77e-6 * 98e9, rel=0.02)
    assert combine == 128 * 8 * 7168 * 2 == pytest.approx(114e-6 * 127e9, rel=0.02)
    assert [part.nbytes for part in block.backward if part.group] == [combine] * 2


@each_case("name", ["gpt3_175b", "llama3_70b", "mixtral_8x7b", "deepseek_v3"])
def test_the_ranks_of_a_plan_hold_all_parameters_once(name: str) -> None:
    shape = SHAPES[name]
    plain = blocks(shape, 4096, BlockCut(), TIMES)
    assert sum(block.parameters + block.expert_parameters for block in plain) == pytest.approx(
        shape.parameters, rel=3e-4
    )
    if shape.experts:
        cut, experts = blocks(shape, 4096, BlockCut(ep=8), TIMES), shape.experts.number
        assert sum(block.expert_parameters for block in cut) * 8 == pytest.approx(
            shape.parts["E"] * experts * shape.expert_parameters
        )


def test_flops_of_a_block_take_as_long_as_its_peak_allows() -> None:
    """Forward sbh(24h + 4s), backward twice that (Zero Bubble, table 1): no block is faster than
    the device's peak, and a large one reaches more than half of it."""
    block = layer("gpt3_175b", attention="unfused")
    flops = 2048 * 12288 * (24 * 12288 + 4 * 2048)
    for parts, factor in ((block.forward, 1), (block.backward, 2)):
        assert 0.5 < factor * flops / 312e12 / seconds(parts) < 1


@each_case(
    ("micro", "tp", "seq", "kernels"),
    [(1, 4, 1024, 6), (1, 8, 1024, 10), (2, 8, 1024, 6), (3, 8, 1024, 10), (1, 4, 8192, 10)],
)
def test_a_softmax_is_fused_for_whole_fours_of_heads(
    micro: int, tp: int, seq: int, kernels: int
) -> None:
    """Of 4096 keys at most; else five kernels run, and the softmax is kept in fp32."""
    _, shape, _ = find_shape("gpt3_1_7b:heads=16")
    cut = BlockCut(micro=micro, tp=tp, attention="unfused")
    core, flash = (
        Writer(TIMES, each, shape, seq).core() for each in (cut, replace(cut, attention="flash2"))
    )
    scores = 2.0 * micro * 16 / tp * seq**2
    in_fp32 = kernels > 6
    assert (core.kernels, core.kernels_back) == (kernels, kernels + 2)
    assert core.kept - flash.kept == scores * (3 if in_fp32 else 1)
    moved = 18.5 if in_fp32 else 2
    assert core.forward > TIMES.memory(moved * scores)


@each_case(
    ("name", "cut", "words"),
    [
        ("gpt2", {"tp": 5}, "gpt2 has 12 heads, which tp=5 does not divide: take tp=1"),
        ("llama3_8b", {"ep": 2}, "no experts for ep=2: take ep=1"),
        ("mixtral_8x7b", {"ep": 3}, "8 experts, which ep=3 does not divide: take ep=1"),
        ("mixtral_8x7b", {"tp": 2}, "with tp=2 take sp=yes"),
        ("llama3_8b", {"cp": 3}, "take a seq that is a multiple of 6"),
        ("llama3_8b", {"cp": 16, "context": "ulysses"}, "take cp=8 or context=ring"),
    ],
)
def test_a_cut_that_does_not_divide_says_what_would(
    name: str, cut: dict[str, Any], words: str
) -> None:
    _, shape, seq = find_shape(name)
    with pytest.raises(InputError, match="take") as error:
        blocks(shape, seq, BlockCut(**cut), TIMES, name)
    assert words in str(error.value)


def test_pieces_hide_the_collectives_of_sequence_parallel_beside_products() -> None:
    """Each runs beside a product, and none of the computing is lost."""
    alone, pieces = (layer("llama3_8b", tp=4, sp=True, pieces=each) for each in (False, True))
    for some, others in ((alone.forward, pieces.forward), (alone.backward, pieces.backward)):
        assert traffic(some) == traffic(others)
        assert seconds(some) == pytest.approx(seconds(others))
        assert all(part.overlaps and part.seconds > 0 for part in others if part.group)
    assert not any(part.overlaps for part in alone.forward)
