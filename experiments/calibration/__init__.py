"""From measured times to a machine's parameters, with intervals, and with errors on what the fit
has not seen."""

from experiments.calibration.link_fit import Interval, LinkFit, fit_links, solve

__all__ = ["Interval", "LinkFit", "fit_links", "solve"]
