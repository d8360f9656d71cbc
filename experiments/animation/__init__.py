"""Animations: what the slots of ranks hold while a collective or a training step runs."""
