"""Derivatives checked against finite differences."""

from gradcore.autograd.gradcheck.checks import GradcheckError, gradcheck, gradgradcheck

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
