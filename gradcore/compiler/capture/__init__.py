"""Capture: run a function once, and note its array calls and the state that it reads."""
