"""`gradcore.scipy.special` against SciPy, and its derivatives."""

from __future__ import annotations

import ast
import doctest
import inspect
import math
import re
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.numpy.documentation import read_entries
from gradcore.scipy import fft, special
from gradcore.scipy.examples import SPECIAL
from tests.scipy_functions.comparing import called, check_derivatives, check_values, expressions

pytest.importorskip("scipy", minversion="1.17")
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.special
import scipy.stats


def arrays() -> dict[str, Any]:
    u = np.random.default_rng(8).uniform
    return {
        "A": u(0.4, 4, (3, 4)),
        "B": u(0.5, 3, 4),
        "S": u(-2, 2, (2, 5)),
        "P": u(0.05, 0.95, (3, 4)),
        "C": u(-1, 1, 5) + 1j * u(0.2, 1, 5),
        "F": u(0.3, 2, 6).astype(np.float32),
        "N": np.arange(4),
        "Z": np.array([[0.0, 1.0, -0.5, 2.0]]),
        "G": u(20, 60, 4),
    }


CALLS = """
gamma: A; F; N + 1
gammaln: A
loggamma: A
rgamma: A
digamma: A
psi: A
polygamma: 1, A; 0, A
multigammaln: A + 3, 2
beta: A, B; A, 2
betaln: A, B
poch: A, B
binom: A + 4, B
betainc: A, B, P; A, 2.0, 0.3; G, G + 3, P
betaincc: A, B, P
betaincinv: A, B, P
betainccinv: A, B, P
gammainc: A, B; F, F
gammaincc: A, B
gammaincinv: A, P
gammainccinv: A, P
erf: S; F
erfc: S
erfcx: S
erfinv: P
erfcinv: P
erfi: S
dawsn: S
ndtr: S
ndtri: P
log_ndtr: S
ndtri_exp: -A
owens_t: S, S[:1] + 0.3
wofz: C
voigt_profile: S, 0.7, 0.4; A, B, P
fresnel: S
expi: A
exp1: A
expn: N[1:] + 1, A[:, :3]; 2, A
exp2: S
exp10: S
expm1: S
log1p: A
cbrt: A
cosm1: S
exprel: S; Z
expit: S
logit: P
log_expit: S
softplus: S
entr: P
rel_entr: P, A
kl_div: P, A
xlogy: A, B
xlog1py: A, B
powm1: A, S[0, :4]
huber: 0.8, S; A, B
pseudo_huber: 0.8, S; A, B
boxcox: A, 0.3; A, Z
boxcox1p: A, B
inv_boxcox: P, 0.3; P, B
inv_boxcox1p: P, B
sici: A
shichi: A
spence: A; P
sinc: S
sindg: S
cosdg: S
tandg: S
cotdg: A
round: S
lambertw: A; C, -1; Z
wrightomega: A
zeta: A + 1.5, B
ellipk: P; S / 3
ellipkm1: P
ellipe: P
ellipkinc: A / 4, P
ellipeinc: A / 4, P
ellipj: A, 0.4
j0: A
j1: A
y0: A
y1: A
i0: S
i0e: S
i1: S
i1e: S
k0: A
k0e: A
k1: A
k1e: A
jv: 1.5, A; N, A; 0, S
yv: 1.5, A
iv: 0.5, A; N, A
kv: 1.5, A
jn: 2, A
yn: 2, A
kn: 2, A
gammasgn: S
ive: 1.5, A
kve: 1.5, A
struve: 0.5, A
modstruve: 0.5, A
ber: A
bei: A
ker: A
kei: A
berp: A
beip: A
kerp: A
keip: A
airy: S
hyp0f1: 1.5, S
hyp1f1: 0.5, 1.5, S
hyperu: 0.5, 1.5, A
hyp2f1: 0.5, 1.5, 2.5, P
eval_legendre: 3, P; N, P; 0, P
eval_chebyt: N, P
eval_chebyu: N, P
eval_chebyc: N, P
eval_chebys: 3, S
eval_hermite: N, A
eval_hermitenorm: N, A
eval_laguerre: N, A
eval_genlaguerre: N, 0.5, A
eval_gegenbauer: N, 1.5, P
eval_jacobi: N, 0.5, 1.5, P
eval_sh_legendre: N, P
eval_sh_chebyt: 3, P
eval_sh_chebyu: 3, P
chdtr: A, B
chdtrc: A, B
gdtr: A, B, P
gdtrc: A, B, P
fdtr: A, B, P
fdtrc: A, B, P
pdtr: N, A
pdtrc: 2, A
stdtr: 2.5, S
logsumexp: S; S, 0; S, 1, keepdims=True; A, b=B; S, 0, Z[:, 1:2]; S, 1, np.sign(S), return_sign=True; S, (0, 1); F
softmax: S; S, 1; A, (0, 1)
log_softmax: S; S, axis=0
"""


