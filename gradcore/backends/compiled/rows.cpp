// Kernels of rows, for Python to call.

#include "rows.h"

FLOAT_KERNEL(softmax)
FLOAT_KERNEL(softmax_or_zero)
FLOAT_KERNEL(softmax_backward)
FLOAT_KERNEL(log_softmax)
FLOAT_KERNEL(log_softmax_backward)
FLOAT_KERNEL(logsumexp)
FLOAT_KERNEL(row_powers)
FLOAT_KERNEL(scaled_rows)
FLOAT_KERNEL(layer_norm)
FLOAT_KERNEL(layer_norm_backward)
FLOAT_KERNEL(group_norm)
FLOAT_KERNEL(group_norm_backward)
FLOAT_KERNEL(plane_moments)
FLOAT_KERNEL(plane_line)
FLOAT_KERNEL(plane_products)
FLOAT_KERNEL(plane_plane)
FLOAT_KERNEL(cumulative_sum)
FLOAT_KERNEL(cumulative_product)
FLOAT_KERNEL(cumulative_extremum)
FLOAT_KERNEL(scan)
