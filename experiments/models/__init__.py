"""Models to train: shipped profiles by name, files of measured ones, traces and modules of
PyTorch."""
