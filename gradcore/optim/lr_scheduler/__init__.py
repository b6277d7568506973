"""Learning-rate schedulers."""

from gradcore.optim.lr_scheduler.base import LRScheduler
from gradcore.optim.lr_scheduler.compositions import ChainedScheduler, SequentialLR
from gradcore.optim.lr_scheduler.cycles import CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from gradcore.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from gradcore.optim.lr_scheduler.plateau import ReduceLROnPlateau
from gradcore.torch_names import paths

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

__getattr__ = paths.further(__name__)