@pytest.mark.parametrize("expression", expressions(CALLS))
def test_values(expression: str) -> None:
    check_values(expression, "special", arrays(), 1e-9)


#: Whose derivatives by a parameter are themselves not differentiable by it.
_ONCE = {"ellipj"}


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    "expression", [e for e in expressions(CALLS) if "F" not in e and called(e) not in ("round", "gammasgn")]
)
def test_derivatives(expression: str) -> None:
    if expression == "gamma(N + 1)":
        return
    given = arrays()
    if "Z" in expression:
        given["Z"] = given["Z"] + 0.05
    check_derivatives(expression, "special", given, called(expression) not in _ONCE)


def test_derivatives_by_what_has_no_formula() -> None:
    v = gc.tensor(1.5, dtype=gc.float64, requires_grad=True)
    with pytest.raises(NotImplementedError, match="the derivative of jv by argument 0 is not implemented"):
        special.jv(v, 2.0).backward()


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.4), (0.5, 5.0), (30.0, 2.0), (80.0, 120.0)])
def test_parameters_of_the_incomplete_beta_function(a: float, b: float) -> None:
    """Against differences, over the whole range of the function."""
    p, q = (gc.tensor(v, dtype=gc.float64, requires_grad=True) for v in (a, b))
    for level in (1e-3, 0.2, 0.5, 0.9, 0.999):
        x = float(scipy.special.betaincinv(a, b, level))
        found = gc.autograd.grad(special.betainc(p, q, x), (p, q))
        for g, (da, db) in zip(found, ((1e-5, 0), (0, 1e-5)), strict=True):
            high, low = (scipy.special.betainc(a + s * da, b + s * db, x) for s in (1, -1))
            assert float(g) == pytest.approx((high - low) / 2e-5, rel=1e-5, abs=1e-9)


def test_every_function_is_there_or_left_out() -> None:
    assert set(special.__all__) | set(special.LEFT_OUT) >= set(scipy.special.__all__)
    assert not set(special.__all__) & set(special.LEFT_OUT)
    assert {called(e) for e in expressions(CALLS)} == set(special.__all__)


@pytest.mark.parametrize(("module", "name"), [(m, name) for m in (fft, special) for name in sorted(m.__all__)])
def test_docstrings_have_examples_that_run(module: Any, name: str) -> None:
    described = getattr(module, name).__doc__
    test = doctest.DocTestParser().get_doctest(described, {"gc": gc}, name, None, None)
    assert test.examples
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed == 0


@pytest.mark.parametrize("name", read_entries(SPECIAL))
def test_docstrings_name_the_differentiable_arguments(name: str) -> None:
    """A gradient with respect to an argument that the docstring does not name is an error."""
    arguments, example = read_entries(SPECIAL)[name]
    tree = ast.parse(example.partition(">>> ")[2].splitlines()[0])
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call))
    function, values = getattr(special, name), [ast.literal_eval(node) for node in call.args]
    for i, parameter in enumerate(inspect.signature(function).parameters):
        if parameter in arguments.split(", ") or arguments == "a step function" or i == len(values):
            continue
        leaf = gc.tensor(float(values[i]), dtype=gc.float64, requires_grad=True)
        with pytest.raises((NotImplementedError, RuntimeError, TypeError, ValueError)):  # noqa: PT012
            result = function(*values[:i], leaf, *values[i + 1 :])
            (result[0] if isinstance(result, tuple) else result).backward()


