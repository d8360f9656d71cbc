"""Rows of measured attention, exchanges and casts, and files that are refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from experiments.models.kernel_times.kernel_model import Key
from experiments.studies.kernel_fit import Groups
from experiments.studies.kernel_rows import (
    attention,
    casts,
    collectives,
    decodes,
    engine_calls,
    exchanges,
    latent_decodes,
)
from grouped_cases import each_case
from published_tables import (
    ALL_REDUCES,
    ATTENTION,
    CASTS,
    COLLECTIVES,
    DECODES,
    EXCHANGES,
    LATENT,
    write_tables,
)
from refusals import refusal


def test_rows_have_keys_and_sizes(tmp_path: Path) -> None:
    write_tables(tmp_path)
    prefills = attention(tmp_path)[Key("h100", "bf16", "vllm")]
    assert prefills.chip.flops == 989e12
    assert prefills.seconds.tolist() == pytest.approx([870e-6])
    assert prefills.sizes["window"][0] > prefills.sizes["keys"][0] == 4096
    normal, low = exchanges(tmp_path).items()
    assert [key.engine for key, _ in (normal, low)] == [
        "deepep_normal dispatch",
        "deepep_low_latency combine",
    ]
    assert normal[1].sizes["nbytes"].tolist() == [7168 * (1 + 4 / 128)]
    assert low[1].sizes["copies"].tolist() == [8]
    (key,) = casts(tmp_path)
    assert key == Key("h100", "bf16", "trtllm cast")
    ((key, calls),) = collectives(tmp_path).items()
    assert key == Key("h100", "bf16", "all_gather")
    assert calls.seconds.tolist() == pytest.approx([158e-6])
    # Half of the bytes pass a link of 370.8 GB/s.
    assert calls.sizes["links"] == pytest.approx([2**25 / 370.8e9], rel=0.01)
    assert calls.sizes["messages"].tolist() == [1]


def test_decodes_see_the_cache_and_the_newest_token(tmp_path: Path) -> None:
    """Not those in 8 bits of a GPU without products in 8 bits, nor prefills."""
    write_tables(tmp_path)
    ((key, kernels),) = decodes(tmp_path).items()
    assert key == Key("h100", "bf16", "vllm")
    assert kernels.sizes["tokens"].tolist() == [4096, 128]
    assert kernels.sizes["elements"].tolist() == [256, 256]
    ((key, kernels),) = latent_decodes(tmp_path).items()
    assert key == Key("h100", "fp8", "sglang")
    assert {name: size.tolist() for name, size in kernels.sizes.items()} == {
        **{"batch": [8], "heads": [128], "kv_heads": [1], "tokens": [1024]},
        **{"head_size": [544], "elements": [576]},
    }


def test_engines_have_all_reduces_in_graphs(tmp_path: Path) -> None:
    write_tables(tmp_path)
    ((key, calls),) = engine_calls(tmp_path).items()
    assert key == Key("h100", "bf16", "vllm")
    assert calls.seconds.tolist() == pytest.approx([6.3e-6])
    # each GPU reads what seven others have, at 370.8 GB/s together
    assert calls.sizes["links"] == pytest.approx([7 * 65536 / 370.8e9], rel=0.5)


def test_shapes_are_left_out_together(tmp_path: Path) -> None:
    row = "h100_sxm,vllm,0.19.0,fa,bfloat16,bfloat16,{},{},0,32,8,128,{},9\n"
    texts = [row.format(*sizes) for sizes in ((4, 64, 0), (4, 128, 0), (4, 64, 128))]
    (tmp_path / "attention_context.csv").write_text(ATTENTION + "".join(texts))

    def shapes(groups: Groups) -> list[int]:
        (measured,) = groups.values()
        numbers: list[int] = np.unique(measured.shapes, return_inverse=True)[1].tolist()
        return numbers

    assert len({*shapes(attention(tmp_path))}) == 2
    first, second, third = shapes(attention(tmp_path, ("q_len", "batch")))
    assert first == third != second


@each_case(
    ("read", "name", "text", "message"),
    [
        (attention, "attention_context", "", "has no column attn_dtype, batch, "),
        (
            attention,
            "attention_context",
            ATTENTION + "h100_sxm,vllm,1,x,fp8,fp8,1,8,0,1,1,64,-1,3\n",
            "window is '-1': it is a positive number",
        ),
        (
            attention,
            "attention_context",
            ATTENTION + "h100_sxm,vllm,1,x,int3,int3,1,8,0,1,1,64,0,3\n",
            "'int3' is none of bfloat16, fp8",
        ),
        (
            exchanges,
            "all_to_all_ep",
            EXCHANGES + "h100_sxm,deepep_normal,1,dispatch,fp8,8,1,7168,256,8,1,x,25,,,\n",
            "sms is 'x': it is a positive number",
        ),
        (
            exchanges,
            "all_to_all_ep",
            EXCHANGES + "mars,deepep_normal,1,dispatch,fp8,8,1,7168,256,8,1,,25,,,\n",
            "'mars' is no device",
        ),
        (decodes, "attention_generation", "a\n1\n", "has no column batch, framework, "),
        (
            decodes,
            "attention_generation",
            DECODES + "h100_sxm,vllm,bfloat16,8,-1,32,8,128,0,50\n",
            "past_len is '-1': it is a positive number",
        ),
        (
            latent_decodes,
            "mla_kernel",
            LATENT + "generation,h100_sxm,sglang,int3,128,8,1023,30\n",
            "'int3' is none of bfloat16, fp8",
        ),
        (
            engine_calls,
            "custom_all_reduce",
            ALL_REDUCES + "h100_sxm,vllm,eager,8,65536,50\n",
            "no collective that counts in nodes of a100, h100, h200, b200",
        ),
        (casts, "quantize", CASTS + "sum,h100_sxm,trtllm,1,x,fp8,1,32,3\n", "'sum' is none of"),
        (casts, "quantize", "\x00\xff\xfe", "is no CSV file"),
        (collectives, "nccl", COLLECTIVES, "has no column collective, dtype, "),
        (
            collectives,
            "nccl",
            COLLECTIVES + "h100_sxm,nccl,all_gather,float16,two,65536,9,\n",
            "ranks is 'two': it is a positive number",
        ),
        (
            collectives,
            "nccl",
            COLLECTIVES + "l40s,nccl,all_gather,float16,2,65536,9,\n",
            "no collective that counts in nodes of a100, h100, h200, b200",
        ),
    ],
)
def test_what_a_table_is_refused_for(
    tmp_path: Path, read: Callable[[Path], Groups], name: str, text: str, message: str
) -> None:
    (tmp_path / f"{name}.csv").write_bytes(text.encode("latin-1"))
    assert message in refusal(read, tmp_path)
