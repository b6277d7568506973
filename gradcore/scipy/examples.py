"""Summaries and examples of functions of `gradcore.scipy.fft` and `gradcore.scipy.special`, for their docstrings.

The first line of an entry names the function and the arguments with respect to which its result is differentiable.
"""

__all__ = ["FFT", "SPECIAL"]

FFT = r"""
dct | x
Return the discrete cosine transform.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.dct(x, norm="ortho")
tensor([ 1.1547, -0.7071,  0.2041], dtype=torch.float64)

dctn | x
Return the discrete cosine transform along several axes.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.dctn(x, norm="ortho")
tensor([ 1.1547, -0.7071,  0.2041], dtype=torch.float64)

dst | x
Return the discrete sine transform.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.dst(x, norm="ortho")
tensor([ 1.0206, -0.7071,  0.5774], dtype=torch.float64)

dstn | x
Return the discrete sine transform along several axes.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.dstn(x, norm="ortho")
tensor([ 1.0206, -0.7071,  0.5774], dtype=torch.float64)

fft | x
Return the discrete Fourier transform along an axis.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.fft(x).abs()
tensor([2.0000, 0.9014, 0.9014], dtype=torch.float64)

fft2 | x
Return the discrete Fourier transform along two axes.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.fft2(x[None]).abs()
tensor([[2.0000, 0.9014, 0.9014]], dtype=torch.float64)

fftfreq | no derivative
Return the frequencies of the elements of `fft`.
>>> fft.fftfreq(4)
tensor([ 0.0000,  0.2500, -0.5000, -0.2500], dtype=torch.float64)

fftn | x
Return the discrete Fourier transform along several axes.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.fftn(x).abs()
tensor([2.0000, 0.9014, 0.9014], dtype=torch.float64)

fht | a
Return the fast Hankel transform of a sequence with logarithmic spacing.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.fht(x, dln=0.1, mu=0.5)
tensor([1.2570, 0.2743, 0.4687], dtype=torch.float64)

fhtoffset | no derivative
Return the offset with which `fht` has the least ringing.
>>> round(fft.fhtoffset(0.1, mu=0.5), 6)
-0.027643

hfft | x
Return the Fourier transform of a signal with Hermitian symmetry.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.hfft(x, n=3)
tensor([ 1.2500, -0.2500, -0.2500], dtype=torch.float64)

hfft2 | x
Return the Fourier transform of a signal with Hermitian symmetry along two axes.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.hfft2(x[None], s=(1, 3))
tensor([[ 1.2500, -0.2500, -0.2500]], dtype=torch.float64)

hfftn | x
Return the Fourier transform of a signal with Hermitian symmetry along several axes.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.hfftn(x, s=(3,))
tensor([ 1.2500, -0.2500, -0.2500], dtype=torch.float64)

idct | x
Return the inverse of `dct`.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.idct(fft.dct(x))
tensor([0.2500, 0.5000, 1.2500], dtype=torch.float64)

idctn | x
Return the inverse of `dctn`.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.idctn(fft.dctn(x))
tensor([0.2500, 0.5000, 1.2500], dtype=torch.float64)

idst | x
Return the inverse of `dst`.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.idst(fft.dst(x))
tensor([0.2500, 0.5000, 1.2500], dtype=torch.float64)

idstn | x
Return the inverse of `dstn`.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.idstn(fft.dstn(x))
tensor([0.2500, 0.5000, 1.2500], dtype=torch.float64)

ifft | x
Return the inverse of `fft`.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.ifft(fft.fft(x)).real
tensor([0.2500, 0.5000, 1.2500], dtype=torch.float64)

ifft2 | x
Return the inverse of `fft2`.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.ifft2(fft.fft2(x[None])).real
tensor([[0.2500, 0.5000, 1.2500]], dtype=torch.float64)

ifftn | x
Return the inverse of `fftn`.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.ifftn(fft.fftn(x)).real
tensor([0.2500, 0.5000, 1.2500], dtype=torch.float64)

ifht | A
Return the inverse of `fht`.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.ifht(fft.fht(x, dln=0.1, mu=0.5), dln=0.1, mu=0.5)
tensor([0.2500, 0.5000, 1.2500], dtype=torch.float64)

ihfft | x
Return the inverse of `hfft`.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.ihfft(x).abs()
tensor([0.6667, 0.3005], dtype=torch.float64)

ihfft2 | x
Return the inverse of `hfft2`.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.ihfft2(x[None]).abs()
tensor([[0.6667, 0.3005]], dtype=torch.float64)

ihfftn | x
Return the inverse of `hfftn`.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.ihfftn(x).abs()
tensor([0.6667, 0.3005], dtype=torch.float64)

irfft | x
Return the inverse of `rfft`, of `n` elements.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.irfft(fft.rfft(x), n=3)
tensor([0.2500, 0.5000, 1.2500], dtype=torch.float64)

irfft2 | x
Return the inverse of `rfft2`.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.irfft2(fft.rfft2(x[None]), s=(1, 3))
tensor([[0.2500, 0.5000, 1.2500]], dtype=torch.float64)

irfftn | x
Return the inverse of `rfftn`.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.irfftn(fft.rfftn(x), s=(3,))
tensor([0.2500, 0.5000, 1.2500], dtype=torch.float64)

next_fast_len | no derivative
Return the next size at which transforms are fast.
>>> fft.next_fast_len(13)
14

prev_fast_len | no derivative
Return the previous size at which transforms are fast.
>>> fft.prev_fast_len(13)
12

rfft | x
Return the discrete Fourier transform of real input, without the redundant half.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.rfft(x).abs()
tensor([2.0000, 0.9014], dtype=torch.float64)

rfft2 | x
Return the discrete Fourier transform of real input along two axes.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.rfft2(x[None]).abs()
tensor([[2.0000, 0.9014]], dtype=torch.float64)

rfftfreq | no derivative
Return the frequencies of the elements of `rfft`.
>>> fft.rfftfreq(4)
tensor([0.0000, 0.2500, 0.5000], dtype=torch.float64)

rfftn | x
Return the discrete Fourier transform of real input along several axes.
>>> x = gc.tensor([0.25, 0.5, 1.25], dtype=gc.float64)
>>> fft.rfftn(x).abs()
tensor([2.0000, 0.9014], dtype=torch.float64)
"""

