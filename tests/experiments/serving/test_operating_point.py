"""Laws of iterations and operating points."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments import deploy
from experiments.models.accelerators import accelerator
from experiments.serving.deployment import WIDTHS, PrefillWorkers, sent_seconds
from experiments.serving.iterations import EXCHANGES, decode, prefill
from experiments.serving.operating_point import (
    LIMITS,
    Factor,
    Load,
    Point,
    overheads,
    point,
    prefills,
    work_of,
)
from grouped_cases import each_case
from refusals import refusal
from topologies.catalogue import find
from topologies.errors import InputError

MACHINE = find("hgx_h200").build(8)
LOAD = Load(1024.0, 1024.0, 16.0)


def test_a_decode_reads_the_cache() -> None:
    """At the bandwidth of memory at most, and not much slower where there is much to read."""
    deployment = deploy("tp=8")
    least = 256 * deployment.kv_bytes(8192.0) / accelerator("h200").bandwidth
    assert least < decode(deployment, MACHINE, 256.0, 8192.0).seconds.context < 2 * least


def test_products_take_at_least_reading_their_weights() -> None:
    """All but the embedding, whose rows are looked up."""
    deployment = deploy("tp=8")
    parts = decode(deployment, MACHINE, 1.0, 1.0).seconds
    embedding = 2 * 128256 * 8192 / 8
    least = (deployment.weights - embedding) / accelerator("h200").bandwidth
    assert least < parts.attention + parts.inner + parts.head < 4 * least


def test_a_prefill_does_the_arithmetic_of_its_tokens() -> None:
    deployment = deploy("tp=8")
    parts = prefill(deployment, MACHINE, 8192.0).seconds
    flops = 2 * (deployment.shape.active_parameters - 2 * 128256 * 8192) * 8192 / 8
    least = flops / accelerator("h200").peak["fp8"]
    assert least < parts.attention + parts.inner < 3 * least


def test_one_gpu_exchanges_nothing() -> None:
    deployment = deploy("", "llama3_8b")
    assert decode(deployment, MACHINE, 4.0, 10.0).seconds.exchange == 0
    served = point(deployment, MACHINE, LOAD)
    assert sum(served.parts[name] for name in EXCHANGES) == 0


def test_groups_of_attention_gather_and_scatter() -> None:
    whole, groups = (
        decode(deploy(cut, "deepseek_v3"), MACHINE, 1024.0, 1024.0).seconds
        for cut in ("tp=8", "tp=8,dp=8,ep=8")
    )
    assert 0 < groups.exchange < whole.exchange


@each_case(
    ("device", "most"),
    [("b200", 3), ("h200", 9)],
)
def test_experts_in_4_bits_take_at_least_reading_them(device: str, most: float) -> None:
    """Kernels of Triton that unpack weights on Hopper are far from its bandwidth."""
    deployment = deploy("", "gpt_oss_120b", precision="fp4", device=device)
    least = 36 * 128 * 3 * 2880 * 2880 * WIDTHS["mxfp4"] / accelerator(device).bandwidth
    assert least < decode(deployment, MACHINE, 512.0, 1.0).seconds.inner < most * least


@given(st.sampled_from(["vllm", "sglang", "trtllm"]), st.integers(0, 8), st.integers(5, 12))
def test_more_sequences_take_longer_and_give_more(engine: str, first: int, isl: int) -> None:
    deployment = deploy("tp=8", engine=engine)
    one, more = (
        LOAD._replace(isl=2.0**isl, concurrency=2.0 ** (first + extra)) for extra in (0, 1)
    )
    few, many = (point(deployment, MACHINE, load) for load in (one, more))
    assert few.tpot.expected <= many.tpot.expected
    assert few.ttft.expected <= many.ttft.expected
    if many.sequences > few.sequences:
        assert few.tokens.expected <= many.tokens.expected * 1.02


@each_case("osl", [2.0, 3.0, 64.0])
def test_parts_are_all_of_a_token_of_short_answers(osl: float) -> None:
    for concurrency in (1.0, 256.0):
        served = point(
            deploy("tp=8,dp=8,ep=8", "deepseek_v3"), MACHINE, Load(8192, osl, concurrency)
        )
        assert sum(served.parts.values()) == pytest.approx(served.tpot.expected, rel=1e-9)


@each_case(
    ("model", "cut", "about"),
    [
        ("mixtral_8x7b", "tp=2", {"precision": "bf16"}),
        ("deepseek_v3", "tp=8,dp=8,ep=8", {}),
        ("gpt_oss_120b", "", {"precision": "fp4"}),
        ("llama3_70b", "tp=4", {"engine": "vllm"}),
    ],
)
def test_no_token_is_faster_than_memory(model: str, cut: str, about: dict[str, str]) -> None:
    deployment = deploy(cut, model, **about)
    for concurrency in (1.0, 64.0, 256.0):
        load = Load(8192.0, 1024.0, concurrency)
        served = point(deployment, MACHINE, load)
        cache = served.sequences * served.decoding / deployment.cut.dp
        cache *= deployment.kv_bytes(8192 + 512)
        assert served.parts["kv_cache"] >= cache / accelerator("h200").bandwidth * 0.999
        all_used = deployment.parts["dense"] + deployment.parts["routed"]
        if concurrency == 256:
            least = 0.7 * all_used / accelerator("h200").bandwidth
            assert served.parts["mlps_and_experts"] >= least


def test_more_bits_take_longer() -> None:
    """Small products, too."""
    for concurrency in (1.0, 8.0, 64.0):
        wide, narrow = (
            point(
                deploy("tp=8", device="b200", precision=precision),
                MACHINE,
                LOAD._replace(concurrency=concurrency),
            ).tpot.expected
            for precision in ("bf16", "fp8")
        )
        assert narrow <= wide


def test_groups_share_prefills() -> None:
    """Each group has a prefill of its own at once."""
    deployment = deploy("tp=8,dp=8,ep=8", "deepseek_v3")
    of_prompt = prefill(deployment, MACHINE, LOAD.isl)
    work = work_of(deployment, decode(deployment, MACHINE, 64.0, 1024.0), of_prompt)
    attention = work.prefill.attention + work.prefill.context
    one, eight = (prefills(work, due) for due in (1.0, 8.0))
    assert eight == pytest.approx(8 * one - 7 * attention)


def test_parts_are_all_of_a_token() -> None:
    served = point(deploy("tp=8"), MACHINE, LOAD)
    assert sum(served.parts.values()) == pytest.approx(served.tpot.expected, rel=1e-9)
    assert served.limit in LIMITS
    assert served.limit == "memory"
    assert served.tpot.low < served.tpot.expected < served.tpot.high
    rate = served.tokens
    assert rate.low < rate.expected < rate.high


def test_prefills_of_long_prompts_take_most() -> None:
    served = point(deploy("tp=8"), MACHINE, Load(8192.0, 128.0, 64.0))
    assert served.prefilling
    assert served.limit == "arithmetic"
    assert not point(deploy("tp=8"), MACHINE, LOAD).prefilling


def test_the_longest_prompts_have_points() -> None:
    served = point(deploy("tp=8"), MACHINE, Load(130_000.0, 2.0, 8.0))
    assert 0 < served.decoding < 1
    assert sum(served.parts.values()) == pytest.approx(served.tpot.expected, rel=1e-9)


def test_no_more_decode_than_fit() -> None:
    deployment = deploy("tp=1", precision="fp8")
    served = point(deployment, MACHINE, LOAD._replace(concurrency=4096.0))
    assert served.sequences == served.fits < 4096
    again = point(deployment, MACHINE, LOAD._replace(concurrency=8192.0))
    assert again.tpot == served.tpot


def test_intervals_of_latent_attention_are_wider() -> None:
    wide, narrow = (
        point(deploy("tp=8", model), MACHINE, LOAD).tpot for model in ("deepseek_v3", "llama3_70b")
    )
    assert wide.high / wide.expected > 1.2 * narrow.high / narrow.expected


@each_case("drafted", [1, 2, 4])
def test_drafted_tokens_pay_as_they_are_accepted(drafted: int) -> None:
    """If none is accepted, they only cost; if all are, a decode gives all of them, and takes longer
    than one without."""
    plain = point(deploy("tp=8"), MACHINE, LOAD._replace(concurrency=1.0)).tpot.expected
    none, some, each = (
        point(
            deploy(f"tp=8,mtp={drafted}", accepted=accepted),
            MACHINE,
            LOAD._replace(concurrency=1.0),
        ).tpot.expected
        for accepted in (0.0, 0.7, 1.0)
    )
    assert plain / (1 + drafted) < each < some < none
    assert plain < none
    assert deploy(f"tp=8,mtp={drafted}", accepted=0.5).tokens == 2 - 0.5**drafted


def test_stages_hold_less_and_never_speed_up_a_single_token() -> None:
    machine = find("hgx_h200").build(16)
    one, two = (deploy(cut) for cut in ("tp=8", "tp=8,pp=2"))
    assert two.weights == pytest.approx(one.weights / 2)
    assert two.fits(2048) > 2 * one.fits(2048)
    alone, many = (
        [point(each, machine, LOAD._replace(concurrency=number)) for each in (one, two)]
        for number in (1.0, 256.0)
    )
    assert alone[0].tpot.expected < alone[1].tpot.expected
    assert many[0].tokens.expected < many[1].tokens.expected
    assert many[1].tokens.expected < 2 * many[0].tokens.expected


def test_levels_and_factors_scale() -> None:
    deployment = deploy("tp=8")
    plain = point(deployment, MACHINE, LOAD)
    narrow = point(deployment, MACHINE, LOAD, level=0.5)
    assert plain.tpot.low < narrow.tpot.low < narrow.tpot.high < plain.tpot.high
    slower = point(deployment, MACHINE, LOAD, factors=(Factor(2.0), Factor()))
    assert slower.tpot.expected == pytest.approx(2 * plain.tpot.expected, rel=0.02)


def test_what_does_not_fit_says_by_how_much() -> None:
    deployment = deploy("", precision="bf16")
    message = refusal(point, deployment, MACHINE, LOAD)
    missing = deployment.weights - 0.9 * accelerator("h200").capacity
    missing += deployment.kv_bytes(2048)
    assert f"needs {missing / 1e9:.3g} GB more" in message


def test_positions_end() -> None:
    deployment = deploy("", "gpt2", precision="bf16")
    point(deployment, MACHINE, Load(512.0, 512.0, 1.0))
    with pytest.raises(InputError, match="1025 tokens of a prompt and its answer: gpt2 has 1024"):
        point(deployment, MACHINE, Load(512.0, 513.0, 1.0))
    with pytest.raises(InputError, match=r"131073 tokens .*: llama3_70b has 131072 positions"):
        point(deploy("tp=8"), MACHINE, Load(131071.0, 2.0, 1.0))


@each_case("chunk", [512, 2048, 8192])
def test_chunks_of_prompts_take_longer(chunk: int) -> None:
    load = Load(8192.0, 1024.0, 16.0)
    whole = point(deploy("tp=8"), MACHINE, load)
    cut = point(deploy("tp=8"), MACHINE, load, chunk=chunk)
    assert whole.ttft.expected <= cut.ttft.expected < 2.5 * whole.ttft.expected
    assert (cut.ttft == whole.ttft) == (chunk == 8192)


@each_case("engine", ["sglang", "trtllm", "vllm"])
def test_engines_have_the_same_overheads(engine: str) -> None:
    known = overheads(engine)
    assert known.keys() == overheads("vllm").keys()
    assert all(value > 0 for value in known.values())


def separate(number: int, decoders: int, load: Load, model: str = "llama3_8b") -> Point:
    """A point of workers of one or 8 GPUs, some of which prefill."""
    deployment = deploy("tp=8" if model == "llama3_70b" else "", model)
    sent = sent_seconds(deployment, deployment, find("hgx_h200"), load.isl)
    workers = PrefillWorkers(deployment, MACHINE, number, decoders, sent)
    return point(deployment, MACHINE, load, workers=workers)


@given(st.integers(0, 12), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 8]))
def test_sequences_wait_decode_or_prefill(power: int, number: int, decoders: int) -> None:
    """Little's law, for all of them together; no worker is busy for more than all of its time."""
    load = Load(4096.0, 128.0, 2.0**power)
    served = separate(number, decoders, load)
    rate = served.tokens.expected / load.osl
    spent = served.ttft.expected + (load.osl - 1) * served.tpot.expected
    assert rate * spent == pytest.approx(served.sequences)
    assert served.sequences * served.decoding == pytest.approx(
        rate * (load.osl - 1) * served.tpot.expected
    )
    assert 0 < served.busy < 1
    assert served.parts["prefills"] == 0


