"""Machines: devices, links and routes. No module here imports the simulator or the experiments."""
