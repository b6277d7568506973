"""The names that ``dir`` lists for a tensor, and what the simplest of them say about an ordinary one."""

import pytest

import gradcore as gc


def words(text):
    return set(text.split())


IN_PLACE_TOO = words("""
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr arccos arccosh arcsin arcsinh arctan
    arctanh as_strided asin asinh atan atan2 atanh baddbmm bernoulli bitwise_and bitwise_not bitwise_or
    bitwise_xor ceil clamp clamp_max clamp_min clip copysign cos cosh cumprod cumsum deg2rad detach digamma
    div divide eq erf erfc erfinv exp exp2 expm1 fix float_power floor floor_divide fmod frac gcd ge greater
    greater_equal gt heaviside hypot i0 igamma igammac index_add index_copy index_fill index_put lcm ldexp
    le lerp less less_equal lgamma log log10 log1p log2 logical_and logical_not logical_or logical_xor logit
    lt masked_fill masked_scatter mul multiply mvlgamma nan_to_num ne neg negative nextafter not_equal
    polygamma pow put rad2deg reciprocal relu remainder renorm requires_grad round rsqrt scatter scatter_add
    sgn sigmoid sign sin sinc sinh sqrt square squeeze sub subtract swapaxes swapdims t tan tanh transpose
    tril triu true_divide trunc unsqueeze xlogy
""")

GROUPS = {
    "operators": words("""
        __abs__ __add__ __and__ __eq__ __floordiv__ __ge__ __gt__ __iadd__ __iand__ __ifloordiv__
        __ilshift__ __imod__ __imul__ __invert__ __ior__ __ipow__ __irshift__ __isub__ __itruediv__ __ixor__
        __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __radd__
        __rfloordiv__ __rmul__ __rpow__ __rshift__ __rsub__ __rtruediv__ __sub__ __truediv__ __xor__
    """),
    "protocols": words("""
        __array__ __array_priority__ __array_wrap__ __bool__ __complex__ __contains__ __deepcopy__
        __delitem__ __dir__ __float__ __format__ __getitem__ __hash__ __index__ __int__ __iter__ __len__
        __module__ __reduce__ __reduce_ex__ __repr__ __reversed__ __setitem__ __setstate__ __str__
        __weakref__
    """),
    "autograd": words("""
        _backward_hooks _base _grad _grad_fn _is_view _version backward data grad grad_fn is_leaf name
        output_nr register_hook retain_grad retains_grad
    """),
    "in place": words("""
        apply_ cauchy_ copy_ exponential_ fill_ fill_diagonal_ geometric_ log_normal_ map2_ map_ normal_
        random_ set_ uniform_ zero_
    """),
    "in place or not": IN_PLACE_TOO | {f"{name}_" for name in IN_PLACE_TOO},
    "shapes": words("""
        T broadcast_to chunk contiguous diag diag_embed diagflat diagonal dim dsplit expand expand_as
        flatten flip fliplr flipud hsplit moveaxis movedim narrow narrow_copy ndim ndimension nelement numel
        permute ravel repeat repeat_interleave reshape reshape_as resize resize_ resize_as resize_as_ roll
        rot90 select shape size split split_with_sizes stride sum_to_size tensor_split tile unbind unflatten
        unfold unsafe_chunk unsafe_split unsafe_split_with_sizes view view_as vsplit
    """),
    "selection": words("""
        gather index_select masked_select nonzero take take_along_dim unique unique_consecutive where
    """),
    "reductions": words("""
        all allclose amax amin any argmax argmin argsort bincount count_nonzero cummax cummin diff dist
        equal histc kthvalue logcumsumexp logsumexp max mean median min mode msort multinomial nanmedian
        nanquantile nansum norm prod quantile sort std sum topk var
    """),
    "mathematics": words("""
        angle clone conj fmax fmin frexp hardshrink imag isclose isfinite isinf isnan isneginf isposinf
        isreal istft log_softmax logaddexp logaddexp2 maximum minimum positive prelu real signbit softmax
        stft
    """),
    "linear algebra": words("""
        bmm cholesky cholesky_inverse cholesky_solve cross det dot geqrf ger inner inverse kron logdet lu
        lu_solve matmul matrix_exp matrix_power mm mv orgqr ormqr outer pinverse qr slogdet svd trace
        triangular_solve vdot
    """),
    "conversions": words("""
        as_subclass bfloat16 bool byte cdouble cfloat char cpu cuda double dtype float half int is_complex
        is_floating_point is_nonzero is_signed item long new new_empty new_empty_strided new_full new_ones
        new_tensor new_zeros numpy short to tolist type type_as
    """),
    "memory": words("""
        data_ptr device element_size get_device is_contiguous is_cuda is_meta is_pinned is_same_size
        is_set_to is_shared layout pin_memory record_stream share_memory_ storage storage_offset
        storage_type
    """),
    "other layouts and processors": words("""
        _coalesced_ _dimI _dimV _indices _nnz _to_sparse_csr _values coalesce col_indices crow_indices
        dense_dim dequantize indices int_repr is_coalesced is_distributed is_mkldnn is_quantized is_sparse
        is_sparse_csr is_vulkan is_xpu q_per_channel_axis q_per_channel_scales q_per_channel_zero_points
        q_scale q_zero_point qscheme smm sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_
        sspaddmm to_dense to_mkldnn to_sparse values xpu
    """),
    "superseded": words("""
        __div__ __idiv__ __long__ __nonzero__ __rdiv__ eig lstsq reinforce solve symeig
    """),
    "internals": words("""
        __dict__ __torch_function__ _cdata _make_subclass _reduce_ex_internal
    """),
}


@pytest.mark.parametrize("names", GROUPS.values(), ids=GROUPS)
def test_a_tensor_lists_these_names(names):
    z = gc.rand(2, requires_grad=True) ** 2
    assert names - set(dir(z)) == set()


@pytest.mark.parametrize(
    "flag",
    ["is_cuda", "is_meta", "is_mkldnn", "is_quantized", "is_sparse", "is_sparse_csr", "is_vulkan", "is_xpu"],
)
def test_an_ordinary_tensor_is_none_of_these(flag):
    assert getattr(gc.ones(2), flag) is False


def test_an_ordinary_tensor_describes_itself():
    x = gc.ones(2, 3)
    assert (x.dim(), x.ndim, x.ndimension()) == (2, 2, 2)
    assert (x.numel(), x.nelement(), len(x)) == (6, 6, 2)
    assert (x.element_size(), x.stride(), x.storage_offset()) == (4, (3, 1), 0)
    assert x.is_contiguous()
    assert not x.t().is_contiguous()
    assert x.is_floating_point()
    assert not x.is_complex()
    assert str(x.device) == "cpu"
    assert x.get_device() == -1