SPECIAL = r"""
airy | x
Return the Airy functions and their derivatives, ``(Ai, Aip, Bi, Bip)``.
>>> special.airy(0.5)[0]
tensor(0.2317, dtype=torch.float64)

bei | x
Return the Kelvin function bei.
>>> special.bei(0.5)
tensor(0.0625, dtype=torch.float64)

beip | x
Return the derivative of the Kelvin function bei.
>>> special.beip(0.5)
tensor(0.2499, dtype=torch.float64)

ber | x
Return the Kelvin function ber.
>>> special.ber(1.5)
tensor(0.9211, dtype=torch.float64)

berp | x
Return the derivative of the Kelvin function ber.
>>> special.berp(1.5)
tensor(-0.2100, dtype=torch.float64)

beta | x1, x2
Return the beta function.
>>> special.beta(1.5, 2.5)
tensor(0.1963, dtype=torch.float64)

betainc | x1, x2, x3
Return the regularized incomplete beta function.
>>> special.betainc(1.5, 2.5, 0.3)
tensor(0.4157, dtype=torch.float64)

betaincc | x1, x2, x3
Return the complement of the regularized incomplete beta function.
>>> special.betaincc(1.5, 2.5, 0.3)
tensor(0.5843, dtype=torch.float64)

betainccinv | x1, x2, x3
Return the inverse of `betaincc` with respect to its last argument.
>>> special.betainccinv(1.5, 2.5, 0.3)
tensor(0.4905, dtype=torch.float64)

betaincinv | x1, x2, x3
Return the inverse of `betainc` with respect to its last argument.
>>> special.betaincinv(1.5, 2.5, 0.3)
tensor(0.2298, dtype=torch.float64)

betaln | x1, x2
Return the natural logarithm of the absolute value of the beta function.
>>> special.betaln(1.5, 2.5)
tensor(-1.6279, dtype=torch.float64)

binom | x1, x2
Return the binomial coefficient as a function of two real variables.
>>> special.binom(4.5, 1.5)
tensor(6.5625, dtype=torch.float64)

boxcox | x, lmbda
Return the Box-Cox transformation, ``(x**lmbda - 1) / lmbda``, or ``log(x)`` for ``lmbda = 0``.
>>> special.boxcox(2.5, 0.5)
tensor(1.1623, dtype=torch.float64)

boxcox1p | x, lmbda
Return the Box-Cox transformation of ``1 + x``.
>>> special.boxcox1p(1.5, 0.5)
tensor(1.1623, dtype=torch.float64)

cbrt | x
Return the cube root.
>>> special.cbrt(2.0)
tensor(1.2599, dtype=torch.float64)

chdtr | v, x
Return the distribution function of the chi-squared distribution.
>>> special.chdtr(2.0, 1.5)
tensor(0.5276, dtype=torch.float64)

chdtrc | v, x
Return the survival function of the chi-squared distribution.
>>> special.chdtrc(2.0, 1.5)
tensor(0.4724, dtype=torch.float64)

cosdg | x
Return the cosine of an angle in degrees.
>>> special.cosdg(30.0)
tensor(0.8660, dtype=torch.float64)

cosm1 | x
Return ``cos(x) - 1``, accurately for small ``x``.
>>> special.cosm1(0.5)
tensor(-0.1224, dtype=torch.float64)

cotdg | x
Return the cotangent of an angle in degrees.
>>> special.cotdg(30.0)
tensor(1.7321, dtype=torch.float64)

dawsn | x
Return Dawson's integral.
>>> special.dawsn(0.5)
tensor(0.4244, dtype=torch.float64)

digamma | x
Return the digamma function, the logarithmic derivative of `gamma`.
>>> special.digamma(1.5)
tensor(0.0365, dtype=torch.float64)

ellipe | x
Return the complete elliptic integral of the second kind.
>>> special.ellipe(0.5)
tensor(1.3506, dtype=torch.float64)

ellipeinc | x1, x2
Return the incomplete elliptic integral of the second kind.
>>> special.ellipeinc(0.7, 0.5)
tensor(0.6732, dtype=torch.float64)

ellipj | x1
Return the Jacobian elliptic functions ``(sn, cn, dn)`` and the amplitude ``ph``.
>>> special.ellipj(0.7, 0.5)[3]
tensor(0.6743, dtype=torch.float64)

ellipk | x
Return the complete elliptic integral of the first kind.
>>> special.ellipk(0.5)
tensor(1.8541, dtype=torch.float64)

ellipkinc | x1, x2
Return the incomplete elliptic integral of the first kind.
>>> special.ellipkinc(0.7, 0.5)
tensor(0.7288, dtype=torch.float64)

ellipkm1 | x
Return the complete elliptic integral of the first kind of ``1 - p``, accurately around ``p = 0``.
>>> special.ellipkm1(0.5)
tensor(1.8541, dtype=torch.float64)

entr | x
Return the elementwise entropy, ``-x log(x)``.
>>> special.entr(0.5)
tensor(0.3466, dtype=torch.float64)

erf | x
Return the error function.
>>> special.erf(0.5)
tensor(0.5205, dtype=torch.float64)

erfc | x
Return the complementary error function, ``1 - erf(x)``.
>>> special.erfc(0.5)
tensor(0.4795, dtype=torch.float64)

erfcinv | x
Return the inverse of the complementary error function.
>>> special.erfcinv(0.5)
tensor(0.4769, dtype=torch.float64)

erfcx | x
Return the scaled complementary error function, ``exp(x**2) erfc(x)``.
>>> special.erfcx(0.5)
tensor(0.6157, dtype=torch.float64)

erfi | x
Return the imaginary error function, ``-i erf(i x)``.
>>> special.erfi(0.5)
tensor(0.6150, dtype=torch.float64)

erfinv | x
Return the inverse of the error function.
>>> special.erfinv(0.5)
tensor(0.4769, dtype=torch.float64)

eval_chebyc | x
Evaluate a Chebyshev polynomial of the first kind on ``[-2, 2]``.
>>> special.eval_chebyc(3, 0.7)
tensor(-1.7570, dtype=torch.float64)

eval_chebys | x
Evaluate a Chebyshev polynomial of the second kind on ``[-2, 2]``.
>>> special.eval_chebys(3, 0.7)
tensor(-1.0570, dtype=torch.float64)

eval_chebyt | x2
Evaluate a Chebyshev polynomial of the first kind.
>>> special.eval_chebyt(3, 0.7)
tensor(-0.7280, dtype=torch.float64)

eval_chebyu | x2
Evaluate a Chebyshev polynomial of the second kind.
>>> special.eval_chebyu(3, 0.7)
tensor(-0.0560, dtype=torch.float64)

eval_gegenbauer | x3
Evaluate a Gegenbauer polynomial.
>>> special.eval_gegenbauer(3, 1.5, 0.7)
tensor(0.7525, dtype=torch.float64)

eval_genlaguerre | x3
Evaluate a generalized Laguerre polynomial.
>>> special.eval_genlaguerre(3, 1.5, 0.7)
tensor(2.0953, dtype=torch.float64)

eval_hermite | x2
Evaluate a physicist's Hermite polynomial.
>>> special.eval_hermite(3, 0.7)
tensor(-5.6560, dtype=torch.float64)

eval_hermitenorm | x2
Evaluate a probabilist's Hermite polynomial.
>>> special.eval_hermitenorm(3, 0.7)
tensor(-1.7570, dtype=torch.float64)

eval_jacobi | x4
Evaluate a Jacobi polynomial.
>>> special.eval_jacobi(3, 0.5, 1.5, 0.6)
tensor(-0.5705, dtype=torch.float64)

eval_laguerre | x2
Evaluate a Laguerre polynomial.
>>> special.eval_laguerre(3, 0.7)
tensor(-0.4222, dtype=torch.float64)

eval_legendre | x2
Evaluate a Legendre polynomial.
>>> special.eval_legendre(3, 0.7)
tensor(-0.1925, dtype=torch.float64)

eval_sh_chebyt | x
Evaluate a Chebyshev polynomial of the first kind on ``[0, 1]``.
>>> special.eval_sh_chebyt(3, 0.7)
tensor(-0.9440, dtype=torch.float64)

eval_sh_chebyu | x
Evaluate a Chebyshev polynomial of the second kind on ``[0, 1]``.
>>> special.eval_sh_chebyu(3, 0.7)
tensor(-1.0880, dtype=torch.float64)

eval_sh_legendre | x
Evaluate a Legendre polynomial on ``[0, 1]``.
>>> special.eval_sh_legendre(3, 0.7)
tensor(-0.4400, dtype=torch.float64)

exp1 | x
Return the exponential integral E1.
>>> special.exp1(0.5)
tensor(0.5598, dtype=torch.float64)

exp10 | x
Return ``10**x``.
>>> special.exp10(0.5)
tensor(3.1623, dtype=torch.float64)

exp2 | x
Return ``2**x``.
>>> special.exp2(0.5)
tensor(1.4142, dtype=torch.float64)

expi | x
Return the exponential integral Ei.
>>> special.expi(0.5)
tensor(0.4542, dtype=torch.float64)

expit | x
Return the logistic sigmoid, ``1 / (1 + exp(-x))``.
>>> special.expit(0.5)
tensor(0.6225, dtype=torch.float64)

expm1 | x
Return ``exp(x) - 1``, accurately for small ``x``.
>>> special.expm1(0.5)
tensor(0.6487, dtype=torch.float64)

expn | x2
Return the generalized exponential integral of whole order.
>>> special.expn(2, 0.5)
tensor(0.3266, dtype=torch.float64)

exprel | x
Return ``(exp(x) - 1) / x``.
>>> special.exprel(0.5)
tensor(1.2974, dtype=torch.float64)

fdtr | dfn, dfd, x
Return the distribution function of the F distribution.
>>> special.fdtr(2.0, 3.0, 1.5)
tensor(0.6464, dtype=torch.float64)

fdtrc | dfn, dfd, x
Return the survival function of the F distribution.
>>> special.fdtrc(2.0, 3.0, 1.5)
tensor(0.3536, dtype=torch.float64)

fresnel | x
Return the Fresnel integrals ``(S, C)``.
>>> special.fresnel(0.5)
(tensor(0.0647, dtype=torch.float64), tensor(0.4923, dtype=torch.float64))

gamma | x
Return the gamma function.
>>> special.gamma(1.5)
tensor(0.8862, dtype=torch.float64)

gammainc | x1, x2
Return the regularized lower incomplete gamma function.
>>> special.gammainc(1.5, 0.7)
tensor(0.2945, dtype=torch.float64)

gammaincc | x1, x2
Return the regularized upper incomplete gamma function.
>>> special.gammaincc(1.5, 0.7)
tensor(0.7055, dtype=torch.float64)

gammainccinv | x1, x2
Return the inverse of `gammaincc` with respect to its second argument.
>>> special.gammainccinv(1.5, 0.7)
tensor(0.7118, dtype=torch.float64)

gammaincinv | x1, x2
Return the inverse of `gammainc` with respect to its second argument.
>>> special.gammaincinv(1.5, 0.7)
tensor(1.8324, dtype=torch.float64)

gammaln | x
Return the logarithm of the absolute value of the gamma function.
>>> special.gammaln(1.5)
tensor(-0.1208, dtype=torch.float64)

gammasgn | no derivative
Return the sign of the gamma function.
>>> special.gammasgn(-0.5)
tensor(-1., dtype=torch.float64)

gdtr | a, b, x
Return the distribution function of the gamma distribution.
>>> special.gdtr(1.5, 2.0, 0.7)
tensor(0.2826, dtype=torch.float64)

gdtrc | a, b, x
Return the survival function of the gamma distribution.
>>> special.gdtrc(1.5, 2.0, 0.7)
tensor(0.7174, dtype=torch.float64)

huber | delta, r
Return the Huber loss.
>>> special.huber(1.5, 0.7)
tensor(0.2450, dtype=torch.float64)

hyp0f1 | x2
Return the confluent hypergeometric limit function.
>>> special.hyp0f1(1.5, 0.7)
tensor(1.5365, dtype=torch.float64)

hyp1f1 | x3
Return Kummer's confluent hypergeometric function.
>>> special.hyp1f1(0.5, 1.5, 0.7)
tensor(1.2918, dtype=torch.float64)

hyp2f1 | x4
Return Gauss's hypergeometric function.
>>> special.hyp2f1(0.5, 1.5, 2.5, 0.7)
tensor(1.3649, dtype=torch.float64)

hyperu | x3
Return Tricomi's confluent hypergeometric function.
>>> special.hyperu(0.5, 1.5, 0.7)
tensor(1.1952, dtype=torch.float64)

i0 | x
Return the modified Bessel function of the first kind of order 0.
>>> special.i0(0.5)
tensor(1.0635, dtype=torch.float64)

i0e | x
Return the exponentially scaled modified Bessel function of the first kind of order 0.
>>> special.i0e(0.5)
tensor(0.6450, dtype=torch.float64)

i1 | x
Return the modified Bessel function of the first kind of order 1.
>>> special.i1(0.5)
tensor(0.2579, dtype=torch.float64)

i1e | x
Return the exponentially scaled modified Bessel function of the first kind of order 1.
>>> special.i1e(0.5)
tensor(0.1564, dtype=torch.float64)

inv_boxcox | x, lmbda
Return the inverse of the Box-Cox transformation.
>>> special.inv_boxcox(0.7, 0.5)
tensor(1.8225, dtype=torch.float64)

inv_boxcox1p | x, lmbda
Return the inverse of `boxcox1p`.
>>> special.inv_boxcox1p(0.7, 0.5)
tensor(0.8225, dtype=torch.float64)

iv | x2
Return the modified Bessel function of the first kind of real order.
>>> special.iv(1.5, 0.7)
tensor(0.1635, dtype=torch.float64)

ive | x2
Return the exponentially scaled modified Bessel function of the first kind.
>>> special.ive(1.5, 0.7)
tensor(0.0812, dtype=torch.float64)

j0 | x
Return the Bessel function of the first kind of order 0.
>>> special.j0(0.5)
tensor(0.9385, dtype=torch.float64)

j1 | x
Return the Bessel function of the first kind of order 1.
>>> special.j1(0.5)
tensor(0.2423, dtype=torch.float64)

jv | x2
Return the Bessel function of the first kind of real order.
>>> special.jv(1.5, 0.7)
tensor(0.1483, dtype=torch.float64)

k0 | x
Return the modified Bessel function of the second kind of order 0.
>>> special.k0(0.5)
tensor(0.9244, dtype=torch.float64)

k0e | x
Return the exponentially scaled modified Bessel function of the second kind of order 0.
>>> special.k0e(0.5)
tensor(1.5241, dtype=torch.float64)

k1 | x
Return the modified Bessel function of the second kind of order 1.
>>> special.k1(0.5)
tensor(1.6564, dtype=torch.float64)

k1e | x
Return the exponentially scaled modified Bessel function of the second kind of order 1.
>>> special.k1e(0.5)
tensor(2.7310, dtype=torch.float64)

kei | x
Return the Kelvin function kei.
>>> special.kei(0.5)
tensor(-0.6716, dtype=torch.float64)

keip | x
Return the derivative of the Kelvin function kei.
>>> special.keip(0.5)
tensor(0.3332, dtype=torch.float64)

ker | x
Return the Kelvin function ker.
>>> special.ker(0.5)
tensor(0.8559, dtype=torch.float64)

kerp | x
Return the derivative of the Kelvin function ker.
>>> special.kerp(0.5)
tensor(-1.8198, dtype=torch.float64)

kl_div | x1, x2
Return the elementwise Kullback-Leibler divergence, ``x log(x / y) - x + y``.
>>> special.kl_div(0.5, 0.7)
tensor(0.0318, dtype=torch.float64)

kv | x2
Return the modified Bessel function of the second kind of real order.
>>> special.kv(1.5, 0.7)
tensor(1.8066, dtype=torch.float64)

kve | x2
Return the exponentially scaled modified Bessel function of the second kind.
>>> special.kve(1.5, 0.7)
tensor(3.6380, dtype=torch.float64)

log1p | x
Return ``log(1 + x)``, accurately for small ``x``.
>>> special.log1p(0.5)
tensor(0.4055, dtype=torch.float64)

log_expit | x
Return the logarithm of the logistic sigmoid.
>>> special.log_expit(0.5)
tensor(-0.4741, dtype=torch.float64)

log_ndtr | x
Return the logarithm of the normal distribution function.
>>> special.log_ndtr(0.5)
tensor(-0.3689, dtype=torch.float64)

loggamma | x
Return the principal branch of the logarithm of the gamma function.
>>> special.loggamma(1.5)
tensor(-0.1208, dtype=torch.float64)

logit | x
Return the inverse of the logistic sigmoid, ``log(x / (1 - x))``.
>>> special.logit(0.7)
tensor(0.8473, dtype=torch.float64)

modstruve | x2
Return the modified Struve function.
>>> special.modstruve(1.5, 0.7)
tensor(0.0420, dtype=torch.float64)

multigammaln | a
Return the logarithm of the multivariate gamma function.
>>> special.multigammaln(2.5, 2)
tensor(0.8570, dtype=torch.float64)

ndtr | x
Return the distribution function of the standard normal distribution.
>>> special.ndtr(0.5)
tensor(0.6915, dtype=torch.float64)

ndtri | x
Return the quantile function of the standard normal distribution.
>>> special.ndtri(0.7)
tensor(0.5244, dtype=torch.float64)

ndtri_exp | x
Return the inverse of `log_ndtr`.
>>> special.ndtri_exp(-0.7)
tensor(-0.0086, dtype=torch.float64)

owens_t | x1, x2
Return Owen's T function.
>>> special.owens_t(0.5, 0.7)
tensor(0.0842, dtype=torch.float64)

pdtr | k, m
Return the distribution function of the Poisson distribution.
>>> special.pdtr(2.0, 1.5)
tensor(0.8088, dtype=torch.float64)

pdtrc | k, m
Return the survival function of the Poisson distribution.
>>> special.pdtrc(2.0, 1.5)
tensor(0.1912, dtype=torch.float64)

poch | x1, x2
Return the Pochhammer symbol, ``gamma(x1 + x2) / gamma(x1)``.
>>> special.poch(1.5, 0.7)
tensor(1.2433, dtype=torch.float64)

polygamma | x
Return a derivative of the digamma function.
>>> special.polygamma(1, 1.5)
tensor(0.9348, dtype=torch.float64)

powm1 | x1, x2
Return ``x1**x2 - 1``, accurately where the power is close to 1.
>>> special.powm1(1.5, 0.7)
tensor(0.3282, dtype=torch.float64)

pseudo_huber | delta, r
Return the pseudo-Huber loss.
>>> special.pseudo_huber(1.5, 0.7)
tensor(0.2329, dtype=torch.float64)

psi | x
Return the digamma function, the logarithmic derivative of `gamma`.
>>> special.psi(1.5)
tensor(0.0365, dtype=torch.float64)

rel_entr | x1, x2
Return the elementwise relative entropy, ``x log(x / y)``.
>>> special.rel_entr(0.5, 0.7)
tensor(-0.1682, dtype=torch.float64)

rgamma | x
Return the reciprocal of the gamma function.
>>> special.rgamma(1.5)
tensor(1.1284, dtype=torch.float64)

round | a step function
Round to the nearest whole number, and to the even one of two.
>>> special.round(1.7)
tensor(2., dtype=torch.float64)

shichi | x
Return the hyperbolic sine and cosine integrals ``(Shi, Chi)``.
>>> special.shichi(0.5)
(tensor(0.5070, dtype=torch.float64), tensor(-0.0528, dtype=torch.float64))

sici | x
Return the sine and cosine integrals ``(Si, Ci)``.
>>> special.sici(0.5)
(tensor(0.4931, dtype=torch.float64), tensor(-0.1778, dtype=torch.float64))

sinc | x
Return ``sin(pi x) / (pi x)``.
>>> special.sinc(0.5)
tensor(0.6366, dtype=torch.float64)

sindg | x
Return the sine of an angle in degrees.
>>> special.sindg(30.5)
tensor(0.5075, dtype=torch.float64)

softplus | x
Return ``log(1 + exp(x))``.
>>> special.softplus(0.5)
tensor(0.9741, dtype=torch.float64)

spence | x
Return Spence's function, the dilogarithm of ``1 - x``.
>>> special.spence(0.5)
tensor(0.5822, dtype=torch.float64)

stdtr | x1, x2
Return the distribution function of Student's t distribution.
>>> special.stdtr(2.5, 0.7)
tensor(0.7283, dtype=torch.float64)

struve | x2
Return the Struve function.
>>> special.struve(1.5, 0.7)
tensor(0.0398, dtype=torch.float64)

tandg | x
Return the tangent of an angle in degrees.
>>> special.tandg(30.0)
tensor(0.5774, dtype=torch.float64)

voigt_profile | x, sigma, gamma
Return the Voigt profile: a normal and a Cauchy distribution, convolved.
>>> special.voigt_profile(0.5, 1.5, 0.7)
tensor(0.1828, dtype=torch.float64)

wofz | z
Return the Faddeeva function, ``exp(-z**2) erfc(-i z)``.
>>> special.wofz(0.5)
tensor(0.7788+0.4789j, dtype=torch.complex128)

wrightomega | x
Return the Wright omega function.
>>> special.wrightomega(0.5)
tensor(0.7662, dtype=torch.float64)

xlog1py | x1, x2
Return ``x1 log(1 + x2)``, and 0 where ``x1`` is 0.
>>> special.xlog1py(1.5, 0.7)
tensor(0.7959, dtype=torch.float64)

xlogy | x1, x2
Return ``x1 log(x2)``, and 0 where ``x1`` is 0.
>>> special.xlogy(1.5, 0.7)
tensor(-0.5350, dtype=torch.float64)

y0 | x
Return the Bessel function of the second kind of order 0.
>>> special.y0(0.5)
tensor(-0.4445, dtype=torch.float64)

y1 | x
Return the Bessel function of the second kind of order 1.
>>> special.y1(0.5)
tensor(-1.4715, dtype=torch.float64)

yv | x2
Return the Bessel function of the second kind of real order.
>>> special.yv(1.5, 0.7)
tensor(-1.6564, dtype=torch.float64)

zeta | x, q
Return the Riemann zeta function, or Hurwitz's if `q` is given.
>>> special.zeta(1.5, 2.5)
tensor(1.4038, dtype=torch.float64)
"""
