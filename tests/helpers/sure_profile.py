"""Profiles as the texts of their files: one of them says how sure it is."""

UNSURE = """\
profile: mine
machine: nodes:per_node=1
library: MPI
launch: 5.0e-06
protocols:
  short:
    network: {latency: 1.0e-06, bandwidth: 1.0e+09}
"""
"""The least profile: it does not say how sure it is."""
SURE = (
    UNSURE
    + """\
uncertainty:
  rules: {machine: 0.1, collective: 0.1, algorithm: 0.1, allocation: 0.1, curve: 0.1, noise: 0.1,
    size: 8, ranks: 8, parameters: 1, more_ranks: 0.1, more_bytes: 0.1, network: 0.3,
    other_algorithm: 0.3, other_collective: 0.3}
  seen:
  - [all_reduce, ring, 8, 8, 1024, 0.1]
  - [all_reduce, ring, 8, 8, 8192, -0.1, {10: 0.5}]
  moved:
    launch: [6.0e-06, 5.0e-06]
    protocols/short/network/latency: [1.0e-06, 2.0e-06]
"""
)
