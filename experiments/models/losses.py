"""Losses of frameworks, and the kernels that come with an unfused one.

Bytes are recalled from the sources of the frameworks, but for `unfused`, and checked on the memory
of runs. What is `unfused` is counted in the source of Megatron-LM of February 2022 (commit
9c5a830f).
"""

from __future__ import annotations

from experiments.models.block_cut import Loss
from experiments.models.separate_kernels import Separate

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
