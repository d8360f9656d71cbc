"""What nccl-tests and rccl-tests print and write."""
