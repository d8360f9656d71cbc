"""Bytes of weights and KV caches, and deployments that cannot be."""

from typing import Any

import pytest

from deployments import deploy
from experiments.serving.deployment import parse_cut
from grouped_cases import each_case
from refusals import refusal
from topologies.errors import InputError


def test_weights_are_those_of_the_model() -> None:
    """Llama 3 70B has 70.55 billion parameters; its embedding and head stay in 16 bits."""
    ends = 2 * 128256 * 8192
    blocks = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672)
    whole = deploy("", precision="bf16").weights
    assert whole == pytest.approx(2 * (blocks + ends), rel=1e-3)
    assert deploy("", precision="fp8").weights == pytest.approx(blocks + 2 * ends, rel=1e-3)
    assert deploy("tp=8", precision="bf16").weights == pytest.approx(whole / 8)


def test_a_token_has_keys_and_values_of_its_groups() -> None:
    """80 blocks with 8 groups of 128 elements: 320 KiB in 16 bits, and 160 KiB where engines have
    it in 8. More GPUs than groups have each group several times."""
    assert deploy("", engine="sglang").kv_bytes(1) == 80 * 2 * 8 * 128 * 2
    assert deploy("tp=8", engine="sglang").kv_bytes(1) == 80 * 2 * 128 * 2
    assert deploy("tp=16").kv_bytes(1) == deploy("tp=8").kv_bytes(1)
    for engine in ("trtllm", "vllm"):
        assert deploy("", engine=engine).kv_bytes(1) == 80 * 2 * 8 * 128
        assert deploy("", engine=engine, precision="bf16").kv_bytes(1) == 80 * 2 * 8 * 128 * 2


def test_windows_and_narrow_vectors_are_fewer_bytes() -> None:
    """Half of the blocks of GPT-OSS see 128 tokens; a token of DeepSeek-V3 has 576 elements in each
    of 61 blocks, on every GPU."""
    near, far = (deploy("", "gpt_oss_120b", precision="fp4").kv_bytes(n) for n in (128, 1024))
    assert far / near == pytest.approx((128 + 1024) / (2 * 128))
    assert deploy("tp=8", "deepseek_v3").kv_bytes(1) == 61 * 576


def test_attention_of_groups_is_whole_and_has_sequences_of_its_own() -> None:
    one, groups = deploy("tp=8", "deepseek_v3"), deploy("tp=8,dp=8,ep=8", "deepseek_v3")
    assert groups.weights > one.weights
    assert groups.kv_bytes(4096) == one.kv_bytes(4096)
    assert groups.fits(4096) > 6 * one.fits(4096)


def test_experts_in_4_bits_leave_attention_in_16() -> None:
    gpt_oss = deploy("", "gpt_oss_120b", precision="fp4")
    assert (gpt_oss.attention, gpt_oss.inner) == ("bf16", "mxfp4")
    llama = deploy("", device="b200", precision="fp4")
    assert (llama.attention, llama.inner) == ("nvfp4", "nvfp4")
    assert deploy("", "deepseek_v3").inner == "fp8_block"


@each_case(
    ("cut", "model", "about", "message"),
    [
        ("tp=3", "llama3_70b", {}, "64 heads, which 3 GPUs do not share evenly"),
        ("tp=8,dp=3", "llama3_70b", {}, "dp=3 does not divide tp=8"),
        ("tp=8,ep=8", "llama3_70b", {}, "ep=8: llama3_70b has no experts"),
        ("pp=81", "llama3_70b", {}, "pp=81: llama3_70b has 80 blocks"),
        ("mtp=9", "llama3_70b", {}, "mtp=9, 0.7 of them accepted: expected up to 8 tokens"),
        ("mtp=1", "llama3_70b", {"accepted": 1.5}, "mtp=1, 1.5 of them accepted: expected"),
        ("tp=8", "bert_base", {}, "bert_base cannot be served here"),
        ("tp=8", "llama3_70b", {"precision": "fp4"}, "h200 has no nvfp4: it has"),
        ("tp=8", "llama3_70b", {"device": "a100"}, "a100 has no fp8: it has"),
    ],
)
def test_what_cannot_be_is_refused(
    cut: str, model: str, about: dict[str, Any], message: str
) -> None:
    assert message in refusal(deploy, cut, model, **about)


@each_case("text", ["tp=0", "tp", "cp=2", "mtp=-1", "tp=2,tp=4", "tp=x", "tp=-1"])
def test_cuts_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_cut(text)


def test_cuts_are_read_as_they_are_written() -> None:
    assert str(parse_cut("tp=8, dp=8, ep=4")) == "tp=8,dp=8,ep=4"
