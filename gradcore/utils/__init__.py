"""Helpers: checkpointing and nested containers."""
