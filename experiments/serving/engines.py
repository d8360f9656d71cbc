"""The engines that serve models, and the precisions in which they do."""

from __future__ import annotations

from enum import StrEnum


class Engine(StrEnum):
    """What serves a model."""

    sglang = "sglang"
    trtllm = "trtllm"
    vllm = "vllm"


class ServedPrecision(StrEnum):
    """What a user calls the precision of a model that is served."""

    bf16 = "bf16"
    fp8 = "fp8"
    fp4 = "fp4"
