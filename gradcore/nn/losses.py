"""Loss functions as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradcore import functional
from gradcore.nn import functional as F
from gradcore.nn import layers
from gradcore.nn.module import Module
from gradcore.nn.module_factory import ModuleEntry, Settings, make, settings
from gradcore.tensor import Tensor

__all__ = ["TripletMarginWithDistanceLoss"]


class _Loss(Module):
    """Base class of losses.

    Parameters
    ----------
    size_average, reduce : bool, optional
        Deprecated options from before `reduction`.
    reduction : {"none", "mean", "sum"}
    """

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = functional.check_reduction(reduction, size_average, reduce)


class _WeightedLoss(_Loss):
    """Base class of losses with weights of classes or elements.

    Parameters
    ----------
    weight : Tensor, optional
        A buffer of the module.
    size_average, reduce, reduction
        See `_Loss`.
    """

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


def _resolve_reduction(chosen: Settings) -> Settings:
    """Return the settings with the reduction given by its name."""
    old = chosen.pop("size_average", None), chosen.pop("reduce", None)
    if old != (None, None):
        chosen["reduction"] = functional.check_reduction(chosen["reduction"], *old)
    return chosen


def _check_huber(chosen: Settings) -> None:
    if not isinstance(chosen["delta"], (float, int)):
        raise TypeError(f"delta must be a float or int, got: {type(chosen['delta'])}")


def _check_multi_margin(chosen: Settings) -> None:
    p, weight = chosen["p"], chosen["weight"]
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.ndim}D instead")


def _check_triplet_margin(chosen: Settings, name: str = "TripletMarginLoss") -> None:
    if chosen["margin"] <= 0:
        raise ValueError(f"{name}: expected margin to be greater than 0, got {chosen['margin']} instead")


def _loss(function: str, check: Callable[[Settings], None] | None = None, **own: Any) -> ModuleEntry:
    def prepare(chosen: Settings) -> Settings:
        if check is not None:
            check(chosen)
        return _resolve_reduction(chosen)

    base = _WeightedLoss if "weight" in own else _Loss
    return ModuleEntry(function, settings(**own), (), prepare, keyword_only=function == "gaussian_nll_loss", base=base)


#: Older arguments of losses, which override `reduction`.
OLD: Settings = {"size_average": None, "reduce": None}
END: Settings = {**OLD, "reduction": "mean"}
CLASSES: Settings = {
    "weight": None,
    "size_average": None,
    "ignore_index": -100,
    "reduce": None,
    "reduction": "mean",
}

TABLE = {
    "BCELoss": _loss("binary_cross_entropy", weight=None, **END),
    "BCEWithLogitsLoss": _loss("binary_cross_entropy_with_logits", weight=None, **END, pos_weight=None),
    "CTCLoss": _loss("ctc_loss", blank=0, reduction="mean", zero_infinity=False),
    "CosineEmbeddingLoss": _loss("cosine_embedding_loss", margin=0.0, **END),
    "CrossEntropyLoss": _loss("cross_entropy", **CLASSES, label_smoothing=0.0),
    "GaussianNLLLoss": _loss("gaussian_nll_loss", full=False, eps=1e-6, reduction="mean"),
    "HingeEmbeddingLoss": _loss("hinge_embedding_loss", margin=1.0, **END),
    "HuberLoss": _loss("huber_loss", _check_huber, reduction="mean", delta=1.0),
    "KLDivLoss": _loss("kl_div", **END, log_target=False),
    "L1Loss": _loss("l1_loss", **END),
    "MSELoss": _loss("mse_loss", **END),
    "MarginRankingLoss": _loss("margin_ranking_loss", margin=0.0, **END),
    "MultiLabelMarginLoss": _loss("multilabel_margin_loss", **END),
    "MultiLabelSoftMarginLoss": _loss("multilabel_soft_margin_loss", weight=None, **END),
    "MultiMarginLoss": _loss("multi_margin_loss", _check_multi_margin, p=1, margin=1.0, weight=None, **END),
    "NLLLoss": _loss("nll_loss", **CLASSES),
    "PoissonNLLLoss": _loss(
        "poisson_nll_loss", log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"
    ),
    "SmoothL1Loss": _loss("smooth_l1_loss", **END, beta=1.0),
    "SoftMarginLoss": _loss("soft_margin_loss", **END),
    "TripletMarginLoss": _loss(
        "triplet_margin_loss", _check_triplet_margin, margin=1.0, p=2.0, eps=1e-6, swap=False, **END
    ),
}


class TripletMarginWithDistanceLoss(_Loss):
    """`gradcore.nn.functional.triplet_margin_with_distance_loss` as a module.

    Parameters
    ----------
    distance_function : callable, optional
        Returns the distances of two tensors; by default `PairwiseDistance`.
    margin : float
    swap : bool
    reduction : {"none", "mean", "sum"}

    Examples
    --------
    >>> import gradcore as gc
    >>> loss = gc.nn.TripletMarginWithDistanceLoss(distance_function=gc.nn.PairwiseDistance())
    >>> loss(gc.tensor([[0.0, 0.0]]), gc.tensor([[1.0, 0.0]]), gc.tensor([[0.0, 1.5]]))
    tensor(0.5000)
    """

    def __init__(
        self, *, distance_function: Any = None, margin: float = 1.0, swap: bool = False, reduction: str = "mean"
    ) -> None:
        _check_triplet_margin({"margin": margin}, type(self).__name__)
        super().__init__(reduction=reduction)
        self.distance_function = layers.MADE["PairwiseDistance"]() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


MADE = {name: make(name, made, "gradcore.nn") for name, made in TABLE.items()}
globals().update(MADE)
__all__ += sorted(MADE)

if TYPE_CHECKING:  # the classes of the table

    def __getattr__(name: str) -> Any: ...
