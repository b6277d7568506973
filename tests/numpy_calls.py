"""Calls of NumPy's functions, from which tests of ``gradcore.numpy`` are made: a line for each function."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Name, and the arguments of each call. Letters are the arrays of `drawn`.
CALLS = """
absolute: A; C; I; A, where=M; A[:, ::2]
add: A, B; A, 2.5; I, 2.5; E, I; A, W; A, B, where=M; I, I, dtype=float; True, A; C, A; [[1.0]], A
append: A, B; A, B, axis=1
apply_along_axis: np.cumsum, 1, A; np.sum, 0, A
apply_over_axes: np.sum, D, [0, 2]
all: M; M, axis=0; A, axis=1, keepdims=True; M, where=M
allclose: A, A; A, B
amax: A; A, 0; A, (0, 1), keepdims=True; A, initial=A[0, 0]
amin: A; A, 1; A, initial=A[0, 0]
angle: C; A - 1; C, True
any: M; M, axis=1; M, keepdims=True
append: A, B; A, B, axis=0; V, [1.0, 2.0]
arange: 4; 1, 7, 2; 2.0; 0, 1, 0.25; 0.9, 6.1, 1.5, dtype=int
arccos: A / 3
arccosh: A + 1
arcsin: A / 3
arcsinh: A; C
arctan: A
arctan2: A, B; A, 1.5; I, I
arctanh: A / 3
argmax: A; A, 1; A, axis=0, keepdims=True; I, 0
argmin: A; A, axis=1
argpartition: N, 2
argsort: A; A, 0; A, None; I
argwhere: M; A > 1
around: A, 1; A; I
array: A; [1.0, 2]; A, ndmin=3; I, float
array_equal: A, A; A, B
array_equiv: A, A
array_split: V, 3; A, 2, axis=1; V, [1, 3]; V, 2.5
asanyarray: A
asarray: A; [1, 2]; I, dtype=float
asarray_chkfinite: A
ascontiguousarray: A.T; A[0, 0]
asfortranarray: A; D; A[0, 0]
astype: A, np.float32; I, np.float64
atleast_1d: 3.0; A, 1.0
atleast_2d: V
atleast_3d: V; A
average: A; A, axis=1, weights=W; A, weights=B, returned=True; A, 0; A, axis=0, weights=V[:3]
bartlett: 6
bincount: Z; Z, minlength=9; Z, V[:5]
bitwise_and: I, 3; M, M
bitwise_count: I
bitwise_or: I, I
bitwise_xor: I, 1
blackman: 6
block: [[A, A], [B, B]]; [V, V]
broadcast_arrays: A, W
broadcast_shapes: (2, 1), (3,)
broadcast_to: W, (3, 4)
cbrt: A; I
ceil: A
choose: Z % 2, [V[:5], V[1:6]]; M.astype(int), [-1.0, 1.0]; M.astype(int), [A, W]
clip: A, 0.5, 1.5; A, None, 1; A, B, 2.0; I, 1, 3; A, min=0.7; A, 0.3 * B, B
column_stack: (V, V); (V[:3], A)
compress: [True, False, True], A, axis=0; [True, False, True], A
concat: (A, B); (A, B), axis=1
concatenate: (A, B); (A, B), axis=1; (A, B), axis=None; (A, I); (E, I), axis=0
conjugate: C; A
convolve: V, W; V, W, "same"; V, W, "valid"; W, V; V[:4], W[:2], "same"
copy: A
copysign: A, -1.0; A, B - 1; A, B
corrcoef: A; A, B
correlate: V, W; V, W, "full"; V, W, "same"; C[0], C[1], "full"; W, V, "full"; W, V, "same"; W[:3], V, "same"
cos: A; C; I
cosh: A; C
count_nonzero: M; A, axis=0; M, 1, keepdims=True
cov: A; A, B; A, rowvar=False; A, bias=True; A, aweights=W; A, ddof=0, fweights=[1, 2, 1, 3]; C
cross: D[0, :, :3], D[1, :, :3]; A[:, :2], B[:, :2]
cumprod: A; A, 0; I, 1; A, dtype=np.float32
cumsum: A; A, 1; I; M, 0
cumulative_prod: A, axis=1; V, include_initial=True
cumulative_sum: A, axis=0; V; A, axis=1, include_initial=True; I, axis=0
deg2rad: A
degrees: A
delete: V, 2; A, [0, 2], axis=1; V, slice(1, 3)
diag: V; S; S, 1; V, -1
diag_indices: 3
diag_indices_from: S
diagflat: A
diagonal: S; D, 0, 1, 2; A, 1
diff: A; A, 2; A, axis=0; V, prepend=0.0; V, append=V; I; V, prepend=V[0]
digitize: A, np.array([0.5, 1.0, 1.5]); A, np.array([1.5, 1.0, 0.5]), right=True
divide: A, B; I, I; A, 2; 2, A; I, 2
divmod: A, 0.3; I, 2; A, B
dot: V, V; S, S; S, V[:3]; D, V[:4]; 2.0, A; I, I.T; V[:3], A
dsplit: D, 2
dstack: (A, B); (V, V)
ediff1d: A; V, to_begin=1.0, to_end=[2.0, 3.0]; V, to_begin=W, to_end=W
einsum: "ij,kj->ik", A, B; "ij->j", A; "ii", S; A, [0, 1], B, [2, 1], [0, 2]
einsum_path: "ij,kj->ik", A, B
empty_like: I
equal: A, A; A, 1.0; I, 2
exp: A; C; I; H; J
exp2: A
expand_dims: A, 0; A, (0, -1)
expm1: A
extract: M, A
eye: 3; 3, 4, 1; 2, dtype=np.float32
fabs: A - 1
fix: A
flatnonzero: M
flip: A; A, 0; A, (0, 1)
fliplr: A
flipud: A
float_power: A, 2; I, 2; A, B
floor: A; I
floor_divide: A, 0.3; I, 2
fmax: A, B
fmin: A, B
fmod: A, 0.3; I, 3; A, B
frexp: A
from_dlpack: np.arange(3.0)
frombuffer: b"12345678"
fromfunction: lambda i, j: i + j, (2, 3)
fromiter: [1.0, 2.0], float
fromstring: "1 2", sep=" "
full: (2, 3), 1.5; 2, 1; (2,), True; (3,), A[0, 0]
full_like: A, 2; I, 2.7; A, B[0]
gcd: I, 4
geomspace: 1.0, 8.0, 4; 1, 1000, num=4; V[0], V[1], 4
gradient: V; A; V, 0.5; A, axis=0; V, X; V, edge_order=2; V, X, edge_order=2; A, 2.0, 3.0
greater: A, B; I, 2
greater_equal: A, 1.0
hamming: 5
hanning: 5
heaviside: A - 1, 0.5; A - 1, B
histogram: A; A, 4, (0.0, 2.0); V, 3, weights=V; A, 5, density=True; A, np.array([0.0, 1.0, 3.0]); V, X
histogram2d: V, V, 3; V, V, 3, weights=V
histogram_bin_edges: A, 4; A, "auto"
histogramdd: A, 2
hsplit: A, 2
hstack: (A, B); (V, V)
hypot: F64, E; A, B; A, 1.0
i0: A
identity: 3
imag: C; A
indices: (2, 3)
inner: A, B; V, V
insert: V, 2, 1.5; V, [1, 3], [7.0, 8.0]; A, 1, W, axis=0; A, [0, 0], 5.0, axis=1; V, 2, V[1]
interp: A, X, V; [0.5, 1.5], X, V; A, X, V, 0.0, 1.0; A, X, V, period=2.0
intersect1d: Z, [1, 4, 9]; V, V[:2]; V, W
invert: I; M
isclose: A, A; A, 1.0
iscomplex: C
isfinite: A
isin: I, [1, 2]; I, [1], invert=True
isinf: A
isnan: N
isneginf: A
isposinf: A
isreal: C
ix_: [0, 2], [1, 3]
kaiser: 5, 2.0
kron: V[:2], A; S, S
lcm: I, 4
ldexp: A, 2; A, I
left_shift: I, 2
less: A, B
less_equal: I, 2
lexsort: (Z, V[:5])
linspace: 0, 1, 5; 0.0, 2.0, num=4, endpoint=False; 0, 1, 3, dtype=np.float32; V[0], V[1], 4; V, A[0, 0], 3, axis=-1
log: A; C; I
log10: A
log1p: A; C
log2: A
logaddexp: A, B; A, 0.0
logaddexp2: A, B
logical_and: M, A; A, B
logical_not: M; A
logical_or: M, M
logical_xor: M, True
logspace: 0, 2, 3; 0.0, 1.0, num=4, base=2.0; V[0], V[1], 4
mask_indices: 3, np.triu
matmul: A, B.T; S, V[:3]; D, D.mT; I, I.T
matrix_transpose: D
matvec: S, V[:3]
max: A; A, 0; A, axis=1, keepdims=True; A, initial=1.0; A, where=M, initial=0.0; I; A, axis=(0, 1); A, initial=A[0, 0]
maximum: A, B; A, 1.0; I, 2.5
mean: A; A, 0; A, axis=1, keepdims=True; I; A, where=M; E; A, dtype=np.float32; C; H; A, axis=()
median: A; A, 0; A, axis=1, keepdims=True; I; V[:3]
meshgrid: V, W; V, W, indexing="ij"; V, W, sparse=True
min: A; A, 1; A, axis=0, initial=0.5; A, initial=A[0, 0]
minimum: A, B; 1.0, A
modf: A
moveaxis: D, 0, -1; D, [0, 1], [1, 2]
multiply: A, B; A, 2; C, A; E, 2.0; I, True
nan_to_num: N; N, nan=1.0; C; I; A, nan=1.0; N, nan=W[0], posinf=W[1], neginf=W[2]
nanargmax: N; N, axis=1
nanargmin: N
nancumprod: N; N, 0
nancumsum: N, 1; N
nanmax: N; N, 0
nanmean: N; N, axis=1, keepdims=True
nanmedian: N; N, axis=0
nanmin: N; N, 1
nanpercentile: N, 30; N, [25.0, 50.0], axis=0
nanprod: N; N, 0
nanquantile: N, 0.3; N, 0.5, 1
nanstd: N; N, 1, ddof=1
nansum: N; N, 0, keepdims=True
nanvar: N; N, 1
negative: A; C
nextafter: A, 2.0
nonzero: M; A > 1
not_equal: A, B
ones: 3; (2, 2), np.float32
ones_like: I; A, dtype=np.float32; A, shape=(2,)
outer: V, W; A, W
packbits: M
pad: V, 2, "linear_ramp", end_values=V[0]; A, 1, constant_values=[A[0, :2]]
pad: A, 1; A, ((1, 0), (0, 2)), constant_values=2.0; A, 1, "edge"; A, 2, "reflect"; V, 3, "wrap"; A, 1, "mean"
pad: V, 1, constant_values=V[0]
pad: V, (1, 2), "linear_ramp", end_values=3.0; A, 1, "symmetric"; I, 1, "maximum"
partition: V, 2
percentile: A, 30; A, [20.0, 70.0], axis=1; A, 50, method="hazen"
permute_dims: D, (2, 0, 1); A
piecewise: A, [A < 1, A >= 1], [lambda x: x * x, 3.0]; V, [V < 1], [lambda x: -x, lambda x: 2 * x]
poly: V[:3]
polyadd: V, W; W, V
polyder: V; V, 2
polydiv: V, W[:2]
polyfit: X, V, 2; X, V, 1, w=V
polyint: V; V, k=1.0; V, 2; V, k=V[0]
polymul: V, W
polysub: V, W
polyval: W, A; W, 2.0
positive: A
power: A, 2; A, B; 2.0, A; I, 2; A, -1; A, 0.5
prod: A; A, 0; I; A, (0, 1); A, axis=1, keepdims=True, initial=2.0; A, where=M; D, axis=(0, 2); A, initial=A[0, 0]
ptp: A; A, 1; A, 0, keepdims=True
quantile: A, 0.3; A, [0.1, 0.9], axis=0; E, 0.5; A, 0.4, method="lower"; A, 0.4, method="higher"
quantile: A, 0.4, method="nearest"; A, 0.4, method="midpoint"; A, 0.4, method="weibull"
quantile: V, 0.35, method="inverted_cdf"; V, 0.5, method="averaged_inverted_cdf"
quantile: V, 0.4, method="closest_observation"; A, 0.5, axis=(0, 1), keepdims=True; I, 0.25
rad2deg: A
radians: A
ravel: A; A, "F"
ravel_multi_index: (np.array([0, 1]), np.array([1, 2])), (2, 3)
real: C; A
real_if_close: C; C * 0
reciprocal: A; I + 1; C
remainder: A, 0.3; I, 2; -1 * A, 0.7; A, B
repeat: A, 2; V, 3, axis=0; A, [1, 0, 2], axis=0
require: A
reshape: A, (4, 3); A, -1; A, (2, 6), order="F"; A, (-1, 2); A, -1, "f"
resize: A, (2, 3); V, 10
right_shift: I, 1
rint: A
roll: V, 2; A, 1; A, 1, axis=0; A, (1, 2), axis=(0, 1)
rollaxis: D, 2; D, 0, 2
roots: np.array([1.0, -6.0, 11.0, -6.0]); V[:4]
rot90: S; A, 2
round: A; A, 1; I, 1
searchsorted: X, A; X, 0.7, "right"
select: [A < 0.8, A < 1.4], [A, 2 * A], 0.5; [A < 0.8], [A], B
setdiff1d: Z, [1, 2]; V, W
setxor1d: Z, [1, 2]; V, W
sign: A - 1; C; I - 2
signbit: A - 1
sin: A; C; I; E; A[::2]; A.T; H
sinc: A
sinh: A; C
sort: A; A, 0; A, None; C; I
sort_complex: V
spacing: A; E
split: V, 3; V, 3.0; A, [1, 2], axis=1
sqrt: A; C; I; M
square: A; C; I
squeeze: A[None]; A[None], 0
stack: (A, B); (A, B), axis=-1; [V, W[:1] * V]; (A, I)
std: A; A, 0; A, ddof=1; A, axis=1, keepdims=True; I; A, where=M; C; E; A, mean=np.mean(A)
subtract: A, B; 1, A; I, I
sum: A; A, 0; A, axis=(0, 1); A, axis=1, keepdims=True; I; M; J; A, dtype=np.float32; A, where=M; A, initial=3.0; C
sum: A, initial=A[0, 0]
sum: A, axis=(); E, 0; np.array([[1, 2]], np.uint8)
swapaxes: D, 0, 2
take: A, [0, 5]; A, [0, 2], axis=1; A, 1, axis=0; A, [7, -1], mode="wrap"
take_along_axis: A, np.argsort(np.asarray(A0), 1), 1
tan: A; C
tanh: A; C
tensordot: A, B, ([1], [1]); D, D, 3; S, S, 1; A, B.T, axes=1
tile: V, 2; A, (2, 1); A, (2, 1, 1)
trace: S; S, 1; D
transpose: A; D, (1, 0, 2)
trapezoid: V; V, X; A, dx=0.5, axis=0; I; V, dx=V[0]
tri: 3; 3, 4, 1
tril: S; S, -1; V
tril_indices: 3
tril_indices_from: S
trim_zeros: np.array([0.0, 1.0, 2.0, 0.0]); V
triu: S; S, 1; D
triu_indices: 3, 1
triu_indices_from: S
trunc: A
union1d: Z, [1, 9]; V, W
unique: Z; V; A; Z, return_index=True, return_inverse=True, return_counts=True; I, axis=0; N
unique_all: Z; V
unique_counts: Z; V
unique_inverse: Z; V
unique_values: Z; V
unpackbits: np.array([[2], [7]], np.uint8)
unravel_index: np.array([1, 5]), (2, 3)
unstack: A; A, axis=1
unwrap: 4 * V; A, axis=0; 4 * V, period=3.0
vander: V; V, 3; V, increasing=True; Z
var: A; A, 0; A, ddof=1; A, axis=1, keepdims=True; I; A, where=M; C; E; A, correction=1; A, mean=np.mean(A)
vdot: V, V; C, C
vecdot: A, B; C, C; A, B, axis=0
vecmat: V[:3], S
vsplit: D, 2
vstack: (A, B); (V, V)
where: M, A, B; M, A, 0.0; M; A > 1, I, A; M, 1, 2; M, V[0], A
zeros: 3; (2, 2), int
zeros_like: I; C
fft.fft: V; A, axis=0; C, n=6; V, norm="ortho"
fft.fft2: A; D, (3, 3)
fft.fftfreq: 5; 6, 0.5
fft.fftn: D; D, axes=(0, 1)
fft.fftshift: V; A, 0
fft.hfft: C[0]
fft.ifft: C; V
fft.ifft2: A
fft.ifftn: A
fft.ifftshift: V
fft.ihfft: V
fft.irfft: C; C, n=5
fft.irfft2: C
fft.irfftn: C
fft.rfft: V; A, n=3; I
fft.rfft2: A
fft.rfftfreq: 5
fft.rfftn: D
linalg.cholesky: S @ S.mT + np.eye(3); P + P.mT, upper=True
linalg.cond: S; S, 1
linalg.cross: D[0, :, :3], D[1, :, :3]
linalg.det: S; I[:3, :3]
linalg.diagonal: D
linalg.eig: S
linalg.eigh: P + P.mT; P + P.mT, "U"
linalg.eigvals: S
linalg.eigvalsh: P + P.mT
linalg.inv: S
linalg.lstsq: A.T, W; A.T, A.T
linalg.matmul: S, S
linalg.matrix_norm: D; D, ord=1; A, keepdims=True
linalg.matrix_power: S, 3; S, -1; S, 0
linalg.matrix_rank: S; D
linalg.matrix_transpose: D
linalg.multi_dot: [A, B.T, S]
linalg.norm: A; A, axis=1; A, "fro"; A, 1; V, np.inf; A, 2; A, axis=0, keepdims=True; V, 3; I
linalg.outer: V, W
linalg.pinv: A
linalg.qr: A.T; A, "complete"; A.T, "r"
linalg.slogdet: S
linalg.solve: S, S; S, V[:3]; D[:, :3, :3] + P, D[:, :3]
linalg.svd: A, full_matrices=False; A, compute_uv=False
linalg.svdvals: A
linalg.tensordot: A, B.T, axes=1
linalg.tensorinv: np.eye(6).reshape(2, 3, 6) + 0.1; P.reshape(3, 3, 1), ind=1
linalg.tensorsolve: S, V[:3]
linalg.trace: D
linalg.vecdot: A, B
linalg.vector_norm: A; A, axis=1; A, ord=1; C
"""

#: Calls with empty arrays, small dtypes and unusual settings, of which only results are tested.
EDGE_CALLS = """
amin: A[:, :0], axis=0, initial=0.5; A[:0], axis=(0,), initial=0.5
bincount: np.array([True, False, True])
clip: A, 0.5, 1.5, dtype=np.float32; U, -1, 3; U, 2, 300; U, min=-5
cov: E; A[0, 0]; A, ddof=7; A[:, :1]
cumsum: A[0, 0], 0
digitize: Z, np.array([4, 3, 1]); Z, np.array([4, 3, 1]), True; Z, np.array([1, 3, 3]); Z, np.array([3, 3]), True
einsum: "ij->j", J
equal: U, -1; 300, U; U, 2**70
gradient: V, 0.0; H[0], 0.5; E[0], W
full: (2,), [1, 1000], dtype=np.int8; (2,), 1.5, dtype=np.int8
greater: U, -1; -1, U; I, 2**70; U, 300
histogram: A, weights=I; A, weights=J; A, weights=M
histogramdd: [[1, 2, 3], [4, 5, 6]], 2; [V, V[::-1]], (4, 3), [[0, 2], [0, 3]]; V, 3; [1.0, 2.0], 2
insert: A, [1], [1.0, 2.0, 3.0], 1; V, [1], [1.0, 2.0]
interp: [0.0, 0.5, 1.0, 3.0, np.nan], [-np.inf, 0.0, 1.0, np.inf], [1.0, 1.0, np.inf, np.inf]; X, [0, 1], [1, np.inf]
ldexp: F64, I
less_equal: U, -1; 300, U; I, -(2**70)
median: A[:, :0], 0; A[:0].ravel(); [[np.inf, np.inf], [-np.inf, np.inf], [1.0, np.inf]], 1
nanmedian: [[np.nan, np.inf, np.inf], [-np.inf, -np.inf, np.nan]], 1
nanpercentile: A[:, :0], 30
nanstd: M; C
pad: A[:, :0], 1
piecewise: V, [[1, 0, 1, 0, 1, 0]], [1.0, 2.0]
power: I, I
quantile: I, 0.4, method="lower"; J, [0.4, 0.5], method="inverted_cdf"; H, [0.4, 0.5]; J, np.array([0.4], np.float32)
repeat: A, True
roll: V, (0, 1); V, np.array([0, 1])
setdiff1d: np.array([1, 2], np.uint8), V
sort: np.array([np.nan + 1j, 1 + 1j * np.nan, 2 + 1j, 1j * np.nan, 1j])
sort_complex: J; U; E
trim_zeros: 0 * V, "B"; 0 * I[0], "F"; Z * (Z == 1), "B"
vander: E[0]
var: C, where=M; A[:, :0], ddof=1; A, where=M, ddof=14; A, dtype=np.complex64; A, 1, dtype=np.complex128, where=M
vdot: J, J; U, U; M, M
"""

#: Calls that NumPy refuses, and that functions of tensors must not answer either.
REFUSED_CALLS = """
add: A, B, axis=0; A, B, keepdims=True
argmax: A, 0, I[0, :3]; A, 0, I
array: [1, 1000], dtype=np.int8
asarray: 1000, dtype=np.int8; [1.5, 1e6], dtype=np.int8
argpartition: V, 1.5; V, 9
array_split: V, [1, 1.5]
bincount: X; X, X
broadcast_to: W, (3, -1)
choose: [0.5, 1.0, 0.0, 1.0], [W, W]
clip: A, 0.5, 1.5, mode="clip"; A, 2.0; A, a_max=2.0; A, 1.0, 2.0, max=2.0; U, 300, 400; U, -3, -1
convolve: A, W
cov: D; A, aweights=W[:1]; A, fweights=D[:, :, 0]; A, fweights=W; A, fweights=[-1, 1, 1, 1]; A, aweights=-W
delete: V, True; V, np.array([True, False])
ediff1d: I, to_end=1.5; J, to_begin=np.array([1.0])
exp: A, axis=-1
full: (1.5, 3), 1.0; (2,), 1000, dtype=np.int8; (2,), -1, dtype=np.uint8
full_like: J, 1000; U, -1
gradient: V, W; A, X
histogram: A, weights=V
inner: A, B[:, :1]; V, W[:1]
insert: V, 1.5, 0.3; V, np.array([]), []
interp: A, X * 1j, V
isin: A, B, kind="quicksort"
lexsort: (V, W)
linspace: 0.0, 1.0, 2.5
matmul: A, B.T, axis=0; A, B.T, keepdims=True
matvec: A, W, axis=-1
max: A, where=M[None], initial=0.0; A, True
mean: A, True; A, where=M[None]
moveaxis: D, None, None
multiply: A, B, unknown=1
nanmean: A, dtype=np.int64
nanmin: A, where=M
nanvar: A, dtype=np.int64
ones: (2.5,)
pad: A, 1.5; A, (-1, 0), "mean"; A, 1, dtype="f2"; A, 1, "edge", constant_values=1.0
partition: V, None
place: V.copy(), [True], [5.0]
poly: np.zeros((0, 0)); A
power: I, -1
putmask: V.copy(), [True], 5.0
ravel: A, "X"
require: A, None, "Q"; A, None, ["C", "F"]
reshape: A, -1, "K"; A, -1, "rows"; D.T, (6, 4), copy=False
resize: V, (-1, 3)
rollaxis: D, 0, 4; D, 0, -4
searchsorted: V, 0.5, sorter=[-1, 0, 1, 2, 3, 4]
select: [I, M], [A, B]
split: V, 2.5
std: A, (0, True)
sum: A, where=M[None]; A, 0, out=A.copy(); A, 0, out=W[:3].copy()
take: V, X
take_along_axis: A, A[:, :1], 1
tensordot: A[:, :1], B.T, 1
tile: A, (2, 1.5)
trim_zeros: V, "front"; V, ""
vander: A
var: A, ddof=1, correction=1
vdot: V, W; V, W[:1]
vecdot: A, B[:, :1]; A, F64; A, B, where=False
vecmat: V[:3], S, where=False
"""

#: Functions that write to their first argument, and what follows.
IN_PLACE = """
copyto: A, B; A, 2.0; A, B, where=M
fill_diagonal: S, 5.0; S, [1.0, 2.0, 3.0]
place: A, M, [1.0, 2.0]
put: A, [0, 5], [1.0, 2.0]; A, [0, 1, 2], 7.0
put_along_axis: A, np.array([[0], [1], [2]]), 9.0, 1
putmask: A, M, [1.0, 2.0, 3.0]
add.at: V, [0, 0, 1], 2.0; A, (np.array([0, 1]), np.array([2, 2])), np.array([1.0, 2.0])
multiply.at: V, [0, 0, 1], 2.0
negative.at: V, [0, 1]
"""

#: Methods of universal functions.
METHODS = """
add.reduce: A; A, 1; A, None; I; A, 0, keepdims=True
add.accumulate: A; A, 1
add.outer: V, W
add.reduceat: V, [0, 2, 4]; A, [0, 2], 1
multiply.reduce: A; A, None
multiply.accumulate: A
multiply.outer: A, W
maximum.reduce: A; A, 1
maximum.accumulate: A; A, 1
minimum.reduce: A
minimum.accumulate: A
logaddexp.reduce: A; A, 1
logaddexp2.reduce: A
logaddexp.accumulate: A
logical_and.reduce: M
logical_or.reduce: M, 1
subtract.reduce: A; A, 1
subtract.outer: V, W
divide.reduce: A
hypot.reduce: A
bitwise_or.reduce: I
gcd.reduce: I
fmax.reduce: A
"""


def lines(text: str) -> dict[str, list[str]]:
    """Parse the calls of each name."""
    found: dict[str, list[str]] = {}
    for line in text.strip().splitlines():
        name, _, calls = line.partition(":")
        found.setdefault(name, []).extend(calls.strip().split("; "))
    return found


def drawn() -> dict[str, Any]:
    """Arrays by letter: A, B, N, M, I, E of one shape; V, W, X, Z vectors; S, P square; D of three dims; C complex."""
    rng = np.random.default_rng(3)
    A = rng.permutation(np.linspace(0.26, 1.97, 12)).reshape(3, 4)
    N = A.copy()
    N[0, 1] = N[2, 2] = np.nan
    S = rng.standard_normal((3, 3)) + 2 * np.eye(3)
    return {
        "A": A, "A0": A, "B": rng.permutation(np.linspace(0.31, 1.83, 12)).reshape(3, 4), "N": N, "M": A > 0.9,
        "I": rng.integers(0, 5, (3, 4)), "E": A.astype(np.float32), "H": A.astype(np.float16),
        "J": rng.integers(0, 5, (3, 4)).astype(np.int8), "U": np.array([0, 1, 2, 3, 255], np.uint8),
        "V": rng.permutation(np.linspace(0.3, 2.1, 6)), "W": rng.permutation(np.linspace(0.4, 1.7, 4)),
        "X": np.array([0.0, 0.4, 0.9, 1.3, 1.8, 2.3]), "Z": np.array([3, 1, 3, 4, 1]), "F64": np.float64(2),
        "S": S, "P": S @ S.T + np.eye(3), "D": rng.standard_normal((2, 3, 4)),
        "C": rng.standard_normal((3, 4)) + 1j * rng.standard_normal((3, 4)),
    }  # fmt: skip
