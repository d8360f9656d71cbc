"""Questions about training: one run explained, sweeps of options, scaling curves with what-if
lines."""
