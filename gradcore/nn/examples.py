"""Examples for the docstrings of generated module classes."""

from __future__ import annotations

__all__ = ["EXAMPLES"]

#: Interactive sessions by name of the class.
EXAMPLES = {
    "CELU": """\
>>> gc.nn.CELU()(gc.tensor([-1.0, 0.0, 2.0]))
tensor([-0.6321,  0.0000,  2.0000])""",
    "ELU": """\
>>> gc.nn.ELU()(gc.tensor([-1.0, 0.0, 2.0]))
tensor([-0.6321,  0.0000,  2.0000])""",
    "GELU": """\
>>> gc.nn.GELU()(gc.tensor([-1.0, 0.0, 2.0]))
tensor([-0.1587,  0.0000,  1.9545])""",
    "GLU": """\
>>> gc.nn.GLU()(gc.tensor([1.0, 2.0, 0.0, 0.0]))
tensor([0.5000, 1.0000])""",
    "Hardshrink": """\
>>> gc.nn.Hardshrink()(gc.tensor([-1.0, 0.25, 2.0]))
tensor([-1.,  0.,  2.])""",
    "Hardsigmoid": """\
>>> gc.nn.Hardsigmoid()(gc.tensor([-4.0, 0.0, 1.5]))
tensor([0.0000, 0.5000, 0.7500])""",
    "Hardswish": """\
>>> gc.nn.Hardswish()(gc.tensor([-4.0, 0.0, 1.5]))
tensor([-0.0000, 0.0000, 1.1250])""",
    "Hardtanh": """\
>>> gc.nn.Hardtanh()(gc.tensor([-3.0, 0.5, 2.0]))
tensor([-1.0000,  0.5000,  1.0000])""",
    "LeakyReLU": """\
>>> gc.nn.LeakyReLU(0.1)(gc.tensor([-1.0, 0.0, 2.0]))
tensor([-0.1000,  0.0000,  2.0000])""",
    "LogSigmoid": """\
>>> gc.nn.LogSigmoid()(gc.tensor([-1.0, 0.0, 2.0]))
tensor([-1.3133, -0.6931, -0.1269])""",
    "LogSoftmax": """\
>>> gc.nn.LogSoftmax(dim=0)(gc.tensor([1.0, 2.0, 3.0]))
tensor([-2.4076, -1.4076, -0.4076])""",
    "Mish": """\
>>> gc.nn.Mish()(gc.tensor([-1.0, 0.0, 2.0]))
tensor([-0.3034,  0.0000,  1.9440])""",
    "RReLU": """\
>>> gc.nn.RReLU(0.1, 0.3).eval()(gc.tensor([-1.0, 2.0]))
tensor([-0.2000,  2.0000])""",
    "ReLU": """\
>>> gc.nn.ReLU()(gc.tensor([-1.0, 0.0, 2.0]))
tensor([0., 0., 2.])""",
    "ReLU6": """\
>>> gc.nn.ReLU6()(gc.tensor([-1.0, 3.0, 8.0]))
tensor([0., 3., 6.])""",
    "SELU": """\
>>> gc.nn.SELU()(gc.tensor([-1.0, 0.0, 2.0]))
tensor([-1.1113,  0.0000,  2.1014])""",
    "SiLU": """\
>>> gc.nn.SiLU()(gc.tensor([-1.0, 0.0, 2.0]))
tensor([-0.2689,  0.0000,  1.7616])""",
    "Sigmoid": """\
>>> gc.nn.Sigmoid()(gc.tensor([-1.0, 0.0, 2.0]))
tensor([0.2689, 0.5000, 0.8808])""",
    "Softmax": """\
>>> gc.nn.Softmax(dim=0)(gc.tensor([1.0, 2.0, 3.0]))
tensor([0.0900, 0.2447, 0.6652])""",
    "Softmin": """\
>>> gc.nn.Softmin(dim=0)(gc.tensor([1.0, 2.0, 3.0]))
tensor([0.6652, 0.2447, 0.0900])""",
    "Softplus": """\
>>> gc.nn.Softplus()(gc.tensor([-1.0, 0.0, 2.0]))
tensor([0.3133, 0.6931, 2.1269])""",
    "Softshrink": """\
>>> gc.nn.Softshrink()(gc.tensor([-1.0, 0.25, 2.0]))
tensor([-0.5000,  0.0000,  1.5000])""",
    "Softsign": """\
>>> gc.nn.Softsign()(gc.tensor([-1.0, 0.0, 3.0]))
tensor([-0.5000,  0.0000,  0.7500])""",
    "Tanh": """\
>>> gc.nn.Tanh()(gc.tensor([-1.0, 0.0, 2.0]))
tensor([-0.7616,  0.0000,  0.9640])""",
    "Tanhshrink": """\
>>> gc.nn.Tanhshrink()(gc.tensor([-1.0, 0.0, 2.0]))
tensor([-0.2384,  0.0000,  1.0360])""",
    "Threshold": """\
>>> gc.nn.Threshold(1.0, 0.0)(gc.tensor([-1.0, 0.5, 2.0]))
tensor([0., 0., 2.])""",
    "Conv1d": """\
>>> gc.nn.Conv1d(2, 4, kernel_size=3, padding=1)(gc.ones(8, 2, 10)).shape
torch.Size([8, 4, 10])""",
    "Conv2d": """\
>>> gc.nn.Conv2d(3, 16, kernel_size=3, stride=2, padding=1)(gc.ones(8, 3, 32, 32)).shape
torch.Size([8, 16, 16, 16])""",
    "Conv3d": """\
>>> gc.nn.Conv3d(1, 4, kernel_size=3)(gc.ones(2, 1, 5, 6, 7)).shape
torch.Size([2, 4, 3, 4, 5])""",
    "ConvTranspose1d": """\
>>> gc.nn.ConvTranspose1d(4, 2, kernel_size=2, stride=2)(gc.ones(8, 4, 5)).shape
torch.Size([8, 2, 10])""",
    "ConvTranspose2d": """\
>>> gc.nn.ConvTranspose2d(16, 3, kernel_size=2, stride=2)(gc.ones(8, 16, 16, 16)).shape
torch.Size([8, 3, 32, 32])""",
    "ConvTranspose3d": """\
>>> gc.nn.ConvTranspose3d(4, 1, kernel_size=3)(gc.ones(2, 4, 3, 4, 5)).shape
torch.Size([2, 1, 5, 6, 7])""",
    "AdaptiveAvgPool1d": """\
>>> gc.nn.AdaptiveAvgPool1d(2)(gc.tensor([[1.0, 2.0, 3.0, 4.0]]))
tensor([[1.5000, 3.5000]])""",
    "AdaptiveAvgPool2d": """\
>>> gc.nn.AdaptiveAvgPool2d(1)(gc.ones(8, 16, 7, 5)).shape
torch.Size([8, 16, 1, 1])""",
    "AdaptiveAvgPool3d": """\
>>> gc.nn.AdaptiveAvgPool3d((1, None, None))(gc.ones(2, 3, 4, 5, 6)).shape
torch.Size([2, 3, 1, 5, 6])""",
    "AdaptiveMaxPool1d": """\
>>> gc.nn.AdaptiveMaxPool1d(2)(gc.tensor([[1.0, 4.0, 2.0, 3.0]]))
tensor([[4., 3.]])""",
    "AdaptiveMaxPool2d": """\
>>> gc.nn.AdaptiveMaxPool2d((3, 2))(gc.ones(8, 16, 7, 5)).shape
torch.Size([8, 16, 3, 2])""",
    "AdaptiveMaxPool3d": """\
>>> gc.nn.AdaptiveMaxPool3d(2)(gc.ones(2, 3, 4, 5, 6)).shape
torch.Size([2, 3, 2, 2, 2])""",
    "AlphaDropout": """\
>>> gc.nn.AlphaDropout(0.2).eval()(gc.tensor([1.0, 2.0]))
tensor([1., 2.])""",
    "AvgPool1d": """\
>>> gc.nn.AvgPool1d(2)(gc.tensor([[1.0, 4.0, 2.0, 3.0]]))
tensor([[2.5000, 2.5000]])""",
    "AvgPool2d": """\
>>> gc.nn.AvgPool2d(2)(gc.ones(8, 16, 32, 32)).shape
torch.Size([8, 16, 16, 16])""",
    "AvgPool3d": """\
>>> gc.nn.AvgPool3d(2)(gc.ones(2, 3, 4, 6, 8)).shape
torch.Size([2, 3, 2, 3, 4])""",
    "ChannelShuffle": """\
>>> gc.nn.ChannelShuffle(2)(gc.arange(4).reshape(1, 4, 1, 1)).flatten()
tensor([0, 2, 1, 3])""",
    "CosineSimilarity": """\
>>> gc.nn.CosineSimilarity()(gc.tensor([[1.0, 0.0]]), gc.tensor([[1.0, 1.0]]))
tensor([0.7071])""",
    "CrossMapLRN2d": """\
>>> gc.nn.CrossMapLRN2d(3)(gc.ones(1, 4, 2, 2)).shape
torch.Size([1, 4, 2, 2])""",
    "Dropout": """\
>>> gc.nn.Dropout(0.5).eval()(gc.tensor([1.0, 2.0]))
tensor([1., 2.])
>>> gc.nn.Dropout(1.0)(gc.tensor([1.0, 2.0]))
tensor([0., 0.])""",
    "Dropout1d": """\
>>> gc.nn.Dropout1d(1.0)(gc.ones(1, 1, 2))
tensor([[[0., 0.]]])""",
    "Dropout2d": """\
>>> gc.nn.Dropout2d()(gc.ones(8, 3, 4, 4)).shape
torch.Size([8, 3, 4, 4])""",
    "Dropout3d": """\
>>> gc.nn.Dropout3d()(gc.ones(8, 3, 4, 4, 4)).shape
torch.Size([8, 3, 4, 4, 4])""",
    "FeatureAlphaDropout": """\
>>> gc.nn.FeatureAlphaDropout().eval()(gc.ones(1, 1, 2))
tensor([[[1., 1.]]])""",
    "Fold": """\
>>> gc.nn.Fold((3, 3), kernel_size=2)(gc.ones(1, 4, 4))[0, 0]
tensor([[1., 2., 1.],
        [2., 4., 2.],
        [1., 2., 1.]])""",
    "FractionalMaxPool2d": """\
>>> gc.nn.FractionalMaxPool2d(2, output_size=6)(gc.ones(1, 3, 9, 9)).shape
torch.Size([1, 3, 6, 6])""",
    "FractionalMaxPool3d": """\
>>> gc.nn.FractionalMaxPool3d(2, output_ratio=0.5)(gc.ones(1, 3, 8, 8, 8)).shape
torch.Size([1, 3, 4, 4, 4])""",
    "LPPool1d": """\
>>> gc.nn.LPPool1d(2, 2)(gc.tensor([[3.0, 4.0, 6.0, 8.0]]))
tensor([[ 5., 10.]])""",
    "LPPool2d": """\
>>> gc.nn.LPPool2d(2, 2)(gc.ones(1, 1, 4, 4))
tensor([[[[2., 2.],
          [2., 2.]]]])""",
    "LPPool3d": """\
>>> gc.nn.LPPool3d(2, 2)(gc.ones(1, 1, 4, 4, 4)).shape
torch.Size([1, 1, 2, 2, 2])""",
    "LocalResponseNorm": """\
>>> gc.nn.LocalResponseNorm(3, alpha=3.0)(gc.ones(1, 3, 1)).flatten()
tensor([0.4387, 0.3536, 0.4387])""",
    "MaxPool1d": """\
>>> gc.nn.MaxPool1d(2)(gc.tensor([[1.0, 4.0, 2.0, 3.0]]))
tensor([[4., 3.]])""",
    "MaxPool2d": """\
>>> gc.nn.MaxPool2d(2)(gc.arange(16.0).reshape(1, 1, 4, 4))
tensor([[[[ 5.,  7.],
          [13., 15.]]]])""",
    "MaxPool3d": """\
>>> gc.nn.MaxPool3d(2)(gc.ones(2, 3, 4, 6, 8)).shape
torch.Size([2, 3, 2, 3, 4])""",
    "MaxUnpool1d": """\
>>> gc.nn.MaxUnpool1d(2)(gc.tensor([[4.0, 3.0]]), gc.tensor([[1, 3]]))
tensor([[0., 4., 0., 3.]])""",
    "MaxUnpool2d": """\
>>> values, indices = gc.nn.MaxPool2d(2, return_indices=True)(gc.arange(16.0).reshape(1, 1, 4, 4))
>>> gc.nn.MaxUnpool2d(2)(values, indices)[0, 0]
tensor([[ 0.,  0.,  0.,  0.],
        [ 0.,  5.,  0.,  7.],
        [ 0.,  0.,  0.,  0.],
        [ 0., 13.,  0., 15.]])""",
    "MaxUnpool3d": """\
>>> values, indices = gc.nn.MaxPool3d(2, return_indices=True)(gc.ones(1, 1, 4, 4, 4))
>>> gc.nn.MaxUnpool3d(2)(values, indices).shape
torch.Size([1, 1, 4, 4, 4])""",
    "PairwiseDistance": """\
>>> gc.nn.PairwiseDistance()(gc.tensor([[0.0, 0.0]]), gc.tensor([[3.0, 4.0]]))
tensor([5.0000])""",
    "PixelShuffle": """\
>>> gc.nn.PixelShuffle(2)(gc.arange(4).reshape(1, 4, 1, 1))
tensor([[[[0, 1],
          [2, 3]]]])""",
    "PixelUnshuffle": """\
>>> gc.nn.PixelUnshuffle(2)(gc.ones(1, 3, 8, 8)).shape
torch.Size([1, 12, 4, 4])""",
    "Unfold": """\
>>> gc.nn.Unfold(2)(gc.arange(9.0).reshape(1, 1, 3, 3))[0]
tensor([[0., 1., 3., 4.],
        [1., 2., 4., 5.],
        [3., 4., 6., 7.],
        [4., 5., 7., 8.]])""",
    "Upsample": """\
>>> gc.nn.Upsample(scale_factor=2)(gc.tensor([[[1.0, 2.0]]]))
tensor([[[1., 1., 2., 2.]]])""",
    "UpsamplingBilinear2d": """\
>>> gc.nn.UpsamplingBilinear2d(scale_factor=2)(gc.ones(1, 3, 4, 4)).shape
torch.Size([1, 3, 8, 8])""",
    "UpsamplingNearest2d": """\
>>> gc.nn.UpsamplingNearest2d(size=(8, 8))(gc.ones(1, 3, 4, 4)).shape
torch.Size([1, 3, 8, 8])""",
    "LazyBatchNorm1d": """\
>>> gc.nn.LazyBatchNorm1d()(gc.ones(8, 3)).shape
torch.Size([8, 3])""",
    "LazyBatchNorm2d": """\
>>> gc.nn.LazyBatchNorm2d()(gc.ones(8, 3, 4, 4)).shape
torch.Size([8, 3, 4, 4])""",
    "LazyBatchNorm3d": """\
>>> gc.nn.LazyBatchNorm3d()(gc.ones(8, 3, 4, 4, 4)).shape
torch.Size([8, 3, 4, 4, 4])""",
    "LazyConv1d": """\
>>> gc.nn.LazyConv1d(4, 3)(gc.ones(8, 2, 10)).shape
torch.Size([8, 4, 8])""",
    "LazyConv2d": """\
>>> gc.nn.LazyConv2d(16, 3)(gc.ones(8, 3, 10, 10)).shape
torch.Size([8, 16, 8, 8])""",
    "LazyConv3d": """\
>>> gc.nn.LazyConv3d(4, 3)(gc.ones(2, 1, 5, 6, 7)).shape
torch.Size([2, 4, 3, 4, 5])""",
    "LazyConvTranspose1d": """\
>>> gc.nn.LazyConvTranspose1d(2, 2)(gc.ones(8, 4, 5)).shape
torch.Size([8, 2, 6])""",
    "LazyConvTranspose2d": """\
>>> gc.nn.LazyConvTranspose2d(3, 2)(gc.ones(8, 4, 5, 5)).shape
torch.Size([8, 3, 6, 6])""",
    "LazyConvTranspose3d": """\
>>> gc.nn.LazyConvTranspose3d(1, 2)(gc.ones(2, 4, 3, 4, 5)).shape
torch.Size([2, 1, 4, 5, 6])""",
    "LazyInstanceNorm1d": """\
>>> gc.nn.LazyInstanceNorm1d()(gc.ones(8, 3, 4)).shape
torch.Size([8, 3, 4])""",
    "LazyInstanceNorm2d": """\
>>> gc.nn.LazyInstanceNorm2d()(gc.ones(8, 3, 4, 4)).shape
torch.Size([8, 3, 4, 4])""",
    "LazyInstanceNorm3d": """\
>>> gc.nn.LazyInstanceNorm3d()(gc.ones(8, 3, 4, 4, 4)).shape
torch.Size([8, 3, 4, 4, 4])""",
    "BCELoss": """\
>>> gc.nn.BCELoss()(gc.tensor([0.9, 0.2]), gc.tensor([1.0, 0.0]))
tensor(0.1643)""",
    "BCEWithLogitsLoss": """\
>>> gc.nn.BCEWithLogitsLoss()(gc.tensor([2.0, -1.0]), gc.tensor([1.0, 0.0]))
tensor(0.2201)""",
    "CTCLoss": """\
>>> gc.nn.CTCLoss()(gc.zeros(4, 1, 3).log_softmax(-1), gc.tensor([[1, 2]]), gc.tensor([4]), gc.tensor([2]))
tensor(0.8432)""",
    "CosineEmbeddingLoss": """\
>>> gc.nn.CosineEmbeddingLoss()(gc.tensor([[1.0, 0.0]]), gc.tensor([[1.0, 1.0]]), gc.tensor([1]))
tensor(0.2929)""",
    "CrossEntropyLoss": """\
>>> gc.nn.CrossEntropyLoss()(gc.tensor([[2.0, 0.0], [0.0, 1.0]]), gc.tensor([0, 1]))
tensor(0.2201)""",
    "GaussianNLLLoss": """\
>>> gc.nn.GaussianNLLLoss()(gc.tensor([0.0, 1.0]), gc.tensor([1.0, 1.0]), gc.tensor([1.0, 4.0]))
tensor(0.5966)""",
    "HingeEmbeddingLoss": """\
>>> gc.nn.HingeEmbeddingLoss()(gc.tensor([0.2, 0.3]), gc.tensor([1, -1]))
tensor(0.4500)""",
    "HuberLoss": """\
>>> gc.nn.HuberLoss()(gc.tensor([1.0, 2.0]), gc.tensor([1.5, 4.0]))
tensor(0.8125)""",
    "KLDivLoss": """\
>>> gc.nn.KLDivLoss(reduction="batchmean")(gc.tensor([[0.5, 0.5]]).log(), gc.tensor([[0.25, 0.75]]))
tensor(0.1308)""",
    "L1Loss": """\
>>> gc.nn.L1Loss()(gc.tensor([1.0, 2.0]), gc.tensor([1.0, 4.0]))
tensor(1.)""",
    "MSELoss": """\
>>> gc.nn.MSELoss()(gc.tensor([1.0, 2.0]), gc.tensor([1.0, 4.0]))
tensor(2.)""",
    "MarginRankingLoss": """\
>>> gc.nn.MarginRankingLoss()(gc.tensor([1.0, 2.0]), gc.tensor([2.0, 1.0]), gc.tensor([1, 1]))
tensor(0.5000)""",
    "MultiLabelMarginLoss": """\
>>> gc.nn.MultiLabelMarginLoss()(gc.tensor([[0.1, 0.2, 0.4, 0.8]]), gc.tensor([[3, 0, -1, 1]]))
tensor(0.8500)""",
    "MultiLabelSoftMarginLoss": """\
>>> gc.nn.MultiLabelSoftMarginLoss()(gc.tensor([[2.0, -1.0]]), gc.tensor([[1.0, 0.0]]))
tensor(0.2201)""",
    "MultiMarginLoss": """\
>>> gc.nn.MultiMarginLoss()(gc.tensor([[0.1, 0.2, 0.7]]), gc.tensor([2]))
tensor(0.3000)""",
    "NLLLoss": """\
>>> gc.nn.NLLLoss()(gc.tensor([[-0.5, -1.0], [-2.0, -0.25]]), gc.tensor([0, 1]))
tensor(0.3750)""",
    "PoissonNLLLoss": """\
>>> gc.nn.PoissonNLLLoss()(gc.tensor([0.0, 1.0]), gc.tensor([1.0, 2.0]))
tensor(0.8591)""",
    "SmoothL1Loss": """\
>>> gc.nn.SmoothL1Loss()(gc.tensor([1.0, 2.0]), gc.tensor([1.5, 4.0]))
tensor(0.8125)""",
    "SoftMarginLoss": """\
>>> gc.nn.SoftMarginLoss()(gc.tensor([2.0, -1.0]), gc.tensor([1.0, 1.0]))
tensor(0.7201)""",
    "TripletMarginLoss": """\
>>> gc.nn.TripletMarginLoss()(gc.tensor([[0.0, 0.0]]), gc.tensor([[1.0, 0.0]]), gc.tensor([[0.0, 1.5]]))
tensor(0.5000)""",
    "BatchNorm1d": """\
>>> norm = gc.nn.BatchNorm1d(1)
>>> norm(gc.tensor([[0.0], [1.0], [2.0]])).detach().flatten()
tensor([-1.2247,  0.0000,  1.2247])
>>> norm.running_mean
tensor([0.1000])""",
    "BatchNorm2d": """\
>>> gc.nn.BatchNorm2d(3)(gc.ones(8, 3, 4, 4)).shape
torch.Size([8, 3, 4, 4])""",
    "BatchNorm3d": """\
>>> gc.nn.BatchNorm3d(3)(gc.ones(8, 3, 4, 4, 4)).shape
torch.Size([8, 3, 4, 4, 4])""",
    "InstanceNorm1d": """\
>>> gc.nn.InstanceNorm1d(2)(gc.tensor([[[0.0, 1.0, 2.0], [0.0, 10.0, 20.0]]]))
tensor([[[-1.2247,  0.0000,  1.2247],
         [-1.2247,  0.0000,  1.2247]]])""",
    "InstanceNorm2d": """\
>>> gc.nn.InstanceNorm2d(3)(gc.ones(8, 3, 4, 4)).shape
torch.Size([8, 3, 4, 4])""",
    "InstanceNorm3d": """\
>>> gc.nn.InstanceNorm3d(3)(gc.ones(8, 3, 4, 4, 4)).shape
torch.Size([8, 3, 4, 4, 4])""",
    "CircularPad1d": """\
>>> gc.nn.CircularPad1d(1)(gc.tensor([[1.0, 2.0, 3.0]]))
tensor([[3., 1., 2., 3., 1.]])""",
    "CircularPad2d": """\
>>> gc.nn.CircularPad2d(1)(gc.ones(1, 3, 4, 4)).shape
torch.Size([1, 3, 6, 6])""",
    "CircularPad3d": """\
>>> gc.nn.CircularPad3d(1)(gc.ones(1, 3, 4, 4, 4)).shape
torch.Size([1, 3, 6, 6, 6])""",
    "ConstantPad1d": """\
>>> gc.nn.ConstantPad1d((1, 2), 9.0)(gc.tensor([[1.0, 2.0]]))
tensor([[9., 1., 2., 9., 9.]])""",
    "ConstantPad2d": """\
>>> gc.nn.ConstantPad2d(1, 9.0)(gc.ones(1, 3, 4, 4)).shape
torch.Size([1, 3, 6, 6])""",
    "ConstantPad3d": """\
>>> gc.nn.ConstantPad3d(1, 9.0)(gc.ones(1, 3, 4, 4, 4)).shape
torch.Size([1, 3, 6, 6, 6])""",
    "ReflectionPad1d": """\
>>> gc.nn.ReflectionPad1d(2)(gc.tensor([[1.0, 2.0, 3.0]]))
tensor([[3., 2., 1., 2., 3., 2., 1.]])""",
    "ReflectionPad2d": """\
>>> gc.nn.ReflectionPad2d((1, 1, 2, 0))(gc.ones(1, 3, 4, 4)).shape
torch.Size([1, 3, 6, 6])""",
    "ReflectionPad3d": """\
>>> gc.nn.ReflectionPad3d(1)(gc.ones(1, 3, 4, 4, 4)).shape
torch.Size([1, 3, 6, 6, 6])""",
    "ReplicationPad1d": """\
>>> gc.nn.ReplicationPad1d(2)(gc.tensor([[1.0, 2.0, 3.0]]))
tensor([[1., 1., 1., 2., 3., 3., 3.]])""",
    "ReplicationPad2d": """\
>>> gc.nn.ReplicationPad2d(1)(gc.ones(1, 3, 4, 4)).shape
torch.Size([1, 3, 6, 6])""",
    "ReplicationPad3d": """\
>>> gc.nn.ReplicationPad3d(1)(gc.ones(1, 3, 4, 4, 4)).shape
torch.Size([1, 3, 6, 6, 6])""",
    "ZeroPad1d": """\
>>> gc.nn.ZeroPad1d((1, 0))(gc.tensor([[1.0, 2.0]]))
tensor([[0., 1., 2.]])""",
    "ZeroPad2d": """\
>>> gc.nn.ZeroPad2d(1)(gc.tensor([[[[5.0]]]]))
tensor([[[[0., 0., 0.],
          [0., 5., 0.],
          [0., 0., 0.]]]])""",
    "ZeroPad3d": """\
>>> gc.nn.ZeroPad3d(1)(gc.ones(1, 3, 4, 4, 4)).shape
torch.Size([1, 3, 6, 6, 6])""",
}
