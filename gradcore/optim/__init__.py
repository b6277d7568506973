"""Optimisers, which update parameters from their gradients."""

from gradcore.optim import lr_scheduler
from gradcore.optim.adafactor_muon import Adafactor, Muon
from gradcore.optim.adam import Adam, AdamW
from gradcore.optim.adam_variants import Adamax, NAdam, RAdam
from gradcore.optim.adaptive import Adadelta, Adagrad, RMSprop
from gradcore.optim.lbfgs import LBFGS
from gradcore.optim.optimizer import Optimizer
from gradcore.optim.rprop_asgd import ASGD, Rprop
from gradcore.optim.sgd import SGD
from gradcore.optim.sparse_adam import SparseAdam
from gradcore.torch_names import paths

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
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]


__getattr__ = paths.further(__name__)
paths.show_public(__name__)
