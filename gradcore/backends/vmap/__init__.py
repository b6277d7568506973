"""One more dim that nobody sees: arrays of a batch of samples, on which kernels run as on one sample (``vmap``)."""

from gradcore.backends.vmap.array import Batched, all_samples, entered, left, without
from gradcore.backends.vmap.devices import BatchedDevice, Level, over, under

__all__ = ["Batched", "BatchedDevice", "Level", "all_samples", "entered", "left", "over", "under", "without"]
