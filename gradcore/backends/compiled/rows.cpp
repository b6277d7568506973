// Kernels of rows, for Python to call.

#include "calls.h"

#define ROW_KERNEL FLOAT_KERNEL
#include "rows.h"
