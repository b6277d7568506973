"""Complex numbers: construction, parts, conjugates and magnitudes."""

from __future__ import annotations

from gradcore.backends.kernel_rules import leading
from gradcore.ops.declare.samples import Case, case, complexes, floats
from gradcore.ops.declare.table import composite, elementwise, linear


def _complex_samples() -> list[Case]:
    return [case(complexes(3, 4)), case(complexes()), case(complexes(0, 2))]


def _samples() -> list[Case]:
    return [case(floats(3, 4)), *_complex_samples()]


# -- real and imaginary parts --------------------------------------------------------------------------------


@linear(lambda F, grad: F.view_as_complex(F.contiguous(grad)), view=True, samples=_complex_samples, batch=leading(0))
def view_as_real(self):
    """Return a view of complex numbers as pairs of real numbers, in a new last dim of size 2.

    Returns
    -------
    Tensor
        Result of shape ``(*, 2)``: a view.

    Examples
    --------
    >>> gc.view_as_real(gc.tensor([1 + 2j, 3 + 4j]))
    tensor([[1., 2.],
            [3., 4.]])
    """


@linear(
    lambda F, grad: F.view_as_real(grad),
    view=True,
    layout_dependent=True,
    samples=lambda: [case(floats(3, 2)), case(floats(2)), case(floats(0, 2))],
    autocast="float32:cpu",
    batch=leading(0),
)
def view_as_complex(self):
    """Return a view of pairs of real numbers, in a last dim of size 2, as complex numbers.

    Returns
    -------
    Tensor
        Result of shape ``(*)``, without the last dim: a view.

    Examples
    --------
    >>> gc.view_as_complex(gc.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1.+2.j, 3.+4.j])
    """


@composite(method=False, attribute=True, samples=_samples)
def real(F, self):
    """Return a view of the real part; a real tensor is returned as it is.

    Examples
    --------
    >>> gc.real(gc.tensor([1 + 2j, 3 + 4j]))
    tensor([1., 3.])
    """
    return F.real_part(self) if self.is_complex() else self


@composite(method=False, attribute=True, samples=_complex_samples)
def imag(F, self):
    """Return the imaginary part, a view.

    Examples
    --------
    >>> gc.imag(gc.tensor([1 + 2j, 3 + 4j]))
    tensor([2., 4.])
    """
    if not self.is_complex():
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return F.imaginary_part(self)


@linear(
    lambda F, grad: F.complex(grad, F.zeros_like(grad)),
    view=True,
    node="SelectBackward0",
    kernel="real",
    function=False,
    method=False,
)
def real_part(self):
    """Return the real part of complex numbers."""


@linear(
    lambda F, grad: F.complex(F.zeros_like(grad), grad),
    view=True,
    node="SelectBackward0",
    kernel="imag",
    function=False,
    method=False,
)
def imaginary_part(self):
    """Return the imaginary part of complex numbers."""


# -- conjugates ----------------------------------------------------------------------------------------------


@composite(samples=_samples)
def conj(F, self):
    """Return the complex conjugate; a real tensor is returned as it is.

    Examples
    --------
    >>> gc.conj(gc.tensor([1 + 2j, 3 + 4j]))
    tensor([1.-2.j, 3.-4.j])
    """
    return F.conjugate_elements(self) if self.is_complex() else self


@composite(inplace="function", samples=_samples)
def conj_physical(F, self):
    """Return the complex conjugate in new memory.

    Examples
    --------
    >>> gc.conj_physical(gc.tensor([1 + 2j, 3 + 4j]))
    tensor([1.-2.j, 3.-4.j])
    """
    return F.conjugated_physically(self) if self.is_complex() else self


@composite(samples=_samples)
def resolve_conj(F, self):
    """Return the tensor itself: conjugates are computed at once.

    Examples
    --------
    >>> gc.resolve_conj(gc.tensor([1 + 2j]).conj())
    tensor([1.-2.j])
    """
    return self


