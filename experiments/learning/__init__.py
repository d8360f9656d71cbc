"""Learning along a simulated run: gradients of a small problem, in the order and at the times of a
plan."""
