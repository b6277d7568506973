"""What PyTorch says of programs that cannot run on a batch at once."""

__all__ = ["CONTROL_FLOW", "DYNAMIC", "INPLACE", "ITEM", "RANDOM"]

CONTROL_FLOW = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that "
    "yet: write both branches and choose with where()."
)
ITEM = (
    "vmap: It looks like you're either (1) calling .item() on a Tensor or (2) attempting to use a Tensor in some "
    "data-dependent control flow or (3) encountering this error in a function that needs the numbers of a Tensor. For "
    "(1): we don't support vmap over calling .item() on a Tensor, please try to rewrite what you're doing with other "
    "operations."
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
