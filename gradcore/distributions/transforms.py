"""Maps between sets of values, with the logarithms of their Jacobian determinants.

Examples
--------
>>> import gradcore
>>> from gradcore.distributions.transforms import AffineTransform, ComposeTransform, ExpTransform
>>> transform = ComposeTransform([AffineTransform(0.0, 2.0), ExpTransform()])
>>> x = gradcore.tensor(1.0)
>>> y = transform(x)
>>> y, transform.inv(y), transform.log_abs_det_jacobian(x, y)
(tensor(7.3891), tensor(1.), tensor(2.6931))
"""

from gradcore.distributions.number_transforms import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from gradcore.distributions.transform import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    identity_transform,
)
from gradcore.distributions.vector_transforms import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]
