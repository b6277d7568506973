"""Tools for developers, and the description of an installation."""
