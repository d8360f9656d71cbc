"""Parameters of shapes, part by part."""

from dataclasses import replace

import pytest

from experiments.models.model_shapes import Experts, multi_head
from shipped_shapes import SHAPES
from topologies.errors import InputError


def test_parts_of_gpt2() -> None:
    """Two tables; four matrices and two, with biases; two norms a block and another at the end."""
    shape = SHAPES["gpt2"]
    assert shape.embedding == (50257 + 1024) * 768
    assert shape.attention == 4 * 768**2 + 4 * 768
    assert shape.mlp(shape.hidden) == 8 * 768**2 + 5 * 768
    assert shape.norms == (2 * 12 + 1) * 2 * 768
    assert shape.head_parameters == 0


def test_latent_attention_of_deepseek() -> None:
    """Five matrices, and norms of the two narrow vectors."""
    shape = SHAPES["deepseek_v3"]
    queries = 7168 * 1536 + 1536 * 128 * 192
    keys = 7168 * (512 + 64) + 512 * 128 * (128 + 128)
    assert shape.attention == queries + keys + 128 * 128 * 7168
    assert shape.norms == (2 * 61 + 1) * 7168 + 61 * (1536 + 512)
    assert (shape.key_size, shape.value_size) == (192, 128)


def test_the_first_blocks_are_dense() -> None:
    shape = SHAPES["deepseek_v3"]
    assert shape.expert_blocks == 58
    assert shape.mlp(shape.hidden) == 3 * 7168 * 18432
    assert replace(shape, blocks=2).expert_blocks == 0


def test_a_token_passes_the_top_experts_and_all_shared_ones() -> None:
    """All experts have a matrix of the router."""
    shape = SHAPES["deepseek_v3"]
    expert, experts = 3 * 7168 * 2048, shape.experts
    assert experts
    assert shape.mlp(experts.shared) == shape.mlp(experts.hidden) == expert
    assert shape.parameters - shape.active_parameters == 58 * (256 - 8) * expert
    smaller = replace(shape, experts=replace(experts, number=255, shared=0))
    assert shape.parameters - smaller.parameters == 58 * (2 * expert + 7168)


def test_all_parameters_are_active_without_experts() -> None:
    shape = SHAPES["llama3_8b"]
    blocks = 32 * (shape.attention + shape.mlp(14336))
    assert shape.active_parameters == shape.parameters
    assert shape.parameters == blocks + shape.embedding + shape.norms + shape.head_parameters


def test_heads_share_the_width() -> None:
    with pytest.raises(InputError, match=r"hidden=100 is no multiple of heads=12: .* heads=10"):
        multi_head(1, 100, 12, hidden=400, vocabulary=10)


def test_heads_of_queries_are_a_multiple_of_those_of_keys() -> None:
    with pytest.raises(InputError, match=r"heads=12 is no multiple of kv_heads=8: .*kv_heads=6"):
        multi_head(1, 96, 12, kv_heads=8, hidden=400, vocabulary=10)


def test_a_token_passes_no_more_experts_than_there_are() -> None:
    with pytest.raises(InputError, match="a token passes 3 of 2 experts"):
        multi_head(1, 96, 12, hidden=400, vocabulary=10, experts=Experts(2, 3, 8))
