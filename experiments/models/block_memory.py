"""The activations that blocks of a transformer keep for their backward.

They are those of Korthikanti et al., arXiv 2205.05198, table 2: sbh(34 + 5as/h) bytes for a block
of a GPT in 16 bits with dropout, of which 10sbh are not cut by tensor parallel alone; 2sbh if all
is computed again. What the backward for weights needs, 32sbh, is from Zero Bubble (Qi et al., arXiv
2401.10241, table 1).
"""

from __future__ import annotations

from experiments.models.block_cut import Cut
from experiments.models.model_shapes import Experts, Shape

Q = 2.0


Kept = tuple[float, float, float]
"""Bytes of a rank, for a micro-batch: from the forward to the backward for inputs, from there to
the backward for weights, and what is held while the backward runs because it was computed again."""


def kept_of_block(shape: Shape, cut: Cut, experts: Experts | None) -> Kept:
    """What a block of attention and MLP, or experts, keeps."""
    rows, tp = cut.tokens, cut.tp
    token = rows * shape.width * Q
    norms = tp if cut.sp else 1
    queries = rows * shape.heads * shape.key_size / tp * Q
    keys = rows * shape.kv_heads * (shape.key_size + shape.value_size) / tp * Q
    values = rows * shape.heads * shape.value_size / tp * Q
    scores = cut.micro * shape.heads / tp * (cut.seq / cut.cp) * cut.seq
    whole = {
        "inputs of norms": 2 * token / norms,
        "inputs of cut matrices": 2 * token / norms,
        "masks": (2 * token / Q / norms) if cut.dropout else 0.0,
        "queries, keys, values": queries + keys,
        "output of attention": values,
        "scores": _scores(scores, cut),
        "inside": _inside(shape, cut, experts),
    }
    selective = sum(whole.values()) - whole["scores"]
    mlp_inputs = whole["inside"] / 2
    gradients = token / norms * 2 + queries + keys + whole["inside"] / 2
    for_weights = whole["inputs of cut matrices"] + values + mlp_inputs + gradients
    if cut.recompute == "full":
        return token / norms, for_weights, sum(whole.values())
    if cut.recompute == "selective":
        return selective, for_weights, whole["scores"]
    return sum(whole.values()), for_weights, 0.0


def kept_of_head(shape: Shape, cut: Cut) -> Kept:
    """What the last norm, the logits and the loss keep: two inputs, and the logits in fp32."""
    rows = cut.tokens if shape.kind == "decoder" else float(cut.micro)
    token = cut.tokens * shape.width * Q
    inputs = 2 * token / (cut.tp if cut.sp else 1)
    return inputs + rows * shape.head.outputs / cut.tp * 2 * Q, inputs / 2, 0.0


def _scores(scores: float, cut: Cut) -> float:
    """Bytes of the softmax, its mask and what dropout leaves; a fused attention keeps none."""
    if cut.attention != "unfused":
        return 0.0
    return scores * (Q + (1 + Q if cut.dropout else 0))


def _inside(shape: Shape, cut: Cut, experts: Experts | None) -> float:
    """Bytes inside the MLP: the input of the activation and its output."""
    ups = 3 if shape.gated else 2
    if not experts:
        return cut.tokens * shape.hidden / cut.tp * ups * Q
    routed = cut.arriving(experts) * (experts.hidden * ups / cut.tp + shape.width) * Q
    return routed + cut.tokens * experts.shared / cut.tp * ups * Q
