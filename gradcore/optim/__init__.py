"""Optimisers: they update parameters by their gradients."""

from gradcore import paths
from gradcore.optim import lr_scheduler
from gradcore.optim.adam import Adam, AdamW
from gradcore.optim.adam_relatives import Adamax, NAdam, RAdam
from gradcore.optim.adaptive import Adadelta, Adagrad, RMSprop
from gradcore.optim.batch_methods import ASGD, Rprop
from gradcore.optim.lbfgs import LBFGS
from gradcore.optim.matrices import Adafactor, Muon
from gradcore.optim.optimizer import Optimizer
from gradcore.optim.sgd import SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]


__getattr__ = paths.further(__name__)
paths.show_public(__name__)
