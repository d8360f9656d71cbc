"""Norms, rotations, gates and the softmax as PyTorch runs them without a compiler: kernel by
kernel, where others run a fused one.

Bytes are counted in the sources. RMS norms are those of `rms_norm` in PyTorch before 2.9
(aten/src/ATen/native/layer_norm.cpp): a cast to fp32, a square, its mean, two products and a cast
back. Rotations are those of torchtitan's `apply_rotary_emb`, in complex numbers of fp32, and
`repeat_kv`. A gate is a product after its activation. The softmax is that of Megatron-Core
(fusions/fused_softmax.py) where it has no fused kernel. Layer norms and activations without a gate
have a kernel of their own anyway.
"""

from __future__ import annotations

from typing import NamedTuple


class Separate(NamedTuple):
    """What kernels move and keep for each byte of a tensor in 16 bits, or for each logit, and how
    many they are."""

    forward: float
    backward: float
    kernels: int = 1
    kernels_back: int = 1
    kept: float = 0.0
    """Bytes that the forward leaves to the backward."""
    working: float = 0.0
    """Bytes that the backward adds at most."""


RMS_NORM = Separate(18.0, 46.0, 8, 16, kept=3.0)
"""Bytes of an element, forward: cast 6, square 8, mean 4, product 8, cast 6, weights 4. Backward:
weights 12, cast 6, product 8, its other factor 16, mean 4, square 28, sum 12, cast 6. It keeps the
tensor in fp32, and the factor of the weights."""
ROTATION = Separate(10.0, 10.0, 6, 6)
"""Casts and a complex product, of queries and of keys."""
REPETITION = Separate(1.0, 1.0, 2, 2)
"""Keys and values, written once for each head."""
GATE = Separate(5.0, 9.0, 2, 3, kept=3.0)
"""An activation, and its product with the other input: for each byte of one of the inputs."""
SOFTMAX = Separate(18.5, 20.0, 5, 5, kept=2.0)
"""A cast to fp32, a product, a mask, the softmax and a cast back; it is kept in fp32."""
FUSED_LENGTH, FUSED_HEADS = 4096, 4
"""Megatron-Core fuses the softmax of so many keys at most, for a multiple of so many heads of all
sequences of a micro-batch."""
