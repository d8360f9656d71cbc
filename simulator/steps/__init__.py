"""What runs, as graphs of tasks: computations and collectives of groups, with waits."""
