"""The measured machines, and parameters of libraries over all of them."""
