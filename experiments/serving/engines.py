"""The engines that serve models, and the precisions in which they do."""

from __future__ import annotations

from typing import Literal

Engine = Literal["sglang", "trtllm", "vllm"]
"""What serves a model."""
ServedPrecision = Literal["bf16", "fp8", "fp4"]
"""What a user calls the precision of a model that is served."""
