"""An example of each function of ``gradcore.numpy``, for its docstring (see `documentation`).

The first line of an entry names the function and its differentiable arguments. ``x`` is
``np.array([1.0, 2.0, 3.0])``, ``m`` is ``np.array([[1.0, 2.0], [3.0, 4.0]])``, and ``y`` is
``np.array([3.0, 2.0, 1.0])``.
"""

EXAMPLES = r"""
absolute | x
>>> np.absolute(np.array([-1.5, 2.0]))
tensor([1.5000, 2.0000], dtype=torch.float64)

add | x1, x2
>>> np.add(x, 1.0)
tensor([2., 3., 4.], dtype=torch.float64)

all | no derivative
>>> np.all(x > 0)
tensor(True)

allclose | no derivative
>>> np.allclose(x, x + 1e-9)
True

angle | z
>>> np.angle(np.array([1.0 + 1.0j]), deg=True)
tensor([45.], dtype=torch.float64)

any | no derivative
>>> np.any(x > 2)
tensor(True)

append | arr, values
>>> np.append(x, [4.0, 5.0])
tensor([1., 2., 3., 4., 5.], dtype=torch.float64)

apply_along_axis | arr
>>> np.apply_along_axis(np.cumsum, 1, m)
tensor([[1., 3.],
        [3., 7.]], dtype=torch.float64)

apply_over_axes | a
>>> np.apply_over_axes(np.sum, m, [0, 1])
tensor([[10.]], dtype=torch.float64)

arange | no derivative
>>> np.arange(1.0, 3.0, 0.5)
tensor([1.0000, 1.5000, 2.0000, 2.5000], dtype=torch.float64)

arccos | x
>>> np.arccos(np.array([0.0, 0.5]))
tensor([1.5708, 1.0472], dtype=torch.float64)

arccosh | x
>>> np.arccosh(x)
tensor([0.0000, 1.3170, 1.7627], dtype=torch.float64)

arcsin | x
>>> np.arcsin(np.array([0.0, 0.5]))
tensor([0.0000, 0.5236], dtype=torch.float64)

arcsinh | x
>>> np.arcsinh(x)
tensor([0.8814, 1.4436, 1.8184], dtype=torch.float64)

arctan | x
>>> np.arctan(x)
tensor([0.7854, 1.1071, 1.2490], dtype=torch.float64)

arctan2 | x1, x2
>>> np.arctan2(x, 1.0)
tensor([0.7854, 1.1071, 1.2490], dtype=torch.float64)

arctanh | x
>>> np.arctanh(np.array([0.25, 0.5]))
tensor([0.2554, 0.5493], dtype=torch.float64)

argmax | no derivative
>>> np.argmax(m, axis=1)
tensor([1, 1])

argmin | no derivative
>>> np.argmin(m, axis=1)
tensor([0, 0])

argpartition | no derivative
>>> np.argpartition(x, 1)[1]
tensor(1)

argsort | no derivative
>>> np.argsort(np.array([3.0, 1.0, 2.0]))
tensor([1, 2, 0])

argwhere | no derivative
>>> np.argwhere(x > 1)
tensor([[1],
        [2]])

array | object
>>> np.array([[1, 2], [3, 4]], dtype=float)
tensor([[1., 2.],
        [3., 4.]], dtype=torch.float64)

array_equal | no derivative
>>> np.array_equal(x, x)
True

array_equiv | no derivative
>>> np.array_equiv(x, [x, x])
True

array_split | ary
>>> np.array_split(x, 2)
[tensor([1., 2.], dtype=torch.float64), tensor([3.], dtype=torch.float64)]

asanyarray | a
>>> np.asanyarray([1.0, 2.0])
tensor([1., 2.], dtype=torch.float64)

asarray | a
>>> np.asarray([1.0, 2.0])
tensor([1., 2.], dtype=torch.float64)

asarray_chkfinite | a
>>> np.asarray_chkfinite([1.0, 2.0])
tensor([1., 2.], dtype=torch.float64)

ascontiguousarray | a
>>> np.ascontiguousarray(m.T).is_contiguous()
True

asfortranarray | a
>>> np.asfortranarray(m).stride()
(1, 2)

astype | x
>>> np.astype(x, np.float32)
tensor([1., 2., 3.])

atleast_1d | arys
>>> np.atleast_1d(2.0)
tensor([2.], dtype=torch.float64)

atleast_2d | arys
>>> np.atleast_2d(x)
tensor([[1., 2., 3.]], dtype=torch.float64)

atleast_3d | arys
>>> np.atleast_3d(x).shape
torch.Size([1, 3, 1])

average | a, weights
>>> np.average(x, weights=[3.0, 2.0, 1.0])
tensor(1.6667, dtype=torch.float64)

bartlett | no derivative
>>> np.bartlett(5)
tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000], dtype=torch.float64)

bincount | weights
>>> np.bincount(np.array([0, 1, 1]), weights=x)
tensor([1., 5.], dtype=torch.float64)

bitwise_and | no derivative
>>> np.bitwise_and(np.array([5, 6]), 3)
tensor([1, 2])

bitwise_count | no derivative
>>> np.bitwise_count(np.array([5, 8]))
tensor([2, 1], dtype=torch.uint8)

bitwise_or | no derivative
>>> np.bitwise_or(np.array([5, 6]), 3)
tensor([7, 7])

bitwise_xor | no derivative
>>> np.bitwise_xor(np.array([5, 6]), 3)
tensor([6, 5])

blackman | no derivative
>>> np.blackman(5)[1:4]
tensor([0.3400, 1.0000, 0.3400], dtype=torch.float64)

block | arrays
>>> np.block([[m, m]])
tensor([[1., 2., 1., 2.],
        [3., 4., 3., 4.]], dtype=torch.float64)

broadcast_arrays | args
>>> np.broadcast_arrays(x, [[1.0], [2.0]])[1]
tensor([[1., 1., 1.],
        [2., 2., 2.]], dtype=torch.float64)

broadcast_shapes | no derivative
>>> np.broadcast_shapes((2, 1), (3,))
(2, 3)

broadcast_to | array
>>> np.broadcast_to(x, (2, 3))
tensor([[1., 2., 3.],
        [1., 2., 3.]], dtype=torch.float64)

cbrt | x
>>> np.cbrt(np.array([2.0, 8.0]))
tensor([1.2599, 2.0000], dtype=torch.float64)

ceil | a step function
>>> np.ceil(np.array([1.2, -1.2]))
tensor([ 2., -1.], dtype=torch.float64)

choose | choices
>>> np.choose([1, 0, 1], [x, 10 * x])
tensor([10.,  2., 30.], dtype=torch.float64)

clip | a, a_min, a_max
>>> np.clip(x, 1.5, 2.5)
tensor([1.5000, 2.0000, 2.5000], dtype=torch.float64)

column_stack | tup
>>> np.column_stack((x, x))
tensor([[1., 1.],
        [2., 2.],
        [3., 3.]], dtype=torch.float64)

compress | a
>>> np.compress([True, False, True], x)
tensor([1., 3.], dtype=torch.float64)

concatenate | arrays
>>> np.concatenate((m, m), axis=1)
tensor([[1., 2., 1., 2.],
        [3., 4., 3., 4.]], dtype=torch.float64)

conjugate | x
>>> np.conjugate(np.array([1.0 + 2.0j]))
tensor([1.-2.j], dtype=torch.complex128)

convolve | a, v
>>> np.convolve(x, [1.0, 0.5])
tensor([1.0000, 2.5000, 4.0000, 1.5000], dtype=torch.float64)

copy | a
>>> np.copy(x)
tensor([1., 2., 3.], dtype=torch.float64)

copysign | x1, x2
>>> np.copysign(x, -1.0)
tensor([-1., -2., -3.], dtype=torch.float64)

corrcoef | x, y
>>> np.corrcoef([1.0, 2.0, 3.0], [1.0, 3.0, 2.0])
tensor([[1.0000, 0.5000],
        [0.5000, 1.0000]], dtype=torch.float64)

correlate | a, v
>>> np.correlate(x, [1.0, 0.5], "full")
tensor([0.5000, 2.0000, 3.5000, 3.0000], dtype=torch.float64)

cos | x
>>> np.cos(x)
tensor([ 0.5403, -0.4161, -0.9900], dtype=torch.float64)

cosh | x
>>> np.cosh(x)
tensor([ 1.5431,  3.7622, 10.0677], dtype=torch.float64)

count_nonzero | no derivative
>>> np.count_nonzero(m > 1, axis=1)
tensor([1, 2])

cov | m, y, aweights
>>> np.cov(m)
tensor([[0.5000, 0.5000],
        [0.5000, 0.5000]], dtype=torch.float64)

cross | a, b
>>> np.cross(x, [1.0, 0.0, 0.0])
tensor([ 0.,  3., -2.], dtype=torch.float64)

cumprod | a
>>> np.cumprod(x)
tensor([1., 2., 6.], dtype=torch.float64)

cumsum | a
>>> np.cumsum(x)
tensor([1., 3., 6.], dtype=torch.float64)

cumulative_prod | x
>>> np.cumulative_prod(x)
tensor([1., 2., 6.], dtype=torch.float64)

cumulative_sum | x
>>> np.cumulative_sum(x, include_initial=True)
tensor([0., 1., 3., 6.], dtype=torch.float64)

deg2rad | x
>>> np.deg2rad(np.array([180.0, 90.0]))
tensor([3.1416, 1.5708], dtype=torch.float64)

degrees | x
>>> np.degrees(x)
tensor([ 57.2958, 114.5916, 171.8873], dtype=torch.float64)

delete | arr
>>> np.delete(x, 1)
tensor([1., 3.], dtype=torch.float64)

diag | v
>>> np.diag(m)
tensor([1., 4.], dtype=torch.float64)

diag_indices | no derivative
>>> np.diag_indices(2)
(tensor([0, 1]), tensor([0, 1]))

diag_indices_from | no derivative
>>> np.diag_indices_from(m)
(tensor([0, 1]), tensor([0, 1]))

diagflat | v
>>> np.diagflat(np.array([1.0, 2.0]))
tensor([[1., 0.],
        [0., 2.]], dtype=torch.float64)

diagonal | a
>>> np.diagonal(m)
tensor([1., 4.], dtype=torch.float64)

diff | a, prepend, append
>>> np.diff(x**2)
tensor([3., 5.], dtype=torch.float64)

digitize | no derivative
>>> np.digitize(x, np.array([1.5, 2.5]))
tensor([0, 1, 2])

divide | x1, x2
>>> np.divide(x, 2.0)
tensor([0.5000, 1.0000, 1.5000], dtype=torch.float64)

divmod | x1, x2
>>> np.divmod(x, 2.0)
(tensor([0., 1., 1.], dtype=torch.float64), tensor([1., 0., 1.], dtype=torch.float64))

dot | a, b
>>> np.dot(m, m)
tensor([[ 7., 10.],
        [15., 22.]], dtype=torch.float64)

dsplit | ary
>>> len(np.dsplit(m[None], 2))
2

dstack | tup
>>> np.dstack((x, x)).shape
torch.Size([1, 3, 2])

ediff1d | ary, to_end, to_begin
>>> np.ediff1d(x, to_begin=0.0)
tensor([0., 1., 1.], dtype=torch.float64)

einsum | operands
>>> np.einsum("ij,kj->ik", m, m)
tensor([[ 5., 11.],
        [11., 25.]], dtype=torch.float64)

einsum_path | no derivative
>>> np.einsum_path("ij,jk->ik", m, m)[0]
['einsum_path', (0, 1)]

empty_like | no derivative
>>> np.empty_like(m).shape
torch.Size([2, 2])

equal | no derivative
>>> np.equal(x, 2.0)
tensor([False,  True, False])

exp | x
>>> np.exp(x)
tensor([ 2.7183,  7.3891, 20.0855], dtype=torch.float64)

exp2 | x
>>> np.exp2(np.array([0.5, 1.0]))
tensor([1.4142, 2.0000], dtype=torch.float64)

expand_dims | a
>>> np.expand_dims(x, 0)
tensor([[1., 2., 3.]], dtype=torch.float64)

expm1 | x
>>> np.expm1(x)
tensor([ 1.7183,  6.3891, 19.0855], dtype=torch.float64)

eye | no derivative
>>> np.eye(2)
tensor([[1., 0.],
        [0., 1.]], dtype=torch.float64)

extract | arr
>>> np.extract(x > 1, x)
tensor([2., 3.], dtype=torch.float64)

fabs | x
>>> np.fabs(np.array([-1.5, 2.0]))
tensor([1.5000, 2.0000], dtype=torch.float64)

fix | a step function
>>> np.fix(np.array([1.7, -1.7]))
tensor([ 1., -1.], dtype=torch.float64)

flatnonzero | no derivative
>>> np.flatnonzero(m > 1)
tensor([1, 2, 3])

flip | m
>>> np.flip(x)
tensor([3., 2., 1.], dtype=torch.float64)

fliplr | m
>>> np.fliplr(m)
tensor([[2., 1.],
        [4., 3.]], dtype=torch.float64)

flipud | m
>>> np.flipud(m)
tensor([[3., 4.],
        [1., 2.]], dtype=torch.float64)

float_power | x1, x2
>>> np.float_power(x, 0.5)
tensor([1.0000, 1.4142, 1.7321], dtype=torch.float64)

floor | a step function
>>> np.floor(np.array([1.2, -1.2]))
tensor([ 1., -2.], dtype=torch.float64)

floor_divide | a step function
>>> np.floor_divide(x, 2.0)
tensor([0., 1., 1.], dtype=torch.float64)

fmax | x1, x2
>>> np.fmax(x, 2.0)
tensor([2., 2., 3.], dtype=torch.float64)

fmin | x1, x2
>>> np.fmin(x, 2.0)
tensor([1., 2., 2.], dtype=torch.float64)

fmod | x1, x2
>>> np.fmod(np.array([-3.0, 3.0]), 2.0)
tensor([-1.,  1.], dtype=torch.float64)

frexp | x
>>> np.frexp(np.array([1.0, 10.0]))
(tensor([0.5000, 0.6250], dtype=torch.float64), tensor([1, 4], dtype=torch.int32))

from_dlpack | no derivative
>>> np.from_dlpack(x)
tensor([1., 2., 3.], dtype=torch.float64)

frombuffer | no derivative
>>> np.frombuffer(b"\x01\x02", dtype=np.uint8)
tensor([1, 2], dtype=torch.uint8)

fromfunction | no derivative
>>> np.fromfunction(lambda i, j: i + j, (2, 2))
tensor([[0., 1.],
        [1., 2.]], dtype=torch.float64)

fromiter | no derivative
>>> np.fromiter((k * k for k in range(3)), float)
tensor([0., 1., 4.], dtype=torch.float64)

fromstring | no derivative
>>> np.fromstring("1 2", sep=" ")
tensor([1., 2.], dtype=torch.float64)

full | fill_value
>>> np.full((2, 2), 1.5)
tensor([[1.5000, 1.5000],
        [1.5000, 1.5000]], dtype=torch.float64)

full_like | fill_value
>>> np.full_like(x, 2.0)
tensor([2., 2., 2.], dtype=torch.float64)

gcd | no derivative
>>> np.gcd(np.array([12, 18]), 8)
tensor([4, 2])

geomspace | start, stop
>>> np.geomspace(1.0, 2.0, 3)
tensor([1.0000, 1.4142, 2.0000], dtype=torch.float64)

gradient | f, varargs
>>> np.gradient(x**2)
tensor([3., 4., 5.], dtype=torch.float64)

greater | no derivative
>>> np.greater(x, 1.5)
tensor([False,  True,  True])

greater_equal | no derivative
>>> np.greater_equal(x, 2.0)
tensor([False,  True,  True])

hamming | no derivative
>>> np.hamming(3)
tensor([0.0800, 1.0000, 0.0800], dtype=torch.float64)

hanning | no derivative
>>> np.hanning(5)
tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000], dtype=torch.float64)

heaviside | a step function
>>> np.heaviside(np.array([-1.0, 0.0, 1.0]), 0.5)
tensor([0.0000, 0.5000, 1.0000], dtype=torch.float64)

histogram | a, bins, weights
>>> np.histogram(x, 2)
(tensor([1, 2]), tensor([1., 2., 3.], dtype=torch.float64))

histogram2d | x, y, weights
>>> np.histogram2d(x, x, 2)[0]
tensor([[1., 0.],
        [0., 2.]], dtype=torch.float64)

histogram_bin_edges | a
>>> np.histogram_bin_edges(x, 2)
tensor([1., 2., 3.], dtype=torch.float64)

histogramdd | sample
>>> np.histogramdd(m, 2)[0]
tensor([[1., 0.],
        [0., 1.]], dtype=torch.float64)

hsplit | ary
>>> np.hsplit(m, 2)
[tensor([[1.],
        [3.]], dtype=torch.float64), tensor([[2.],
        [4.]], dtype=torch.float64)]

hstack | tup
>>> np.hstack((x, x))
tensor([1., 2., 3., 1., 2., 3.], dtype=torch.float64)

hypot | x1, x2
>>> np.hypot(x, 1.0)
tensor([1.4142, 2.2361, 3.1623], dtype=torch.float64)

i0 | x
>>> np.i0(x)
tensor([1.2661, 2.2796, 4.8808], dtype=torch.float64)

identity | no derivative
>>> np.identity(2)
tensor([[1., 0.],
        [0., 1.]], dtype=torch.float64)

imag | val
>>> np.imag(np.array([1.0 + 2.0j]))
tensor([2.], dtype=torch.float64)

indices | no derivative
>>> np.indices((2, 2))[0]
tensor([[0, 0],
        [1, 1]])

inner | a, b
>>> np.inner(x, x)
tensor(14., dtype=torch.float64)

insert | arr, values
>>> np.insert(x, 1, 1.5)
tensor([1.0000, 1.5000, 2.0000, 3.0000], dtype=torch.float64)

interp | x, xp, fp
>>> np.interp([1.5, 2.5], x, x**2)
tensor([2.5000, 6.5000], dtype=torch.float64)

intersect1d | ar1
>>> np.intersect1d(x, [2.0, 3.0, 4.0])
tensor([2., 3.], dtype=torch.float64)

invert | no derivative
>>> np.invert(np.array([0, 5]))
tensor([-1, -6])

isclose | no derivative
>>> np.isclose(x, 2.0)
tensor([False,  True, False])

iscomplex | no derivative
>>> np.iscomplex(np.array([1.0 + 0.0j, 1.0j]))
tensor([False,  True])

isfinite | no derivative
>>> np.isfinite(np.array([1.0, np.inf]))
tensor([ True, False])

isin | no derivative
>>> np.isin(x, [1.0, 3.0])
tensor([ True, False,  True])

isinf | no derivative
>>> np.isinf(np.array([1.0, np.inf]))
tensor([False,  True])

isnan | no derivative
>>> np.isnan(np.array([1.0, np.nan]))
tensor([False,  True])

isneginf | no derivative
>>> np.isneginf(np.array([-np.inf, np.inf]))
tensor([ True, False])

isposinf | no derivative
>>> np.isposinf(np.array([-np.inf, np.inf]))
tensor([False,  True])

isreal | no derivative
>>> np.isreal(np.array([1.0 + 0.0j, 1.0j]))
tensor([ True, False])

ix_ | no derivative
>>> m[np.ix_([0, 1], [1])]
tensor([[2.],
        [4.]], dtype=torch.float64)

kaiser | no derivative
>>> np.kaiser(3, 0.0)
tensor([1., 1., 1.], dtype=torch.float64)

kron | a, b
>>> np.kron([1.0, 10.0], x)
tensor([ 1.,  2.,  3., 10., 20., 30.], dtype=torch.float64)

lcm | no derivative
>>> np.lcm(np.array([4, 6]), 10)
tensor([20, 30])

ldexp | x1
>>> np.ldexp(x, 2)
tensor([ 4.,  8., 12.], dtype=torch.float64)

left_shift | no derivative
>>> np.left_shift(np.array([1, 2]), 3)
tensor([ 8, 16])

less | no derivative
>>> np.less(x, 2.0)
tensor([ True, False, False])

less_equal | no derivative
>>> np.less_equal(x, 2.0)
tensor([ True,  True, False])

lexsort | no derivative
>>> np.lexsort((np.array([1, 0, 1]), np.array([2, 2, 1])))
tensor([2, 1, 0])

linspace | start, stop
>>> np.linspace(0.0, 1.0, 3)
tensor([0.0000, 0.5000, 1.0000], dtype=torch.float64)

log | x
>>> np.log(x)
tensor([0.0000, 0.6931, 1.0986], dtype=torch.float64)

log10 | x
>>> np.log10(x)
tensor([0.0000, 0.3010, 0.4771], dtype=torch.float64)

log1p | x
>>> np.log1p(x)
tensor([0.6931, 1.0986, 1.3863], dtype=torch.float64)

log2 | x
>>> np.log2(x)
tensor([0.0000, 1.0000, 1.5850], dtype=torch.float64)

logaddexp | x1, x2
>>> np.logaddexp(x, 0.0)
tensor([1.3133, 2.1269, 3.0486], dtype=torch.float64)

logaddexp2 | x1, x2
>>> np.logaddexp2(x, 0.0)
tensor([1.5850, 2.3219, 3.1699], dtype=torch.float64)

logical_and | no derivative
>>> np.logical_and(x > 1, x < 3)
tensor([False,  True, False])

logical_not | no derivative
>>> np.logical_not(x > 1)
tensor([ True, False, False])

logical_or | no derivative
>>> np.logical_or(x < 2, x > 2)
tensor([ True, False,  True])

logical_xor | no derivative
>>> np.logical_xor(x > 1, x > 2)
tensor([False,  True, False])

logspace | start, stop
>>> np.logspace(0.0, 0.5, 3)
tensor([1.0000, 1.7783, 3.1623], dtype=torch.float64)

mask_indices | no derivative
>>> m[np.mask_indices(2, np.triu)]
tensor([1., 2., 4.], dtype=torch.float64)

matmul | x1, x2
>>> np.matmul(m, [1.0, 1.0])
tensor([3., 7.], dtype=torch.float64)

matrix_transpose | x
>>> np.matrix_transpose(m)
tensor([[1., 3.],
        [2., 4.]], dtype=torch.float64)

matvec | x1, x2
>>> np.matvec(m, [1.0, 1.0])
tensor([3., 7.], dtype=torch.float64)

max | a, initial
>>> np.max(m, axis=1)
tensor([2., 4.], dtype=torch.float64)

maximum | x1, x2
>>> np.maximum(x, 2.0)
tensor([2., 2., 3.], dtype=torch.float64)

mean | a
>>> np.mean(m, axis=0)
tensor([2., 3.], dtype=torch.float64)

median | a
>>> np.median(x)
tensor(2., dtype=torch.float64)

meshgrid | xi
>>> np.meshgrid([1.0, 2.0], [3.0, 4.0])[0]
tensor([[1., 2.],
        [1., 2.]], dtype=torch.float64)

min | a, initial
>>> np.min(m, axis=1)
tensor([1., 3.], dtype=torch.float64)

minimum | x1, x2
>>> np.minimum(x, 2.0)
tensor([1., 2., 2.], dtype=torch.float64)

modf | x
>>> np.modf(np.array([1.5, -2.25]))
(tensor([ 0.5000, -0.2500], dtype=torch.float64), tensor([ 1., -2.], dtype=torch.float64))

moveaxis | a
>>> np.moveaxis(m[None], 0, -1).shape
torch.Size([2, 2, 1])

multiply | x1, x2
>>> np.multiply(x, x)
tensor([1., 4., 9.], dtype=torch.float64)

nan_to_num | x, nan, posinf, neginf
>>> np.nan_to_num(np.array([1.0, np.nan]))
tensor([1., 0.], dtype=torch.float64)

nanargmax | no derivative
>>> np.nanargmax(np.array([1.0, np.nan, 3.0]))
tensor(2)

nanargmin | no derivative
>>> np.nanargmin(np.array([np.nan, 2.0, 1.0]))
tensor(2)

nancumprod | a
>>> np.nancumprod(np.array([2.0, np.nan, 3.0]))
tensor([2., 2., 6.], dtype=torch.float64)

nancumsum | a
>>> np.nancumsum(np.array([1.0, np.nan, 2.0]))
tensor([1., 1., 3.], dtype=torch.float64)

nanmax | a
>>> np.nanmax(np.array([1.0, np.nan]))
tensor(1., dtype=torch.float64)

nanmean | a
>>> np.nanmean(np.array([1.0, np.nan, 3.0]))
tensor(2., dtype=torch.float64)

nanmedian | a
>>> np.nanmedian(np.array([1.0, np.nan, 3.0]))
tensor(2., dtype=torch.float64)

nanmin | a
>>> np.nanmin(np.array([1.0, np.nan]))
tensor(1., dtype=torch.float64)

nanpercentile | a
>>> np.nanpercentile(np.array([1.0, np.nan, 3.0]), 50)
tensor(2., dtype=torch.float64)

nanprod | a
>>> np.nanprod(np.array([2.0, np.nan, 3.0]))
tensor(6., dtype=torch.float64)

nanquantile | a
>>> np.nanquantile(np.array([1.0, np.nan, 3.0]), 0.5)
tensor(2., dtype=torch.float64)

nanstd | a
>>> np.nanstd(np.array([1.0, np.nan, 2.0]))
tensor(0.5000, dtype=torch.float64)

nansum | a
>>> np.nansum(np.array([1.0, np.nan, 2.0]))
tensor(3., dtype=torch.float64)

nanvar | a
>>> np.nanvar(np.array([1.0, np.nan, 3.0]))
tensor(1., dtype=torch.float64)

negative | x
>>> np.negative(x)
tensor([-1., -2., -3.], dtype=torch.float64)

nextafter | x1
>>> np.nextafter(x, np.inf) > x
tensor([True, True, True])

nonzero | no derivative
>>> np.nonzero(x > 1)
(tensor([1, 2]),)

not_equal | no derivative
>>> np.not_equal(x, 2.0)
tensor([ True, False,  True])

ones | no derivative
>>> np.ones((2, 2))
tensor([[1., 1.],
        [1., 1.]], dtype=torch.float64)

ones_like | no derivative
>>> np.ones_like(x)
tensor([1., 1., 1.], dtype=torch.float64)

outer | a, b
>>> np.outer([1.0, 2.0], x)
tensor([[1., 2., 3.],
        [2., 4., 6.]], dtype=torch.float64)

packbits | no derivative
>>> np.packbits(np.array([1, 0, 1]))
tensor([160], dtype=torch.uint8)

pad | array, constant_values, end_values
>>> np.pad(x, 1)
tensor([0., 1., 2., 3., 0.], dtype=torch.float64)

partition | a
>>> np.partition(np.array([3.0, 1.0, 2.0]), 1)[1]
tensor(2., dtype=torch.float64)

percentile | a
>>> np.percentile(x, 50)
tensor(2., dtype=torch.float64)

permute_dims | a
>>> np.permute_dims(m[None], (1, 2, 0)).shape
torch.Size([2, 2, 1])

piecewise | x
>>> np.piecewise(x, [x < 2], [lambda v: -v, lambda v: v**2])
tensor([-1.,  4.,  9.], dtype=torch.float64)

poly | seq_of_zeros
>>> np.poly(np.array([1.0, 2.0]))
tensor([ 1., -3.,  2.], dtype=torch.float64)

polyadd | a1, a2
>>> np.polyadd(x, [1.0])
tensor([1., 2., 4.], dtype=torch.float64)

polyder | p
>>> np.polyder(x)
tensor([2., 2.], dtype=torch.float64)

polydiv | u, v
>>> np.polydiv(np.array([1.0, 0.0, -1.0]), [1.0, 1.0])
(tensor([ 1., -1.], dtype=torch.float64), tensor([0.], dtype=torch.float64))

polyfit | x, y, w
>>> np.polyfit(x, [1.0, 2.0, 2.0], 1)
tensor([0.5000, 0.6667], dtype=torch.float64)

polyint | p, k
>>> np.polyint(np.array([2.0, 1.0]))
tensor([1., 1., 0.], dtype=torch.float64)

polymul | a1, a2
>>> np.polymul(x, [1.0, 1.0])
tensor([1., 3., 5., 3.], dtype=torch.float64)

polysub | a1, a2
>>> np.polysub(x, [1.0])
tensor([1., 2., 2.], dtype=torch.float64)

polyval | p, x
>>> np.polyval(x, 2.0)
tensor(11., dtype=torch.float64)

positive | x
>>> np.positive(x)
tensor([1., 2., 3.], dtype=torch.float64)

power | x1, x2
>>> np.power(x, 0.5)
tensor([1.0000, 1.4142, 1.7321], dtype=torch.float64)

prod | a, initial
>>> np.prod(x)
tensor(6., dtype=torch.float64)

ptp | a
>>> np.ptp(m, axis=1)
tensor([1., 1.], dtype=torch.float64)

quantile | a
>>> np.quantile(x, 0.25)
tensor(1.5000, dtype=torch.float64)

rad2deg | x
>>> np.rad2deg(x)
tensor([ 57.2958, 114.5916, 171.8873], dtype=torch.float64)

radians | x
>>> np.radians(np.array([180.0, 90.0]))
tensor([3.1416, 1.5708], dtype=torch.float64)

ravel | a
>>> np.ravel(m)
tensor([1., 2., 3., 4.], dtype=torch.float64)

ravel_multi_index | no derivative
>>> np.ravel_multi_index((1, 2), (2, 3))
tensor(5)

real | val
>>> np.real(np.array([1.0 + 2.0j]))
tensor([1.], dtype=torch.float64)

real_if_close | a
>>> np.real_if_close(np.array([1.0 + 0.0j]))
tensor([1.], dtype=torch.float64)

reciprocal | x
>>> np.reciprocal(x)
tensor([1.0000, 0.5000, 0.3333], dtype=torch.float64)

remainder | x1, x2
>>> np.remainder(np.array([-3.0, 3.0]), 2.0)
tensor([1., 1.], dtype=torch.float64)

repeat | a
>>> np.repeat(x, 2)
tensor([1., 1., 2., 2., 3., 3.], dtype=torch.float64)

require | a
>>> np.require(x, dtype=np.float32)
tensor([1., 2., 3.])

reshape | a
>>> np.reshape(m, (4, 1))
tensor([[1.],
        [2.],
        [3.],
        [4.]], dtype=torch.float64)

resize | a
>>> np.resize(x, (2, 2))
tensor([[1., 2.],
        [3., 1.]], dtype=torch.float64)

right_shift | no derivative
>>> np.right_shift(np.array([8, 16]), 2)
tensor([2, 4])

rint | a step function
>>> np.rint(np.array([1.2, 1.8]))
tensor([1., 2.], dtype=torch.float64)

roll | a
>>> np.roll(x, 1)
tensor([3., 1., 2.], dtype=torch.float64)

rollaxis | a
>>> np.rollaxis(m[None], 2).shape
torch.Size([2, 1, 2])

roots | p
>>> np.sort(np.roots(np.array([1.0, -1.0, -1.0])).real)
tensor([-0.6180,  1.6180], dtype=torch.float64)

rot90 | m
>>> np.rot90(m)
tensor([[2., 4.],
        [1., 3.]], dtype=torch.float64)

round | a step function
>>> np.round(np.array([1.26, 2.74]), 1)
tensor([1.3000, 2.7000], dtype=torch.float64)

searchsorted | no derivative
>>> np.searchsorted(x, 2.5)
tensor(2)

select | choicelist, default
>>> np.select([x < 2, x > 2], [x, 10 * x], 0.0)
tensor([ 1.,  0., 30.], dtype=torch.float64)

setdiff1d | ar1
>>> np.setdiff1d(x, [2.0])
tensor([1., 3.], dtype=torch.float64)

setxor1d | ar1, ar2
>>> np.setxor1d(x, [3.0, 4.0])
tensor([1., 2., 4.], dtype=torch.float64)

sign | a step function
>>> np.sign(np.array([-2.0, 0.0, 3.0]))
tensor([-1.,  0.,  1.], dtype=torch.float64)

signbit | no derivative
>>> np.signbit(np.array([-2.0, 3.0]))
tensor([ True, False])

sin | x
>>> np.sin(x)
tensor([0.8415, 0.9093, 0.1411], dtype=torch.float64)

sinc | x
>>> np.sinc(np.array([0.25, 0.5]))
tensor([0.9003, 0.6366], dtype=torch.float64)

sinh | x
>>> np.sinh(x)
tensor([ 1.1752,  3.6269, 10.0179], dtype=torch.float64)

sort | a
>>> np.sort(np.array([3.0, 1.0, 2.0]))
tensor([1., 2., 3.], dtype=torch.float64)

sort_complex | a
>>> np.sort_complex(np.array([2.0, 1.0]))
tensor([1.+0.j, 2.+0.j], dtype=torch.complex128)

spacing | a step function
>>> np.spacing(np.array([1.0])) == np.finfo(float).eps
tensor([True])

split | ary
>>> np.split(x, 3)
[tensor([1.], dtype=torch.float64), tensor([2.], dtype=torch.float64), tensor([3.], dtype=torch.float64)]

sqrt | x
>>> np.sqrt(x)
tensor([1.0000, 1.4142, 1.7321], dtype=torch.float64)

square | x
>>> np.square(x)
tensor([1., 4., 9.], dtype=torch.float64)

squeeze | a
>>> np.squeeze(x[None])
tensor([1., 2., 3.], dtype=torch.float64)

stack | arrays
>>> np.stack((x, x))
tensor([[1., 2., 3.],
        [1., 2., 3.]], dtype=torch.float64)

std | a, mean
>>> np.std(x)
tensor(0.8165, dtype=torch.float64)

subtract | x1, x2
>>> np.subtract(x, 1.0)
tensor([0., 1., 2.], dtype=torch.float64)

sum | a, initial
>>> np.sum(m, axis=0)
tensor([4., 6.], dtype=torch.float64)

swapaxes | a
>>> np.swapaxes(m, 0, 1)
tensor([[1., 3.],
        [2., 4.]], dtype=torch.float64)

take | a
>>> np.take(x, [2, 0])
tensor([3., 1.], dtype=torch.float64)

take_along_axis | arr
>>> np.take_along_axis(m, np.array([[1], [0]]), 1)
tensor([[2.],
        [3.]], dtype=torch.float64)

tan | x
>>> np.tan(x)
tensor([ 1.5574, -2.1850, -0.1425], dtype=torch.float64)

tanh | x
>>> np.tanh(x)
tensor([0.7616, 0.9640, 0.9951], dtype=torch.float64)

tensordot | a, b
>>> np.tensordot(m, m, 2)
tensor(30., dtype=torch.float64)

tile | A
>>> np.tile(x, 2)
tensor([1., 2., 3., 1., 2., 3.], dtype=torch.float64)

trace | a
>>> np.trace(m)
tensor(5., dtype=torch.float64)

transpose | a
>>> np.transpose(m)
tensor([[1., 3.],
        [2., 4.]], dtype=torch.float64)

trapezoid | y, x, dx
>>> np.trapezoid(x)
tensor(4., dtype=torch.float64)

tri | no derivative
>>> np.tri(2)
tensor([[1., 0.],
        [1., 1.]], dtype=torch.float64)

tril | m
>>> np.tril(m)
tensor([[1., 0.],
        [3., 4.]], dtype=torch.float64)

tril_indices | no derivative
>>> np.tril_indices(2)
(tensor([0, 1, 1]), tensor([0, 0, 1]))

tril_indices_from | no derivative
>>> np.tril_indices_from(m)
(tensor([0, 1, 1]), tensor([0, 0, 1]))

trim_zeros | filt
>>> np.trim_zeros(np.array([0.0, 1.0, 2.0, 0.0]))
tensor([1., 2.], dtype=torch.float64)

triu | m
>>> np.triu(m)
tensor([[1., 2.],
        [0., 4.]], dtype=torch.float64)

triu_indices | no derivative
>>> np.triu_indices(2)
(tensor([0, 0, 1]), tensor([0, 1, 1]))

triu_indices_from | no derivative
>>> np.triu_indices_from(m)
(tensor([0, 0, 1]), tensor([0, 1, 1]))

trunc | a step function
>>> np.trunc(np.array([1.7, -1.7]))
tensor([ 1., -1.], dtype=torch.float64)

union1d | ar1, ar2
>>> np.union1d(x, [3.0, 4.0])
tensor([1., 2., 3., 4.], dtype=torch.float64)

unique | ar
>>> np.unique(np.array([3.0, 1.0, 3.0]))
tensor([1., 3.], dtype=torch.float64)

unique_all | x
>>> np.unique_all(np.array([3.0, 1.0, 3.0])).counts
tensor([1, 2])

unique_counts | x
>>> np.unique_counts(np.array([3.0, 1.0, 3.0])).counts
tensor([1, 2])

unique_inverse | x
>>> np.unique_inverse(np.array([3.0, 1.0, 3.0])).inverse_indices
tensor([1, 0, 1])

unique_values | x
>>> np.unique_values(np.array([3.0, 1.0, 3.0]))
tensor([1., 3.], dtype=torch.float64)

unpackbits | no derivative
>>> np.unpackbits(np.array([5], dtype=np.uint8))
tensor([0, 0, 0, 0, 0, 1, 0, 1], dtype=torch.uint8)

unravel_index | no derivative
>>> np.unravel_index(5, (2, 3))
(tensor(1), tensor(2))

unstack | x
>>> np.unstack(m)
(tensor([1., 2.], dtype=torch.float64), tensor([3., 4.], dtype=torch.float64))

unwrap | p
>>> np.unwrap(np.array([0.0, 3.0, 6.0]), period=4.0)
tensor([ 0., -1., -2.], dtype=torch.float64)

vander | x
>>> np.vander(x)
tensor([[1., 1., 1.],
        [4., 2., 1.],
        [9., 3., 1.]], dtype=torch.float64)

var | a, mean
>>> np.var(x)
tensor(0.6667, dtype=torch.float64)

vdot | a, b
>>> np.vdot(x, x)
tensor(14., dtype=torch.float64)

vecdot | x1, x2
>>> np.vecdot(m, m)
tensor([ 5., 25.], dtype=torch.float64)

vecmat | x1, x2
>>> np.vecmat([1.0, 1.0], m)
tensor([4., 6.], dtype=torch.float64)

vsplit | ary
>>> np.vsplit(m, 2)
[tensor([[1., 2.]], dtype=torch.float64), tensor([[3., 4.]], dtype=torch.float64)]

vstack | tup
>>> np.vstack((x, x))
tensor([[1., 2., 3.],
        [1., 2., 3.]], dtype=torch.float64)

where | x, y
>>> np.where(x > 1, x, 0.0)
tensor([0., 2., 3.], dtype=torch.float64)

zeros | no derivative
>>> np.zeros((2, 2))
tensor([[0., 0.],
        [0., 0.]], dtype=torch.float64)

zeros_like | no derivative
>>> np.zeros_like(x)
tensor([0., 0., 0.], dtype=torch.float64)

copyto | dst, src
>>> np.copyto(y, x)
>>> y
tensor([1., 2., 3.], dtype=torch.float64)

fill_diagonal | a, val
>>> np.fill_diagonal(m, 5.0)
>>> m
tensor([[5., 2.],
        [3., 5.]], dtype=torch.float64)

place | arr, vals
>>> np.place(y, y > 1, [7.0])
>>> y
tensor([7., 7., 1.], dtype=torch.float64)

put | a, v
>>> np.put(y, [0], [7.0])
>>> y
tensor([7., 2., 1.], dtype=torch.float64)

put_along_axis | arr, values
>>> np.put_along_axis(m, np.array([[0], [1]]), 9.0, 1)
>>> m
tensor([[9., 2.],
        [3., 9.]], dtype=torch.float64)

putmask | a, values
>>> np.putmask(y, y > 1, 7.0)
>>> y
tensor([7., 7., 1.], dtype=torch.float64)

fft.fft | a
>>> np.abs(np.fft.fft(x / 4))
tensor([1.5000, 0.4330, 0.4330], dtype=torch.float64)

fft.fft2 | a
>>> np.abs(np.fft.fft2(np.array([[1.0, 2.0], [3.0, 5.0]]) / 4))
tensor([[2.7500, 0.7500],
        [1.2500, 0.2500]], dtype=torch.float64)

fft.fftfreq | no derivative
>>> np.fft.fftfreq(4)
tensor([ 0.0000,  0.2500, -0.5000, -0.2500], dtype=torch.float64)

fft.fftn | a
>>> np.abs(np.fft.fftn(np.array([[1.0, 2.0], [3.0, 5.0]]) / 4))
tensor([[2.7500, 0.7500],
        [1.2500, 0.2500]], dtype=torch.float64)

fft.fftshift | x
>>> np.fft.fftshift(x)
tensor([3., 1., 2.], dtype=torch.float64)

fft.hfft | a
>>> np.fft.hfft(np.array([2.0, 0.5]))
tensor([2.5000, 1.5000], dtype=torch.float64)

fft.ifft | a
>>> np.fft.ifft(np.fft.fft(x / 4)).real
tensor([0.2500, 0.5000, 0.7500], dtype=torch.float64)

fft.ifft2 | a
>>> np.fft.ifft2(np.fft.fft2(m / 4)).real
tensor([[0.2500, 0.5000],
        [0.7500, 1.0000]], dtype=torch.float64)

fft.ifftn | a
>>> np.fft.ifftn(np.fft.fftn(m / 4)).real
tensor([[0.2500, 0.5000],
        [0.7500, 1.0000]], dtype=torch.float64)

fft.ifftshift | x
>>> np.fft.ifftshift(x)
tensor([2., 3., 1.], dtype=torch.float64)

fft.ihfft | a
>>> np.abs(np.fft.ihfft(x / 4))
tensor([0.5000, 0.1443], dtype=torch.float64)

fft.irfft | a
>>> np.fft.irfft(np.fft.rfft(x / 4), n=3)
tensor([0.2500, 0.5000, 0.7500], dtype=torch.float64)

fft.irfft2 | a
>>> np.fft.irfft2(np.fft.rfft2(m / 4))
tensor([[0.2500, 0.5000],
        [0.7500, 1.0000]], dtype=torch.float64)

fft.irfftn | a
>>> np.fft.irfftn(np.fft.rfftn(m / 4))
tensor([[0.2500, 0.5000],
        [0.7500, 1.0000]], dtype=torch.float64)

fft.rfft | a
>>> np.abs(np.fft.rfft(x / 4))
tensor([1.5000, 0.4330], dtype=torch.float64)

fft.rfft2 | a
>>> np.abs(np.fft.rfft2(np.array([[1.0, 2.0], [3.0, 5.0]]) / 4))
tensor([[2.7500, 0.7500],
        [1.2500, 0.2500]], dtype=torch.float64)

fft.rfftfreq | no derivative
>>> np.fft.rfftfreq(4)
tensor([0.0000, 0.2500, 0.5000], dtype=torch.float64)

fft.rfftn | a
>>> np.abs(np.fft.rfftn(np.array([[1.0, 2.0], [3.0, 5.0]]) / 4))
tensor([[2.7500, 0.7500],
        [1.2500, 0.2500]], dtype=torch.float64)

linalg.cholesky | a
>>> np.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
tensor([[2., 0.],
        [1., 2.]], dtype=torch.float64)

linalg.cond | x
>>> np.linalg.cond(m)
tensor(14.9330, dtype=torch.float64)

linalg.cross | x1, x2
>>> np.linalg.cross(x, [1.0, 0.0, 0.0])
tensor([ 0.,  3., -2.], dtype=torch.float64)

linalg.det | a
>>> np.linalg.det(m / 4)
tensor(-0.1250, dtype=torch.float64)

linalg.diagonal | x
>>> np.linalg.diagonal(m)
tensor([1., 4.], dtype=torch.float64)

linalg.eig | a
>>> np.linalg.eig(np.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
tensor([2.+0.j, 1.+0.j], dtype=torch.complex128)

linalg.eigh | a
>>> np.linalg.eigh(np.array([[2.0, 1.0], [1.0, 4.0]])).eigenvalues
tensor([1.5858, 4.4142], dtype=torch.float64)

linalg.eigvals | a
>>> np.linalg.eigvals(np.array([[2.0, 0.0], [0.0, 1.0]]))
tensor([2.+0.j, 1.+0.j], dtype=torch.complex128)

linalg.eigvalsh | a
>>> np.linalg.eigvalsh(np.array([[2.0, 1.0], [1.0, 4.0]]))
tensor([1.5858, 4.4142], dtype=torch.float64)

linalg.inv | a
>>> np.linalg.inv(m)
tensor([[-2.0000,  1.0000],
        [ 1.5000, -0.5000]], dtype=torch.float64)

linalg.lstsq | a, b
>>> np.linalg.lstsq(np.array([[2.0, 1.0], [1.0, 4.0]]), np.array([1.0, 1.0]))[0]
tensor([0.4286, 0.1429], dtype=torch.float64)

linalg.matmul | x1, x2
>>> np.linalg.matmul(m, m)
tensor([[ 7., 10.],
        [15., 22.]], dtype=torch.float64)

linalg.matrix_norm | x
>>> np.linalg.matrix_norm(m)
tensor(5.4772, dtype=torch.float64)

linalg.matrix_power | a
>>> np.linalg.matrix_power(m, 2)
tensor([[ 7., 10.],
        [15., 22.]], dtype=torch.float64)

linalg.matrix_rank | no derivative
>>> np.linalg.matrix_rank(m)
tensor(2)

linalg.matrix_transpose | x
>>> np.linalg.matrix_transpose(m)
tensor([[1., 3.],
        [2., 4.]], dtype=torch.float64)

linalg.multi_dot | arrays
>>> np.linalg.multi_dot([m, m, [1.0, 1.0]])
tensor([17., 37.], dtype=torch.float64)

linalg.norm | x
>>> np.linalg.norm(x)
tensor(3.7417, dtype=torch.float64)

linalg.outer | x1, x2
>>> np.linalg.outer([1.0, 2.0], x)
tensor([[1., 2., 3.],
        [2., 4., 6.]], dtype=torch.float64)

linalg.pinv | a
>>> np.linalg.pinv(m)
tensor([[-2.0000,  1.0000],
        [ 1.5000, -0.5000]], dtype=torch.float64)

linalg.qr | a
>>> np.abs(np.linalg.qr(m).R)
tensor([[3.1623, 4.4272],
        [0.0000, 0.6325]], dtype=torch.float64)

linalg.slogdet | a
>>> np.linalg.slogdet(np.array([[2.0, 1.0], [1.0, 4.0]]))
SlogdetResult(sign=tensor(1., dtype=torch.float64), logabsdet=tensor(1.9459, dtype=torch.float64))

linalg.solve | a, b
>>> np.linalg.solve(np.array([[2.0, 1.0], [1.0, 4.0]]), [1.0, 1.0])
tensor([0.4286, 0.1429], dtype=torch.float64)

linalg.svd | a
>>> np.linalg.svd(m, compute_uv=False)
tensor([5.4650, 0.3660], dtype=torch.float64)

linalg.svdvals | x
>>> np.linalg.svdvals(m)
tensor([5.4650, 0.3660], dtype=torch.float64)

linalg.tensordot | x1, x2
>>> np.linalg.tensordot(m, m, axes=2)
tensor(30., dtype=torch.float64)

linalg.tensorinv | a
>>> np.linalg.tensorinv(np.eye(4).reshape(2, 2, 4)).shape
torch.Size([4, 2, 2])

linalg.tensorsolve | a, b
>>> np.linalg.tensorsolve(np.array([[2.0, 1.0], [1.0, 4.0]]), np.array([1.0, 1.0]))
tensor([0.4286, 0.1429], dtype=torch.float64)

linalg.trace | x
>>> np.linalg.trace(m)
tensor(5., dtype=torch.float64)

linalg.vecdot | x1, x2
>>> np.linalg.vecdot(m, m)
tensor([ 5., 25.], dtype=torch.float64)

linalg.vector_norm | x
>>> np.linalg.vector_norm(x)
tensor(3.7417, dtype=torch.float64)
"""
