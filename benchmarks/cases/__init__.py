"""What is timed: importing the modules below fills the table of cases."""

from benchmarks.cases import arrays, models, small
from benchmarks.cases.base import GROUPS, Case, every_case

__all__ = ["GROUPS", "Case", "arrays", "every_case", "models", "small"]
