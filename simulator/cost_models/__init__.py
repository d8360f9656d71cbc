"""Formulas for time, volume, steps and memory of each algorithm, with assumptions and sources.

- p: ranks; V: bytes of a rank
- α: latency of a route; g: gap of a message; β: bandwidth of a port
- γ: seconds to add a byte
- x(n) = g + n/β: seconds for which a message of n bytes occupies a port

With g = 0 this is the postal model. With α = 0 it is Hockney's one-port model, which MPICH's
formulas use. The formulas share no code with the simulation.
"""

from simulator.cost_models.cost_model import CostModel, is_power_of_two, log2_ceil, log2_floor

__all__ = ["CostModel", "is_power_of_two", "log2_ceil", "log2_floor"]