@each_case(
    ("model", "load"),
    [
        ("llama3_70b", Load(4096.0, 512.0, 64.0)),
        ("llama3_8b", Load(1024.0, 128.0, 4000.0)),
        ("llama3_8b", Load(100.0, 2.0, 50_000.0)),
    ],
)
def test_more_workers_make_the_first_token_earlier(model: str, load: Load) -> None:
    each = [separate(number, 8, load, model) for number in (1, 2, 3, 4)]
    first = [served.ttft.expected for served in each]
    assert first == sorted(first, reverse=True)
    rates = [served.tokens.expected for served in each]
    assert rates == sorted(rates)


def test_more_workers_that_decode_make_tokens_faster() -> None:
    load = Load(1024.0, 512.0, 512.0)
    one, two = (separate(4, decoders, load).tpot.expected for decoders in (1, 2))
    assert two < one


def test_a_single_prompt_waits_for_nobody() -> None:
    load = Load(4096.0, 512.0, 1.0)
    alone = separate(1, 1, load, "llama3_70b")
    both = point(deploy("tp=8"), MACHINE, load)
    assert alone.ttft.expected < both.ttft.expected * 1.05
    assert alone.tpot.expected < both.tpot.expected


def test_caches_cross_the_nics_where_there_are_some() -> None:
    """Each GPU has one of 400 Gb/s, and sends its heads. Fewer GPUs have more of them each. In a
    single node or rack, NVLink is faster."""
    load, eight, four = 8192.0, deploy("tp=8"), deploy("tp=4")
    sent = sent_seconds(eight, eight, find("hgx_h200"), load)
    assert 1 <= sent / (eight.kv_bytes(load) / 50e9) < 1.25
    for pair in ((four, eight), (eight, four)):
        assert sent_seconds(*pair, find("hgx_h200"), load) == pytest.approx(2 * sent, rel=0.01)
    for text in ("hgx_h200:nodes=1", "nvl72:nodes=1"):
        assert sent_seconds(four, four, find(text), load) < sent
    with pytest.raises(InputError, match="has 8 GPUs, not 16"):
        sent_seconds(eight, eight, find("hgx_h200:nodes=1"), load)


def test_short_prompts_that_come_together_are_one_pass() -> None:
    load = Load(32.0, 32.0, 256.0)
    served = point(deploy("tp=8"), MACHINE, load)
    assert served.parts["prefills"] < served.tpot.expected / 2


def test_chunks_launch_in_both_times() -> None:
    """A prompt in many chunks waits for the host of each."""
    load, deployment = Load(8192.0, 1024.0, 1.0), deploy("tp=8", engine="sglang")
    served = point(deployment, MACHINE, load, chunk=64)
    assert served.ttft.expected > 128 * overheads("sglang")["prefill_host"]
