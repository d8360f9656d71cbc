"""Measures torch.distributed: the library's collectives and simctl's schedules."""
