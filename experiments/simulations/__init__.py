"""Simulated points: a case, a sweep of many, and a curve compared with measured times."""
