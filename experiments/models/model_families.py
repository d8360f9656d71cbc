"""What the transformers of a family have in common, as values of a shape."""

from __future__ import annotations

from typing import Any

from experiments.models.model_shapes import RMS_DECODER

_LLAMA3 = {**RMS_DECODER, "kv_heads": 8, "vocabulary": 128256, "longest": 131072}
_NEMOTRON3: dict[str, Any] = {
    "kv_heads": 2,
    "head_size": 128,
    "norm": "rms",
    "biases": False,
    "vocabulary": 131072,
    "mamba_head": 64,
    "state": 128,
    "groups": 8,
}
FAMILIES: dict[str, dict[str, Any]] = {
    # Devlin et al., NAACL 2019.
    "bert": {
        "vocabulary": 30522,
        "kind": "encoder",
        "positions": 512,
        "segments": 2,
        "dropout": True,
    },
    # Radford et al., 2019.
    "gpt2": {"tied": True, "vocabulary": 50257, "positions": 1024, "dropout": True},
    # Narayanan et al., SC 2021, table 1; that of 175B Brown et al., NeurIPS 2020, table 2.1.
    "gpt3": {"tied": True, "vocabulary": 51200, "positions": 2048, "dropout": True},
    # mosaicml/llm-foundry, benchmarks of training, with learned positions and biases. A test holds
    # the parameters of each size against the benchmarks' own.
    "mpt": {"tied": True, "vocabulary": 50368, "positions": 2048},
    # Touvron et al., arXiv 2307.09288.
    "llama2": {**RMS_DECODER, "vocabulary": 32000, "longest": 4096},
    # Llama team, arXiv 2407.21783, table 3.
    "llama3": _LLAMA3,
    # Jiang et al., arXiv 2401.04088, table 1.
    "mixtral": {**_LLAMA3, "vocabulary": 32000, "longest": 32768},
    # Qwen team, arXiv 2505.09388, table 2, and config.json.
    "qwen3": {
        **_LLAMA3,
        "kv_heads": 4,
        "head_size": 128,
        "vocabulary": 151936,
        "longest": 40960,
        "head_norms": True,
    },
    # DeepSeek-AI, arXiv 2412.19437, section 4.2.
    "deepseek": {
        **RMS_DECODER,
        "vocabulary": 129280,
        "longest": 163840,
        "query_rank": 1536,
        "key_rank": 512,
        "nope": 128,
        "rope": 64,
        "value": 128,
    },
    # openai/gpt-oss-120b and 20b, config.json: windowed attention and full attention take turns.
    "gpt_oss": {
        **RMS_DECODER,
        "biases": True,
        "kv_heads": 8,
        "head_size": 64,
        "vocabulary": 201088,
        "longest": 131072,
        "window": 128,
        "period": 2,
        "sinks": True,
    },
    # Parmar et al., arXiv 2402.16819, table 1; NVIDIA, arXiv 2406.11704, table 1. MLPs have no
    # gates, and square what a ReLU leaves.
    "nemotron4": {
        "kv_heads": 8,
        "biases": False,
        "rotary": True,
        "vocabulary": 256000,
        "longest": 4096,
    },
    # nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B and Super-120B-A12B, config.json: attention has no
    # positions.
    "nemotron3_nano": {**_NEMOTRON3, "mamba_heads": 64},
    "nemotron3_super": {**_NEMOTRON3, "mamba_heads": 128},
    # Dosovitskiy et al., ICLR 2021, table 1, for images of 224 x 224 in patches of 16 x 16.
    "vit": {"vocabulary": 1000, "kind": "image", "positions": 197, "patch": 3 * 16**2},
}
"""What the transformers of a family have in common."""
