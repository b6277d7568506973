"""A strict stand-in for CUDA: what the tests run device code on where there is no GPU."""