@pytest.mark.parametrize("name", [name for name, (_, text) in read_entries(SPECIAL).items() if "np." not in text])
def test_numbers_beside_tensors_without_dims(name: str) -> None:
    """A number and a tensor without dims have a result without dims, wherever the tensor stands."""
    tree = ast.parse(read_entries(SPECIAL)[name][1].partition(">>> ")[2].splitlines()[0])
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call))
    values = [ast.literal_eval(node) for node in call.args]
    wanted = getattr(scipy.special, name)(*values)
    for i, value in enumerate(values):
        if isinstance(value, int) and name in ("multigammaln", "polygamma"):
            continue
        found = getattr(special, name)(*values[:i], gc.tensor(value, dtype=gc.float64), *values[i + 1 :])
        for ours, theirs in zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, wanted)), strict=True):
            assert ours.shape == ()
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-9)


def test_numbers_of_arguments_and_complex_numbers() -> None:
    with pytest.raises(TypeError, match="positional arguments but 1 were given"):
        special.beta(gc.ones(2))
    with pytest.raises(TypeError, match="gamma of complex tensors"):
        special.gamma(gc.ones(2) * 1j)


@pytest.mark.parametrize(
    "name", ["legendre", "chebyt", "chebyu", "hermitenorm", "laguerre", "genlaguerre", "gegenbauer", "jacobi"]
)
@pytest.mark.parametrize("degree", [20, 60, 250])
def test_polynomials_of_high_degree(name: str, degree: int) -> None:
    """Degrees are tensors of floating-point numbers here, for which SciPy sums hypergeometric series that cancel."""
    x = np.linspace(-0.9, 0.9, 7) * (3 if "laguerre" in name else 1)
    further = {"genlaguerre": (0.5,), "gegenbauer": (0.7,), "jacobi": (0.3, 0.6)}.get(name, ())
    expected = getattr(scipy.special, f"eval_{name}")(degree, *further, x)
    found = getattr(special, f"eval_{name}")(degree, *further, gc.tensor(x))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("degree", [math.inf, -math.inf, math.nan, 1e18, 2.5])
def test_polynomials_of_degrees_without_a_recurrence(degree: float) -> None:
    expected = scipy.special.eval_legendre(degree, 0.3)
    np.testing.assert_allclose(special.eval_legendre(gc.tensor(degree, dtype=gc.float64), 0.3).numpy(), expected)


def test_gradients_of_voigt_profile_at_the_center_of_a_normal_distribution() -> None:
    x, sigma, gamma = (gc.tensor([v, v], dtype=gc.float64) for v in (0.0, 2.0, 0.0))
    sigma[1] = 0.0
    gamma[1] = 0.5
    inputs = [t.requires_grad_() for t in (x, sigma, gamma)]
    gradients = gc.autograd.grad(special.voigt_profile(*inputs).sum(), inputs)
    density = 1 / math.sqrt(8 * math.pi)
    expected = ([0, 0], [-density / 2, 0], [-1 / (4 * math.pi), -4 / math.pi])
    np.testing.assert_allclose([g.numpy() for g in gradients], expected, atol=1e-15)


def test_parameters_out_of_range() -> None:
    x = np.array([0.5, 1.5])
    for name, values in (("fdtr", (-1.0, 2.0)), ("fdtrc", (2.0, 0.0)), ("voigt_profile", ())):
        args = (*values, x) if values else (x, 0.0, 0.4)
        expected = getattr(scipy.special, name)(*args)
        given = (gc.tensor(a) if isinstance(a, np.ndarray) else a for a in args)
        np.testing.assert_allclose(getattr(special, name)(*given).numpy(), expected)
    for k, m in ((1, -1.0), (-1, 2.0), (-0.5, 2.0)):
        assert special.pdtr(k, gc.tensor(m)).isnan()
        assert special.pdtrc(k, gc.tensor(m)).isnan()
    with pytest.raises(ValueError, match="has to be an integer"):
        special.polygamma(1.5, gc.tensor(1.0))


