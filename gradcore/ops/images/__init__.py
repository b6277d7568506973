"""Windows and sizes of images: pooling, padding, resampling."""
