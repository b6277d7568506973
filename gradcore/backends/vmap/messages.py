"""PyTorch's messages for programs that cannot run on a batch at once."""

__all__ = ["BATCH_NORM", "CONTROL_FLOW", "DYNAMIC", "INPLACE", "ITEM", "RANDOM", "RANDOM_INPLACE"]

BATCH_NORM = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, "
    "were not batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be "
    "False; torch.func.replace_all_batch_norm_modules_ does so for all of them."
)
CONTROL_FLOW = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that "
    "yet: write both branches and choose with where()."
)
ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor, or a function that needs its numbers. We don't support "
    "vmap over calling .item() on a Tensor, please try to rewrite what you're doing with other operations."
)
INPLACE = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
    "that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
    "over in a vmap. Please try to use out-of-place operators instead of inplace arithmetic."
)
DYNAMIC = (
    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over {name}. Its "
    "result would have another shape for every sample: choose with where() and masks instead."
)
RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
    "randomness flags on vmap or perform the randomness operation out of vmap"
)
RANDOM_INPLACE = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. "
    "Draw new numbers instead, as with torch.rand, or write into a tensor that has samples."
)
