"""Errors of fits on unseen points, as committed: `python -m experiments.studies calibration`."""
