"""Return values and examples for the docstrings of operations that are declared in loops."""

from __future__ import annotations

__all__ = ["EXAMPLES"]

#: Description of the result (empty if the signature is enough) and an interactive session, by path.
EXAMPLES = {
    "nn.functional.conv1d": (
        "Result of shape ``(batch, out_channels, out)`` with ``out = (size + 2 * padding - dilation * (kernel - 1) - "
        "1) // stride + 1``.",
        """>>> gc.nn.functional.conv1d(gc.tensor([[[1.0, 2.0, 3.0, 4.0]]]), gc.tensor([[[1.0, -1.0]]]))
tensor([[[-1., -1., -1.]]])""",
    ),
    "nn.functional.conv_transpose1d": (
        "Result of shape ``(batch, out_channels, out)`` with ``out = (size - 1) * stride - 2 * padding + dilation * "
        "(kernel - 1) + output_padding + 1``.",
        """>>> gc.nn.functional.conv_transpose1d(gc.tensor([[[1.0, 2.0]]]), gc.tensor([[[1.0, 10.0]]]))
tensor([[[ 1., 12., 20.]]])""",
    ),
    "nn.functional.conv2d": (
        "Result of shape ``(batch, out_channels, *out)`` with ``out = (size + 2 * padding - dilation * (kernel - 1) "
        "- 1) // stride + 1`` for each spatial dim.",
        """>>> image = gc.arange(9.0).reshape(1, 1, 3, 3)
>>> gc.nn.functional.conv2d(image, gc.ones(1, 1, 2, 2))
tensor([[[[ 8., 12.],
          [20., 24.]]]])
>>> gc.nn.functional.conv2d(gc.ones(8, 3, 32, 32), gc.ones(16, 3, 3, 3), stride=2, padding=1).shape
torch.Size([8, 16, 16, 16])""",
    ),
    "nn.functional.conv_transpose2d": (
        "Result of shape ``(batch, out_channels, *out)`` with ``out = (size - 1) * stride - 2 * padding + dilation * "
        "(kernel - 1) + output_padding + 1`` for each spatial dim.",
        """>>> gc.nn.functional.conv_transpose2d(gc.ones(1, 1, 2, 2), gc.ones(1, 1, 2, 2), stride=2).shape
torch.Size([1, 1, 4, 4])""",
    ),
    "nn.functional.conv3d": (
        "Result of shape ``(batch, out_channels, *out)`` with ``out = (size + 2 * padding - dilation * (kernel - 1) "
        "- 1) // stride + 1`` for each spatial dim.",
        """>>> gc.nn.functional.conv3d(gc.ones(1, 2, 4, 4, 4), gc.ones(5, 2, 3, 3, 3), padding=1).shape
torch.Size([1, 5, 4, 4, 4])""",
    ),
    "nn.functional.conv_transpose3d": (
        "Result of shape ``(batch, out_channels, *out)`` with ``out = (size - 1) * stride - 2 * padding + dilation * "
        "(kernel - 1) + output_padding + 1`` for each spatial dim.",
        """>>> gc.nn.functional.conv_transpose3d(gc.ones(1, 2, 2, 2, 2), gc.ones(2, 3, 2, 2, 2), stride=2).shape
torch.Size([1, 3, 4, 4, 4])""",
    ),
    "trapezoid": (
        "Without the dim `dim`.",
        """>>> gc.trapezoid(gc.tensor([0.0, 1.0, 4.0]), dx=0.5)
tensor(1.5000)""",
    ),
    "cumulative_trapezoid": (
        "Smaller by 1 along `dim`.",
        """>>> gc.cumulative_trapezoid(gc.tensor([0.0, 1.0, 4.0]))
tensor([0.5000, 3.0000])""",
    ),
    "nn.functional.dropout1d": (
        "Result of the same shape as the input.",
        """>>> gc.nn.functional.dropout1d(gc.ones(2, 3, 4)).shape
torch.Size([2, 3, 4])""",
    ),
    "nn.functional.dropout2d": (
        "Result of the same shape as the input.",
        """>>> gc.nn.functional.dropout2d(gc.ones(2, 3, 4, 4)).shape
torch.Size([2, 3, 4, 4])""",
    ),
    "nn.functional.dropout3d": (
        "Result of the same shape as the input.",
        """>>> gc.nn.functional.dropout3d(gc.ones(2, 3, 4, 4, 4)).shape
torch.Size([2, 3, 4, 4, 4])""",
    ),
    "amax": (
        "",
        """>>> gc.amax(gc.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
tensor([5., 3.])""",
    ),
    "amin": (
        "",
        """>>> gc.amin(gc.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
tensor([1., 2.])""",
    ),
    "max": (
        "",
        """>>> gc.max(gc.tensor([3, 1, 2]))
tensor(3)
>>> gc.max(gc.tensor([[1, 5], [3, 2]]), dim=1)
torch.return_types.max(
values=tensor([5, 3]),
indices=tensor([1, 0]))""",
    ),
    "min": (
        "",
        """>>> gc.min(gc.tensor([3, 1, 2]))
tensor(1)
>>> gc.min(gc.tensor([[1, 5], [3, 2]]), dim=1)
torch.return_types.min(
values=tensor([1, 2]),
indices=tensor([0, 1]))""",
    ),
    "argmax": (
        "",
        """>>> gc.argmax(gc.tensor([[1, 5], [3, 2]]), dim=1)
tensor([1, 0])""",
    ),
    "argmin": (
        "",
        """>>> gc.argmin(gc.tensor([[1, 5], [3, 2]]), dim=1)
tensor([0, 1])""",
    ),
    "cummax": (
        "",
        """>>> gc.cummax(gc.tensor([1, 3, 2, 4]), dim=0)
torch.return_types.cummax(
values=tensor([1, 3, 3, 4]),
indices=tensor([0, 1, 1, 3]))""",
    ),
    "cummin": (
        "",
        """>>> gc.cummin(gc.tensor([4, 2, 3, 1]), dim=0)
torch.return_types.cummin(
values=tensor([4, 2, 2, 1]),
indices=tensor([0, 1, 1, 3]))""",
    ),
    "fft.fft": (
        "Result of size `n` along `dim`, complex.",
        """>>> gc.fft.fft(gc.tensor([1.0, 0.0, 0.0, 0.0]))
tensor([1.-0.j, 1.+0.j, 1.-0.j, 1.-0.j])""",
    ),
    "fft.fft2": (
        "Result of sizes `s` along `dim`, complex.",
        """>>> gc.fft.fft2(gc.ones(2, 2))
tensor([[4.-0.j, 0.-0.j],
        [0.-0.j, 0.-0.j]])""",
    ),
    "fft.fftn": (
        "Result of sizes `s` along `dim`, complex.",
        """>>> gc.fft.fftn(gc.ones(2, 2))
tensor([[4.-0.j, 0.-0.j],
        [0.-0.j, 0.-0.j]])""",
    ),
    "fft.ifft": (
        "Result of size `n` along `dim`, complex.",
        """>>> gc.fft.ifft(gc.tensor([4.0, 0.0, 0.0, 0.0]))
tensor([1.+0.j, 1.-0.j, 1.+0.j, 1.+0.j])""",
    ),
    "fft.ifft2": (
        "Result of sizes `s` along `dim`, complex.",
        """>>> gc.fft.ifft2(gc.ones(2, 2)).real
tensor([[1., 0.],
        [0., 0.]])""",
    ),
    "fft.ifftn": (
        "Result of sizes `s` along `dim`, complex.",
        """>>> gc.fft.ifftn(gc.ones(2, 2)).real
tensor([[1., 0.],
        [0., 0.]])""",
    ),
    "fft.rfft": (
        "Result of size ``n // 2 + 1`` along `dim`, complex.",
        """>>> gc.fft.rfft(gc.tensor([1.0, 2.0, 3.0, 4.0]))
tensor([10.+0.j, -2.+2.j, -2.+0.j])""",
    ),
    "fft.rfft2": (
        "Result of size ``s[-1] // 2 + 1`` along the last of `dim`, complex.",
        """>>> gc.fft.rfft2(gc.ones(4, 4)).shape
torch.Size([4, 3])""",
    ),
    "fft.rfftn": (
        "Result of size ``s[-1] // 2 + 1`` along the last of `dim`, complex.",
        """>>> gc.fft.rfftn(gc.ones(4, 4, 4)).shape
torch.Size([4, 4, 3])""",
    ),
    "fft.irfft": (
        "Result of size `n`, by default ``2 * (size - 1)``, along `dim`, real.",
        """>>> gc.fft.irfft(gc.fft.rfft(gc.tensor([1.0, 2.0, 3.0, 4.0])))
tensor([1., 2., 3., 4.])""",
    ),
    "fft.irfft2": (
        "Result of size ``s[-1]``, by default ``2 * (size - 1)``, along the last of `dim`, real.",
        """>>> gc.fft.irfft2(gc.fft.rfft2(gc.eye(2)))
tensor([[1., 0.],
        [0., 1.]])""",
    ),
    "fft.irfftn": (
        "Result of size ``s[-1]``, by default ``2 * (size - 1)``, along the last of `dim`, real.",
        """>>> gc.fft.irfftn(gc.fft.rfftn(gc.eye(2)))
tensor([[1., 0.],
        [0., 1.]])""",
    ),
    "fft.hfft": (
        "Result of size `n`, by default ``2 * (size - 1)``, along `dim`, real.",
        """>>> gc.fft.hfft(gc.tensor([2.0, 1.0, 0.0]))
tensor([4., 2., 0., 2.])""",
    ),
    "fft.hfft2": (
        "Result of size ``s[-1]``, by default ``2 * (size - 1)``, along the last of `dim`, real.",
        """>>> gc.fft.hfft2(gc.ones(3, 3)).shape
torch.Size([3, 4])""",
    ),
    "fft.hfftn": (
        "Result of size ``s[-1]``, by default ``2 * (size - 1)``, along the last of `dim`, real.",
        """>>> gc.fft.hfftn(gc.ones(3, 3)).shape
torch.Size([3, 4])""",
    ),
    "fft.ihfft": (
        "Result of size ``n // 2 + 1`` along `dim`, complex.",
        """>>> gc.fft.ihfft(gc.tensor([4.0, 0.0, 0.0, 0.0])).real
tensor([1., 1., 1.])""",
    ),
    "fft.ihfft2": (
        "Result of size ``s[-1] // 2 + 1`` along the last of `dim`, complex.",
        """>>> gc.fft.ihfft2(gc.ones(4, 4)).shape
torch.Size([4, 3])""",
    ),
    "fft.ihfftn": (
        "Result of size ``s[-1] // 2 + 1`` along the last of `dim`, complex.",
        """>>> gc.fft.ihfftn(gc.ones(4, 4)).shape
torch.Size([4, 3])""",
    ),
    "nn.functional.fractional_max_pool2d": (
        "Result of shape ``(batch, channels, *output_size)``.",
        """>>> gc.nn.functional.fractional_max_pool2d(gc.ones(1, 3, 9, 9), kernel_size=2, output_size=6).shape
torch.Size([1, 3, 6, 6])""",
    ),
    "nn.functional.fractional_max_pool2d_with_indices": (
        "Two tensors of shape ``(batch, channels, *output_size)``.",
        """>>> values, indices = gc.nn.functional.fractional_max_pool2d_with_indices(
...     gc.ones(1, 3, 9, 9), 2, output_ratio=0.5
... )
>>> values.shape
torch.Size([1, 3, 4, 4])""",
    ),
    "nn.functional.fractional_max_pool3d": (
        "Result of shape ``(batch, channels, *output_size)``.",
        """>>> gc.nn.functional.fractional_max_pool3d(gc.ones(1, 2, 6, 6, 6), kernel_size=2, output_size=4).shape
torch.Size([1, 2, 4, 4, 4])""",
    ),
    "nn.functional.fractional_max_pool3d_with_indices": (
        "Two tensors of shape ``(batch, channels, *output_size)``.",
        """>>> values, indices = gc.nn.functional.fractional_max_pool3d_with_indices(
...     gc.ones(1, 2, 6, 6, 6), 2, output_size=4
... )
>>> indices.shape
torch.Size([1, 2, 4, 4, 4])""",
    ),
    "special.chebyshev_polynomial_t": (
        "",
        """>>> gc.special.chebyshev_polynomial_t(gc.tensor([0.5, 1.0]), gc.tensor([2, 3]))
tensor([-0.5000,  1.0000])""",
    ),
    "special.shifted_chebyshev_polynomial_t": (
        "",
        """>>> gc.special.shifted_chebyshev_polynomial_t(gc.tensor([0.5, 1.0]), gc.tensor([2, 3]))
tensor([-1.,  1.])""",
    ),
    "special.chebyshev_polynomial_u": (
        "",
        """>>> gc.special.chebyshev_polynomial_u(gc.tensor([0.5, 1.0]), gc.tensor([2, 3]))
tensor([0., 4.])""",
    ),
    "special.shifted_chebyshev_polynomial_u": (
        "",
        """>>> gc.special.shifted_chebyshev_polynomial_u(gc.tensor([0.5, 1.0]), gc.tensor([2, 3]))
tensor([-1.,  4.])""",
    ),
    "special.chebyshev_polynomial_v": (
        "",
        """>>> gc.special.chebyshev_polynomial_v(gc.tensor([0.5, 1.0]), gc.tensor([2, 3]))
tensor([-1.,  1.])""",
    ),
    "special.shifted_chebyshev_polynomial_v": (
        "",
        """>>> gc.special.shifted_chebyshev_polynomial_v(gc.tensor([0.5, 1.0]), gc.tensor([2, 3]))
tensor([-1.,  1.])""",
    ),
    "special.chebyshev_polynomial_w": (
        "",
        """>>> gc.special.chebyshev_polynomial_w(gc.tensor([0.5, 1.0]), gc.tensor([2, 3]))
tensor([1., 7.])""",
    ),
    "special.shifted_chebyshev_polynomial_w": (
        "",
        """>>> gc.special.shifted_chebyshev_polynomial_w(gc.tensor([0.5, 1.0]), gc.tensor([2, 3]))
tensor([-1.,  7.])""",
    ),
    "special.hermite_polynomial_h": (
        "",
        """>>> gc.special.hermite_polynomial_h(gc.tensor([0.5, 1.0]), gc.tensor([2, 3]))
tensor([-1., -4.])""",
    ),
    "special.hermite_polynomial_he": (
        "",
        """>>> gc.special.hermite_polynomial_he(gc.tensor([0.5, 1.0]), gc.tensor([2, 3]))
tensor([-0.7500, -2.0000])""",
    ),
    "special.laguerre_polynomial_l": (
        "",
        """>>> gc.special.laguerre_polynomial_l(gc.tensor([0.5, 1.0]), gc.tensor([2, 3]))
tensor([ 0.1250, -0.6667])""",
    ),
    "special.legendre_polynomial_p": (
        "",
        """>>> gc.special.legendre_polynomial_p(gc.tensor([0.5, 1.0]), gc.tensor([2, 3]))
tensor([-0.1250,  1.0000])""",
    ),
    "nn.functional.max_pool1d": (
        "Result of shape ``(batch, channels, *out)`` with ``out = (size + 2 * padding - dilation * (kernel_size - 1) "
        "- 1) // stride + 1``, rounded up with `ceil_mode`.",
        """>>> gc.nn.functional.max_pool1d(gc.tensor([[1.0, 4.0, 2.0, 3.0]]), kernel_size=2)
tensor([[4., 3.]])""",
    ),
    "nn.functional.max_pool1d_with_indices": (
        "Result of shape ``(batch, channels, *out)`` with ``out = (size + 2 * padding - dilation * (kernel_size - 1) "
        "- 1) // stride + 1``, rounded up with `ceil_mode`.",
        """>>> gc.nn.functional.max_pool1d_with_indices(gc.tensor([[1.0, 4.0, 2.0, 3.0]]), 2)
(tensor([[4., 3.]]), tensor([[1, 3]]))""",
    ),
    "nn.functional.avg_pool1d": (
        "Result of shape ``(batch, channels, *out)`` with ``out = (size + 2 * padding - kernel_size) // stride + "
        "1``, rounded up with `ceil_mode`.",
        """>>> gc.nn.functional.avg_pool1d(gc.tensor([[1.0, 4.0, 2.0, 3.0]]), kernel_size=2)
tensor([[2.5000, 2.5000]])""",
    ),
    "nn.functional.adaptive_avg_pool1d": (
        "Result of shape ``(batch, channels, output_size)``.",
        """>>> gc.nn.functional.adaptive_avg_pool1d(gc.tensor([[1.0, 2.0, 3.0, 4.0]]), 2)
tensor([[1.5000, 3.5000]])""",
    ),
    "nn.functional.adaptive_max_pool1d": (
        "Result of shape ``(batch, channels, output_size)``.",
        """>>> gc.nn.functional.adaptive_max_pool1d(gc.tensor([[1.0, 4.0, 2.0, 3.0]]), 2)
tensor([[4., 3.]])""",
    ),
    "nn.functional.adaptive_max_pool1d_with_indices": (
        "Two tensors of shape ``(batch, channels, output_size)``.",
        """>>> gc.nn.functional.adaptive_max_pool1d_with_indices(gc.tensor([[1.0, 4.0, 2.0, 3.0]]), 2)
(tensor([[4., 3.]]), tensor([[1, 3]]))""",
    ),
    "nn.functional.max_unpool1d": (
        "Result of sizes `output_size`, by default ``(size - 1) * stride - 2 * padding + kernel``.",
        """>>> gc.nn.functional.max_unpool1d(gc.tensor([[4.0, 3.0]]), gc.tensor([[1, 3]]), kernel_size=2)
tensor([[0., 4., 0., 3.]])""",
    ),
    "nn.functional.lp_pool1d": (
        "Result of shape ``(batch, channels, *out)`` with ``out = (size - kernel_size) // stride + 1``, rounded up "
        "with `ceil_mode`.",
        """>>> gc.nn.functional.lp_pool1d(gc.tensor([[3.0, 4.0, 6.0, 8.0]]), 2, kernel_size=2)
tensor([[ 5., 10.]])""",
    ),
    "nn.functional.max_pool2d": (
        "Result of shape ``(batch, channels, *out)`` with ``out = (size + 2 * padding - dilation * (kernel_size - 1) "
        "- 1) // stride + 1``, rounded up with `ceil_mode`.",
        """>>> gc.nn.functional.max_pool2d(gc.arange(16.0).reshape(1, 1, 4, 4), kernel_size=2)
tensor([[[[ 5.,  7.],
          [13., 15.]]]])""",
    ),
    "nn.functional.max_pool2d_with_indices": (
        "Result of shape ``(batch, channels, *out)`` with ``out = (size + 2 * padding - dilation * (kernel_size - 1) "
        "- 1) // stride + 1``, rounded up with `ceil_mode`.",
        """>>> values, indices = gc.nn.functional.max_pool2d_with_indices(gc.arange(16.0).reshape(1, 1, 4, 4), 2)
>>> indices
tensor([[[[ 5,  7],
          [13, 15]]]])""",
    ),
    "nn.functional.avg_pool2d": (
        "Result of shape ``(batch, channels, *out)`` with ``out = (size + 2 * padding - kernel_size) // stride + "
        "1``, rounded up with `ceil_mode`.",
        """>>> gc.nn.functional.avg_pool2d(gc.arange(16.0).reshape(1, 1, 4, 4), kernel_size=2)
tensor([[[[ 2.5000,  4.5000],
          [10.5000, 12.5000]]]])""",
    ),
    "nn.functional.adaptive_avg_pool2d": (
        "Result of shape ``(batch, channels, *output_size)``.",
        """>>> gc.nn.functional.adaptive_avg_pool2d(gc.ones(1, 8, 7, 5), (3, 2)).shape
torch.Size([1, 8, 3, 2])""",
    ),
    "nn.functional.adaptive_max_pool2d": (
        "Result of shape ``(batch, channels, *output_size)``.",
        """>>> gc.nn.functional.adaptive_max_pool2d(gc.ones(1, 8, 7, 5), 1).shape
torch.Size([1, 8, 1, 1])""",
    ),
    "nn.functional.adaptive_max_pool2d_with_indices": (
        "Two tensors of shape ``(batch, channels, *output_size)``.",
        """>>> image = gc.arange(4.0).reshape(1, 1, 2, 2)
>>> values, indices = gc.nn.functional.adaptive_max_pool2d_with_indices(image, 1)
>>> indices
tensor([[[[3]]]])""",
    ),
    "nn.functional.max_unpool2d": (
        "Result of sizes `output_size`, by default ``(size - 1) * stride - 2 * padding + kernel``.",
        """>>> values, indices = gc.nn.functional.max_pool2d_with_indices(gc.arange(16.0).reshape(1, 1, 4, 4), 2)
>>> gc.nn.functional.max_unpool2d(values, indices, 2)[0, 0]
tensor([[ 0.,  0.,  0.,  0.],
        [ 0.,  5.,  0.,  7.],
        [ 0.,  0.,  0.,  0.],
        [ 0., 13.,  0., 15.]])""",
    ),
    "nn.functional.lp_pool2d": (
        "Result of shape ``(batch, channels, *out)`` with ``out = (size - kernel_size) // stride + 1``, rounded up "
        "with `ceil_mode`.",
        """>>> gc.nn.functional.lp_pool2d(gc.ones(1, 1, 4, 4), 2, kernel_size=2)
tensor([[[[2., 2.],
          [2., 2.]]]])""",
    ),
    "nn.functional.max_pool3d": (
        "Result of shape ``(batch, channels, *out)`` with ``out = (size + 2 * padding - dilation * (kernel_size - 1) "
        "- 1) // stride + 1``, rounded up with `ceil_mode`.",
        """>>> gc.nn.functional.max_pool3d(gc.ones(1, 1, 4, 4, 4), kernel_size=2).shape
torch.Size([1, 1, 2, 2, 2])""",
    ),
    "nn.functional.max_pool3d_with_indices": (
        "Result of shape ``(batch, channels, *out)`` with ``out = (size + 2 * padding - dilation * (kernel_size - 1) "
        "- 1) // stride + 1``, rounded up with `ceil_mode`.",
        """>>> values, indices = gc.nn.functional.max_pool3d_with_indices(gc.ones(1, 1, 4, 4, 4), 2)
>>> indices.shape
torch.Size([1, 1, 2, 2, 2])""",
    ),
    "nn.functional.avg_pool3d": (
        "Result of shape ``(batch, channels, *out)`` with ``out = (size + 2 * padding - kernel_size) // stride + "
        "1``, rounded up with `ceil_mode`.",
        """>>> gc.nn.functional.avg_pool3d(gc.ones(1, 1, 4, 4, 4), kernel_size=2).shape
torch.Size([1, 1, 2, 2, 2])""",
    ),
    "nn.functional.adaptive_avg_pool3d": (
        "Result of shape ``(batch, channels, *output_size)``.",
        """>>> gc.nn.functional.adaptive_avg_pool3d(gc.ones(1, 2, 4, 5, 6), 1).shape
torch.Size([1, 2, 1, 1, 1])""",
    ),
    "nn.functional.adaptive_max_pool3d": (
        "Result of shape ``(batch, channels, *output_size)``.",
        """>>> gc.nn.functional.adaptive_max_pool3d(gc.ones(1, 2, 4, 5, 6), 1).shape
torch.Size([1, 2, 1, 1, 1])""",
    ),
    "nn.functional.adaptive_max_pool3d_with_indices": (
        "Two tensors of shape ``(batch, channels, *output_size)``.",
        """>>> values, indices = gc.nn.functional.adaptive_max_pool3d_with_indices(gc.ones(1, 2, 4, 5, 6), 1)
>>> indices.shape
torch.Size([1, 2, 1, 1, 1])""",
    ),
    "nn.functional.max_unpool3d": (
        "Result of sizes `output_size`, by default ``(size - 1) * stride - 2 * padding + kernel``.",
        """>>> values, indices = gc.nn.functional.max_pool3d_with_indices(gc.ones(1, 1, 4, 4, 4), 2)
>>> gc.nn.functional.max_unpool3d(values, indices, 2).shape
torch.Size([1, 1, 4, 4, 4])""",
    ),
    "nn.functional.lp_pool3d": (
        "Result of shape ``(batch, channels, *out)`` with ``out = (size - kernel_size) // stride + 1``, rounded up "
        "with `ceil_mode`.",
        """>>> gc.nn.functional.lp_pool3d(gc.ones(1, 1, 4, 4, 4), 2, kernel_size=2).shape
torch.Size([1, 1, 2, 2, 2])""",
    ),
    "nn.functional.upsample_nearest": (
        "Result of shape ``(batch, channels, *size)``.",
        """>>> gc.nn.functional.upsample_nearest(gc.tensor([[[1.0, 2.0]]]), size=4)
tensor([[[1., 1., 2., 2.]]])""",
    ),
    "nn.functional.upsample_bilinear": (
        "Result of shape ``(batch, channels, *size)``.",
        """>>> gc.nn.functional.upsample_bilinear(gc.ones(1, 1, 2, 2), size=(3, 3)).shape
torch.Size([1, 1, 3, 3])""",
    ),
    "var": (
        "",
        """>>> gc.var(gc.tensor([1.0, 2.0, 4.0]))
tensor(2.3333)
>>> gc.var(gc.tensor([1.0, 2.0, 4.0]), correction=0)
tensor(1.5556)""",
    ),
    "var_mean": (
        "",
        """>>> gc.var_mean(gc.tensor([1.0, 2.0, 3.0]))
(tensor(1.), tensor(2.))""",
    ),
    "std": (
        "",
        """>>> gc.std(gc.tensor([1.0, 2.0, 3.0]))
tensor(1.)""",
    ),
    "std_mean": (
        "",
        """>>> gc.std_mean(gc.tensor([1.0, 2.0, 3.0]))
(tensor(1.), tensor(2.))""",
    ),
    "median": (
        "",
        """>>> gc.median(gc.tensor([3, 1, 2]))
tensor(2)
>>> gc.median(gc.tensor([[3, 1, 2]]), dim=1)
torch.return_types.median(
values=tensor([2]),
indices=tensor([2]))""",
    ),
    "nanmedian": (
        "",
        """>>> gc.nanmedian(gc.tensor([3.0, gc.nan, 2.0]))
tensor(2.)""",
    ),
    "quantile": (
        "",
        """>>> gc.quantile(gc.tensor([1.0, 2.0, 3.0, 4.0]), 0.5)
tensor(2.5000)
>>> gc.quantile(gc.tensor([1.0, 2.0, 3.0, 4.0]), gc.tensor([0.25, 0.75]))
tensor([1.7500, 3.2500])""",
    ),
    "nanquantile": (
        "",
        """>>> gc.nanquantile(gc.tensor([1.0, gc.nan, 3.0]), 0.5)
tensor(2.)""",
    ),
    "nn.functional.relu6": (
        "",
        """>>> gc.nn.functional.relu6(gc.tensor([-1.0, 3.0, 8.0]))
tensor([0., 3., 6.])""",
    ),
}