@composite(samples=_samples)
def resolve_neg(F, self):
    """Return the tensor itself: negatives are computed at once.

    Examples
    --------
    >>> gc.resolve_neg(gc.tensor([1 + 2j]).conj().imag)
    tensor([-2.])
    """
    return self


@linear(
    lambda F, grad: F.conj(grad),
    node="ConjBackward0",
    kernel="conj",
    function=False,
    method=False,
)
def conjugate_elements(self):
    """Return the conjugate of complex numbers."""


@linear(
    lambda F, grad: F.conj(grad),
    node="ConjPhysicalBackward0",
    kernel="conj",
    function=False,
    method=False,
)
def conjugated_physically(self):
    """Return the conjugate of complex numbers."""


# -- polar and rectangular form ------------------------------------------------------------------------------


@elementwise(promotion="complex", method=False, inplace=False, accepts_scalars=())
def complex(K, real, imag):
    """Compute ``real + 1j * imag``.

    Examples
    --------
    >>> gc.complex(gc.tensor([1.0, 3.0]), gc.tensor([2.0, 4.0]))
    tensor([1.+2.j, 3.+4.j])
    """
    return real + 1j * imag


complex.vjp("real")(lambda F, grad, imag: F.real(grad))
complex.vjp("imag")(lambda F, grad, real: F.imag(grad))
complex.jvp("real")(lambda F, t: F.complex(t, F.zeros_like(t)))
complex.jvp("imag")(lambda F, t: F.complex(F.zeros_like(t), t))


@elementwise(
    promotion="complex", method=False, inplace=False, accepts_scalars=(), connected=("abs",), autocast="float32:cpu"
)
def polar(K, abs, angle):
    """Compute ``abs * exp(1j * angle)``.

    Examples
    --------
    >>> gc.polar(gc.tensor([1.0, 2.0]), gc.tensor([0.0, 3.1416]))
    tensor([ 1.+0.0000e+00j, -2.-1.4480e-05j])
    """
    return K.complex(abs * K.cos(angle), abs * K.sin(angle))


@polar.vjp("abs")
def _(F, grad, angle):
    return F.real(grad) * F.cos(angle) + F.imag(grad) * F.sin(angle)


@polar.vjp("angle")
def _(F, grad, abs, angle):
    return abs * (F.imag(grad) * F.cos(angle) - F.real(grad) * F.sin(angle))


@polar.jvp("abs")
def _(F, t, angle):
    return F.complex(t * F.cos(angle), t * F.sin(angle))


@polar.jvp("angle")
def _(F, t, abs, angle):
    return F.complex(-t * abs * F.sin(angle), t * abs * F.cos(angle))


@elementwise(promotion="real_float", inplace=False)
def angle(self):
    """Return the angle to the positive real axis: of real numbers 0, or pi if negative.

    Examples
    --------
    >>> gc.angle(gc.tensor([1 + 1j, -1 + 0j]))
    tensor([0.7854, 3.1416])
    """


@angle.vjp("self")
def _(F, grad, self):
    if not F.is_complex(self):
        return F.zeros_like(grad)
    x, y = F.real(self), F.imag(self)
    size = x * x + y * y
    return F.where(size == 0, 0, F.complex(-y, x) * (grad / size))


@angle.jvp("self")
def _(F, t, self):
    if not F.is_complex(self):
        return F.zeros_like(t)
    x, y = F.real(self), F.imag(self)
    size = x * x + y * y
    return F.where(size == 0, 0, (x * F.imag(t) - y * F.real(t)) / size)


# -- tests ---------------------------------------------------------------------------------------------------


@composite(method=False, samples=_samples)
def is_complex(F, self):
    """Return whether the dtype is complex.

    Examples
    --------
    >>> gc.is_complex(gc.tensor([1 + 2j]))
    True
    """
    return self.dtype.is_complex


@composite(method=False, samples=_samples)
def is_floating_point(F, self):
    """Return whether the dtype is a real floating-point type.

    Examples
    --------
    >>> gc.is_floating_point(gc.tensor([1.0]))
    True
    """
    return self.dtype.is_floating_point
