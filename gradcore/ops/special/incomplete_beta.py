"""Derivatives of the regularized incomplete beta function by its parameters.

With ``P(x) = integral of density(u)`` from 0 to x, where ``density(u) = u**(p-1) * (1-u)**(q-1) / B(p, q)``,

    dP/dp = integral of density(u) * (log(u) - E[log(u)])
    dP/dq = integral of density(u) * (log(1-u) - E[log(1-u)])

and the means E are differences of digamma functions. Three steps make that accurate for all parameters and all x:

1. Of the two tails the one is taken in which x is at most the mean. There neither integrand changes its sign.
2. The recurrence ``P(p, q) = P(p+1, q) + u**p * (1-u)**q / (p * B(p, q))`` raises p, so that the tail becomes short.
   The derivatives of all its terms have one sign, so nothing cancels.
3. In the variable ``y = log(u / (1-u))`` the rest of the integrand is log-concave and analytic in a strip for all
parameters. It is integrated by Gauss's rule from where it has become negligible.
"""

from __future__ import annotations

from gradcore.ops.special.quadrature import gauss_legendre

#: The number by which recurrences raise p.
_RAISED = 8
#: The integrand is neglected where it is below ``exp(-_DROP)`` times its largest value.
_DROP = 38.0
#: The number of quadrature points.
_POINTS = 64
#: The number of steps in the search for the end of the interval, whose exact position does not matter.
_BISECTIONS = 6
#: The number by which recurrences raise the argument of the digamma function before its asymptotic series is used.
_DIGAMMA_RAISED = 10
#: ``B_2 / 2, B_4 / 4, ...``: the coefficients of that series.
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def digamma_difference(F, z, s):
    """Return ``digamma(z + s) - digamma(z)`` for positive `z` and `s`, without cancellation."""
    total = 0
    for k in range(_DIGAMMA_RAISED):
        total = total + s / ((z + k) * (z + s + k))
    low = z + _DIGAMMA_RAISED
    high = low + s
    total = total + F.log1p(s / low) + s / (2 * low * high)
    of_low, of_high = 1 / (low * low), 1 / (high * high)
    first = s * (low + high) * of_low * of_high  # of_low - of_high
    difference, power = first, of_high
    for coefficient in _DIGAMMA_SERIES:
        total = total + coefficient * difference
        difference = of_low * difference + power * first
        power = power * of_high
    return total


def _interval(F, p, q, log_u, log_rest):
    """Return the length of the interval below u, in y, outside of which the integrand is negligible."""
    y = log_u - log_rest
    short = _DROP / p + 0 * y
    long = short - (1 + q / p) * log_rest
    for _ in range(_BISECTIONS):
        length = F.sqrt(short * long)
        at = y - length
        drop = p * (log_u - F.logsigmoid(at)) + q * (log_rest - F.logsigmoid(-at))
        short, long = F.where(drop < _DROP, length, short), F.where(drop < _DROP, long, length)
    return long


def _tail_slope(F, p, q, log_u, log_rest, by_q):
    """Return the derivative of the tail up to u by `q` where `by_q` is True, else by `p`."""
    to_p = [digamma_difference(F, p + _RAISED, q)]  # digamma(p + j + q) - digamma(p + j), from the last to the first
    for j in reversed(range(1, _RAISED)):
        to_p.append(to_p[-1] + q / ((p + j) * (p + j + q)))
    to_q = digamma_difference(F, q, p)
    term = F.exp(p * log_u + q * log_rest - F.special_of_two(p, q, "betaln")) / p
    total = 0
    for j in range(_RAISED):
        step = 1 / (p + q + j)
        total = total + term * F.where(by_q, log_rest + to_q, log_u + to_p[-1 - j] - step)
        to_q = to_q + step
        term = term * F.exp(log_u) * (p + q + j) / (p + j + 1)
    p = p + _RAISED
    y = log_u - log_rest
    length = _interval(F, p, q, log_u, log_rest)
    log_beta = F.special_of_two(p, q, "betaln")
    for node, weight in gauss_legendre(_POINTS):
        at = y - length * node
        log, log_complement = F.logsigmoid(at), F.logsigmoid(-at)
        term = weight * length * F.exp(p * log + q * log_complement - log_beta)
        total = total + term * F.where(by_q, log_complement + to_q, log + to_p[0])
    return total


def beta_slope(F, a, b, x, position):
    """Return the derivative of the regularized incomplete beta function by `a` (`position` 0) or by `b` (1)."""
    end = (x == 0) | (x == 1)  # the function is 0 or 1 there for all parameters
    x = F.where(end, 0.5, x)
    log_x, log_rest = F.log(x), F.log1p(-x)
    upper = x > a / (a + b)
    p, q = F.where(upper, b, a), F.where(upper, a, b)
    by_q = upper if position == 0 else ~upper
    slope = _tail_slope(F, p, q, F.where(upper, log_rest, log_x), F.where(upper, log_x, log_rest), by_q)
    return F.where(end, 0, F.where(upper, -slope, slope))
