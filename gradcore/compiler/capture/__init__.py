"""Capture: run a function once to record its array calls and the state that it reads."""
