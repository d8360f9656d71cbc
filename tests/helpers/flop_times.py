"""A device on which a kernel takes as many seconds as it has FLOPs."""

from experiments.models.block_cut import Attention
from experiments.models.device_times import DeviceTimes
from experiments.models.kernel_times.attention import AttentionSizes
from experiments.models.mixer_shapes import window_keys


class FlopTimes(DeviceTimes):
    """Kernels that only move bytes take no time."""

    def product(self, rows: float, outputs: float, inner: float, number: int = 1) -> float:
        return 2.0 * number * rows * outputs * inner

    def traffic(self, nbytes: float) -> float:
        return 0.0

    def memory(self, nbytes: float) -> float:
        return 0.0

    def convolution(self, flops: float, nbytes: float, *, square: bool) -> float:
        return flops

    def attention(self, kind: Attention, sizes: AttentionSizes, *, forward: bool) -> float:
        return attention_flops(sizes)


def attention_flops(sizes: AttentionSizes) -> float:
    """FLOPs of scores and values; a causal pass has half of those in both directions."""
    batch, heads, _, size, queries, keys, window, causal = sizes
    seen = window_keys(int(window or keys), int(keys)) / (1 + causal)
    return 4 * batch * heads * queries * seen * size
