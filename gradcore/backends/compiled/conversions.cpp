// Conversions of arrays between float16 or bfloat16 and float32 or float64.

#include "calls.h"
#include "halves.h"

namespace gradcore {

// Convert the elements from `start` to before `stop`.
template <class From, class To>
void converted(const Work&, i64 start, i64 stop, const From* x, To* out) {
    convert_all(stop - start, x + start, out + start);
}

}  // namespace gradcore

using gradcore::Brain;
using gradcore::Half;

// Types are denoted by NumPy's characters, and bfloat16 by E.
KERNEL(converted, ef, Half, float)
KERNEL(converted, ed, Half, double)
KERNEL(converted, eE, Half, Brain)
KERNEL(converted, fe, float, Half)
KERNEL(converted, fE, float, Brain)
KERNEL(converted, dE, double, Brain)
KERNEL(converted, Ef, Brain, float)
KERNEL(converted, Ed, Brain, double)
KERNEL(converted, Ee, Brain, Half)
