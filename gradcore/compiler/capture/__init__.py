"""Capture: a function runs once, and its array calls and the state that it reads are noted."""
