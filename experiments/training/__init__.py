"""Training runs: one run in full, and tables of runs that differ in an option."""
