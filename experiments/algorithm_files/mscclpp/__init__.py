"""MSCCL++'s execution plans in JSON: thread blocks that read and write buffers of other GPUs."""
