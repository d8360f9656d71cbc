"""Floor 0: what a machine is made of. Knows nothing of time passing."""
