"""Fourier transforms and linear algebra."""

import numpy as np

from benchmarks.cases.base import Case, normal, positive


class Fft(Case):
    """The spectrum's energy in bands, of 64 signals of `size` samples."""

    group, sizes = "fourier", (1024,)

    def inputs(self, random):
        return (normal(random, 64, self.size),), (positive(random, self.size // 2 + 1),)

    def torch_style(self, T, x, w):
        spectrum = T.fft.rfft(x)
        return ((spectrum.real**2 + spectrum.imag**2) * w).sum()

    def jax_style(self, np, x, w):
        spectrum = np.fft.rfft(x)
        return ((spectrum.real**2 + spectrum.imag**2) * w).sum()


class FftFilter(Case):
    """Images filtered in the Fourier domain: there and back."""

    group, sizes, large_sizes = "fourier", (128,), (512,)

    def inputs(self, random):
        return (normal(random, 4, self.size, self.size),), (positive(random, self.size, self.size // 2 + 1),)

    def torch_style(self, T, x, w):
        y = T.fft.irfft2(T.fft.rfft2(x) * w)
        return (y * y).sum()

    def jax_style(self, np, x, w):
        y = np.fft.irfft2(np.fft.rfft2(x) * w)
        return (y * y).sum()


class LinearAlgebra(Case, abstract=True):
    """One symmetric positive definite matrix, or a batch of small ones."""

    group, sizes = "linear algebra", (128,)
    tolerance = 1e-3

    def inputs(self, random):
        a = normal(random, self.size, self.size) / np.float32(self.size**0.5)
        return (a @ a.T + 2 * np.eye(self.size, dtype=np.float32), normal(random, self.size, 8)), ()


class Solve(LinearAlgebra):
    """Eight solutions of a system of `size` equations."""

    def torch_style(self, T, a, b):
        x = T.linalg.solve(a, b)
        return (x * x).sum()

    numpy_style = torch_style

    def by_hand(self, xp, a, b):
        x = xp.linalg.solve(a, b)
        g = xp.linalg.solve(a.T, 2 * x)
        return (x * x).sum(), (-g @ x.T, g)


class CholeskyLogDet(LinearAlgebra):
    """The logarithm of a determinant through Cholesky's factor."""

    def torch_style(self, T, a, b):
        half = T.linalg.cholesky(a)
        return T.log(T.diagonal(half)).sum() + (b * b).sum()

    def jax_style(self, np, a, b):
        return np.log(np.diagonal(np.linalg.cholesky(a))).sum() + (b * b).sum()


class EigenSymmetric(LinearAlgebra):
    """Eigenvalues and eigenvectors of a symmetric matrix."""

    def torch_style(self, T, a, b):
        values, vectors = T.linalg.eigh(a)
        return values.log().sum() + ((vectors @ vectors.T) * a).sum() + (b * b).sum()

    def jax_style(self, np, a, b):
        values, vectors = np.linalg.eigh(a)
        return np.log(values).sum() + ((vectors @ vectors.T) * a).sum() + (b * b).sum()


class SingularValues(LinearAlgebra):
    """The nuclear norm."""

    def torch_style(self, T, a, b):
        return T.linalg.svdvals(a).sum() + (b * b).sum()

    def jax_style(self, np, a, b):
        return np.linalg.svd(a, compute_uv=False).sum() + (b * b).sum()


class BatchedInverse(Case):
    """Inverses of 256 matrices of `size` by `size`."""

    group, sizes = "linear algebra", (8,)
    tolerance = 1e-3

    def inputs(self, random):
        a = normal(random, 256, self.size, self.size)
        return (a @ a.swapaxes(-1, -2) + 2 * np.eye(self.size, dtype=np.float32),), ()

    def torch_style(self, T, a):
        x = T.linalg.inv(a)
        return (x * x).sum()

    numpy_style = torch_style

    def by_hand(self, xp, a):
        x = xp.linalg.inv(a)
        t = x.swapaxes(-1, -2)
        return (x * x).sum(), (-t @ (2 * x) @ t,)
