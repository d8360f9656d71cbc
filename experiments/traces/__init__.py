"""Traces of other tools: Chakra workloads, and the collectives that a job measured."""
