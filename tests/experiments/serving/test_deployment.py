"""Bytes of deployments, deployments that cannot be, and ways to serve under limits."""

from typing import Any

import pytest

from deployments import deploy
from experiments.serving.deployment import Deployment, parse_cut
from experiments.serving.operating_point import Load
from experiments.serving.search import Limits, Served, cuts, search
from grouped_cases import each_case
from refusals import refusal
from simulator.uncertainty.interval import LEVEL
from topologies.catalogue import find
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


def test_cuts_are_read_as_they_are_written() -> None:
    assert str(parse_cut("tp=8, dp=8, ep=4")) == "tp=8,dp=8,ep=4"


FREE = Limits(float("inf"), float("inf"))
LOAD = Load(1024.0, 1024.0, 1.0)
MACHINE = find("hgx_h200")


def found(deployment: Deployment, limits: Limits = FREE) -> list[Served]:
    return list(search(deployment, MACHINE.build, 8, LOAD, limits, LEVEL))


def test_cuts_share_gpus_evenly() -> None:
    assert [str(cut) for cut in cuts(deploy(""), 8)] == ["", "tp=2", "tp=4", "tp=8"]
    assert "tp=8,dp=8,ep=8" in map(str, cuts(deploy("", "deepseek_v3"), 8))


def test_the_best_comes_first_and_is_within_the_limits() -> None:
    limits = Limits(1.0, 0.02)
    ways = found(deploy(""), limits)
    rates = [way.tokens for way in ways]
    assert rates == sorted(rates, reverse=True)
    assert all(limits.met_by(way.point) and way.instances * way.gpus == 8 for way in ways)


def test_tighter_limits_never_give_more() -> None:
    deployment = deploy("", "gpt_oss_120b", precision="fp4")
    rates = [found(deployment, Limits(1.0, tpot))[0].tokens for tpot in (0.01, 0.02, 0.04, 1.0)]
    assert rates == sorted(rates)


def test_limits_that_nothing_meets_name_the_least() -> None:
    with pytest.raises(InputError, match=r"with one sequence tp=8 has a TTFT of .* and a TPOT of"):
        found(deploy(""), Limits(1e-6, 1e-6))


def test_models_that_fit_nowhere_are_refused() -> None:
    with pytest.raises(InputError, match=r"no way to serve deepseek_v3 on 8 GPUs: .* GB more"):
        found(deploy("", "deepseek_v3", precision="bf16"))
