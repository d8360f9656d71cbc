"""Closed forms: time, volume, steps and memory of each algorithm, with their assumptions and
sources.

Notation: p ranks, V bytes each, α the latency of a route, g the gap of a message, β the bandwidth
of a port, γ the seconds to merge a byte; x(n) = g + n/β. With g = 0 this is the postal model, with
α = 0 Hockney's one-port model, the one of MPICH's formulas. Every form below holds in both, and for
both together. Simulation shares no code with it.
"""

from simulator.cost_models.cost_model import CostModel, is_power_of_two, log2_ceil, log2_floor

__all__ = ["CostModel", "is_power_of_two", "log2_ceil", "log2_floor"]
