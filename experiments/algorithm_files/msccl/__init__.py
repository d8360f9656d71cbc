"""MSCCL's XML: programs of thread blocks, one for each GPU of a collective."""
