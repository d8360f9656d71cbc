"""Norms, rotations, gates, the softmax and losses as frameworks run them kernel by kernel, where
others run a fused one.

Bytes are counted in the sources. RMS norms are those of `rms_norm` in PyTorch before 2.9
(aten/src/ATen/native/layer_norm.cpp): a cast to fp32, a square, its mean, two products and a cast
back. Rotations are those of torchtitan's `apply_rotary_emb`, in complex numbers of fp32, and
`repeat_kv`. A gate is a product after its activation. The softmax is that of Megatron-Core
(fusions/fused_softmax.py) where it has no fused kernel. Layer norms and activations without a gate
have a kernel of their own anyway.

Bytes of losses are recalled from the sources of the frameworks, but for `unfused`, and checked on
the memory of runs. What is `unfused` is counted in the source of Megatron-LM of February 2022
(commit 9c5a830f).
"""

from __future__ import annotations

from typing import NamedTuple

from experiments.models.block_cut import Loss


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

LOSSES: dict[Loss, Separate] = {
    # Megatron-LM's vocab_parallel_cross_entropy keeps the softmax in fp32, and turns it into the
    # gradient in place. Beside it are the logits or the gradient in 16 bits, before and after the
    # conversion. Bytes move for conversion, maximum, exponential, sum; difference, conversion.
    "fused": Separate(20.0, 14.0, kept=4.0, working=4.0),
    # The same kernel by kernel (megatron/mpu/cross_entropy.py): conversion 6, maximum 4, difference
    # 8, exponential 8, sum 4, quotient 8. Further kernels are for a number a token, there, in
    # loss_func of pretrain_gpt.py and in megatron/schedules.py.
    "unfused": Separate(38.0, 14.0, 28, 12, kept=4.0, working=4.0),
    # cross_entropy(logits.float()) of PyTorch keeps the log-softmax in fp32. Its gradient and that
    # of its input are in fp32.
    "eager": Separate(18.0, 22.0, kept=4.0, working=8.0),
    # A kernel reads logits in 16 bits, and another writes their gradient.
    "compiled": Separate(4.0, 4.0, kept=2.0, working=2.0),
    # The eager loss of one piece in 8 after the other, with its backward.
    "chunked": Separate(18.0, 22.0, working=12.0 / 8),
}
"""What each kind moves and holds for each logit, as one kernel."""
SHARDED_LOSS = 4.0
"""Bytes of each logit that the eager loss adds where ranks share the vocabulary: the loss of
torch.distributed.tensor.parallel holds the exponential, too."""
UNFUSED_BATCH = 17
"""Kernels of a forward beside an unfused loss. They broadcast a batch and make its masks (get_batch
of pretrain_gpt.py, mpu/data.py and utils.py in megatron), and look up and add embeddings
(megatron/model/language_model.py)."""
UNFUSED_MASKS = 7
"""Those that mask words of other ranks of tensor parallel (megatron/mpu/layers.py)."""
UNFUSED_EMBEDDING_BACK = 9
"""Kernels of the backward of the embeddings there."""
UNFUSED_PART_BACK = 10
"""Kernels that the backward of attention, or of an MLP, has there and not with fused ones: they add
each of 6 gradients to those of micro-batches before (megatron/model/distributed.py), make those of
biases, finish that of a norm, and add up behind a residual."""
