"""Adapters of low rank beside frozen matrices (LoRA, Hu et al., arXiv 2106.09685)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.models.kernels import Computation, Kernels
from experiments.models.mixer_shapes import WeightMatrix


@dataclass(frozen=True)
class AdaptedKernels(Kernels):
    """Kernels whose products may have adapters."""

    def product(
        self,
        rows: float,
        outputs: float,
        inner: float,
        number: int = 1,
        *,
        kept: float = 0.0,
        later: float = 0.0,
        part: str = "",
    ) -> Computation:
        """Under LoRA the matrix is frozen: its backward is that for inputs. If its `part` has
        adapters, their two products in 16 bits follow it, and its input is kept for them."""
        whole = super().product(rows, outputs, inner, number, kept=kept, later=later)
        rank = self.cut.lora
        if not rank:
            return whole
        whole = whole._replace(weights=0.0, kernels_back=number, kept=0.0, later=0.0)
        if part != "attention" and (not part or self.cut.adapters == "attention"):
            return whole
        moved = 3 * rows * number * outputs * self.width
        each = (
            whole,
            Kernels.product(self.wide, rows, rank, inner, number),
            Kernels.product(self.wide, rows, outputs, rank, number),
            self.memory(moved, moved),
        )
        return Computation(
            sum(kernel.forward for kernel in each),
            sum(kernel.inputs for kernel in each),
            sum(kernel.weights for kernel in each),
            sum(kernel.kernels for kernel in each),
            sum(kernel.kernels_back for kernel in each),
            kept,
            later,
        )


def adapter_elements(rank: int, matrices: Sequence[WeightMatrix]) -> int:
    """Elements of the adapters of a part. Matrices of the same tokens, but for the last one, are
    one product and have an adapter together, as in Megatron-Bridge."""
    *into, last = matrices
    width = into[0].inputs
    merged = sum(matrix.outputs for matrix in into if matrix.inputs == width)
    single = [last, *(matrix for matrix in into if matrix.inputs != width)]
    return rank * (width + merged + sum(each.inputs + each.outputs for each in single))
