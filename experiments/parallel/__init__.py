"""Plans of parallel training of transformers: what a user writes, and the steps that they make."""
