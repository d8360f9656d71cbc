"""GOAL, the input of LogGOPSim: messages and computations of ranks, without data."""
