"""Formulas of what a profile adds to the links of a machine."""
