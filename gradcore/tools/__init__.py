"""Tools for developers, and descriptions of an installation."""
