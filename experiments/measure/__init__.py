"""Real torch.distributed, measured: the library's collectives and the simulator's schedules, on one
machine or many."""
