"""Signals: transforms, filters, splines."""
