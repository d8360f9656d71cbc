"""Studies for the developers of simctl, in no wheel: `python -m experiments.studies` lists them."""