def test_zeta_of_one_argument_is_riemanns() -> None:
    x = gc.tensor([1.5, 3.0], dtype=gc.float64)
    np.testing.assert_allclose(special.zeta(x), scipy.special.zeta(x.numpy()))
    np.testing.assert_allclose(special.zeta(x, 1.5), scipy.special.zeta(x.numpy(), 1.5))


def test_signs_of_gamma() -> None:
    x = np.array([-3.0, -2.5, -1.0, -0.5, -0.0, 0.0, 0.5, 3.0, np.nan, np.inf])
    np.testing.assert_array_equal(special.gammasgn(x), scipy.special.gammasgn(x))


@pytest.mark.parametrize("name", ["erf", "gamma", "betainc", "hyp2f1", "huber"])
def test_signatures_say_how_many_arguments_there_are(name: str) -> None:
    assert len(inspect.signature(getattr(special, name)).parameters) == getattr(scipy.special, name).nin


ADVICE = {
    "ndimage.gaussian_filter": lambda m: scipy.ndimage.gaussian_filter(m, 1.0),
    "interpolate.CubicSpline": lambda m: scipy.interpolate.CubicSpline(np.arange(3.0), m),
    "linalg.expm": lambda m: scipy.linalg.expm(m),
    "stats.norm.logpdf": lambda m: scipy.stats.norm.logpdf(m),
    "optimize.minimize": lambda m: scipy.optimize.minimize(lambda x: (x * x).sum(), m[0]),
    "integrate.solve_ivp": lambda m: scipy.integrate.solve_ivp(lambda t, y: y, (0, 1), m[0]),
    "signal.lfilter": lambda m: scipy.signal.lfilter([1.0], [1.0], m),
    "fft.dct": lambda m: scipy.fft.dct(m),
    "special.logsumexp": lambda m: scipy.special.logsumexp(m),
}


@pytest.mark.parametrize("path", ADVICE)
def test_errors_at_the_border_name_the_function_with_derivatives(path: str) -> None:
    matrix = gc.eye(3, dtype=gc.float64).requires_grad_()
    with pytest.raises(RuntimeError, match=re.escape(f"gradcore.scipy.{path} has them")):
        ADVICE[path](matrix)
    with pytest.raises(RuntimeError, match="from_scipy"):
        scipy.sparse.eye(3) @ matrix
    for layout in ("csr", "csc", "coo", "dia", "bsr", "lil"):  # of numbers without gradient they are arrays
        product = scipy.sparse.eye(3, format=layout) @ gc.arange(3)
        assert type(product) is np.ndarray
        assert product.tolist() == [0, 1, 2]


def test_errors_of_functions_that_are_those_of_scipy_name_no_other() -> None:
    frequency = gc.tensor(0.3, dtype=gc.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Use tensor\.detach\(\)\.numpy\(\) instead\.$"):
        gc.scipy.signal.butter(2, frequency)


def test_universal_functions_of_scipy_name_those_with_derivatives() -> None:
    x = gc.tensor([0.5, 2.0], dtype=gc.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"scipy\.special\.gamma.*functions of gradcore\.scipy\.special"):
        scipy.special.gamma(x)
    assert scipy.special.gamma(x.detach()).tolist() == pytest.approx([np.sqrt(np.pi), 1.0])
    assert scipy.special.erf(x).requires_grad


def test_derivatives_at_zero_of_distributions_with_a_finite_density_there() -> None:
    """The density at zero is ``0**0`` times a constant for a shape parameter of one."""
    zero = gc.zeros((), dtype=gc.float64, requires_grad=True)
    for result, density in (
        (special.betainc(1.0, 1.5, zero), 1.5),
        (special.gammainc(1.0, zero), 1.0),
        (special.gammaincc(1.0, zero), -1.0),
        (special.fdtr(2.0, 3.0, zero), 1.0),
        (special.chdtr(2.0, zero), 0.5),
    ):
        assert gc.autograd.grad(result, zero)[0].item() == pytest.approx(density)
