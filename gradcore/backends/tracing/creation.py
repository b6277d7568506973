# -- what is known without data, and what is not -------------------------------------------------------------


rule("shape")(lambda a: a.shape)
rule("ndim")(lambda a: a.ndim)
rule("size")(lambda a, axis=None: a.size if axis is None else a.shape[axis])
for _function in _find("can_cast iscomplexobj isrealobj result_type"):
    RULES[_function] = lambda *args, _f=_function, **named: probe(_f, *args, **named)


@rule("may_share_memory shares_memory")
def _shares_memory(a: Any, b: Any, *args: Any, **named: Any) -> bool:
    own, other = (x if getattr(x, "base", None) is None else x.base for x in (a, b))
    return own is other


def _data_dependent(function: Any) -> Callable[..., Any]:
    def refuse(*args: Any, **named: Any) -> Any:
        raise NotImplementedError(
            f"{function.__name__}: the shape of the result depends on the data, and meta tensors have no data"
        )

    return refuse


for _function in _find("argwhere bincount compress extract flatnonzero histogram histogram2d histogramdd intersect1d "
                       "nonzero setdiff1d setxor1d trim_zeros union1d unique unique_all unique_counts unique_inverse "
                       "unique_values"):  # fmt: skip
    RULES[_function] = _data_dependent(_function)


@rule("allclose array_equal array_equiv")
def _compared(*args: Any, **named: Any) -> Any:
    raise RuntimeError(NO_ITEM)


