// Connectionist temporal classification: a block for each sequence goes over all time steps, a thread for each
// position.
//
// GRADCORE_TYPE is float or double. Labels are (batch, positions), blanks included; log_probs (steps, batch, classes).
// A label that is no class is noted in found, as in cross_entropy.cu, and its position is never reached.

#include "block.cuh"
#include "checks.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;

// The number of positions whose numbers are kept in shared memory. Longer sequences keep them in `scratch`.
constexpr i64 kept = 1024;

// The logarithm of a probability of zero, as in Python.
GRADCORE_FUNCTION T never() { return static_cast<T>(-1e30); }

struct Sequence {
    const T* log_probs;
    const i64* labels;
    i64 batch, classes, positions, blank, number;

    GRADCORE_FUNCTION Sequence(const T* log_probs, const i64* labels, i64 batch, i64 classes, i64 positions, i64 blank)
        : log_probs(log_probs), labels(labels + blockIdx.x * positions), batch(batch), classes(classes),
          positions(positions), blank(blank), number(blockIdx.x) {}

    GRADCORE_FUNCTION bool is_class(i64 label) const { return label >= 0 && label < classes; }

    // The logarithm of the probability of a position's label at a step.
    GRADCORE_FUNCTION T score(i64 t, i64 s) const {
        const i64 label = labels[s];
        return is_class(label) ? log_probs[(t * batch + number) * classes + label] : never();
    }
    // Return whether the position two before is a predecessor, because the blank between them may be skipped.
    GRADCORE_FUNCTION bool skips(i64 s) const { return s > 1 && labels[s] != blank && labels[s] != labels[s - 2]; }

    // Return the offset of a step's numbers in an array (steps, batch, positions).
    GRADCORE_FUNCTION i64 row(i64 t) const { return (t * batch + number) * positions; }
};

// Return the logarithm of the sum of three exponentials, at least never().
GRADCORE_FUNCTION T log_sum(T x, T y, T z) {
    const T top = Largest()(Largest()(Largest()(x, y), z), never());
    return log(exp(x - top) + exp(y - top) + exp(z - top)) + top;
}

// The losses, and alphas: the logarithms of the probabilities of all beginnings that are in a position after each step.
extern "C" __global__ void ctc_forward(const T* log_probs, const i64* all_labels, const bool* all_ends, const i64* counts,
                                       T* losses, T* alphas, T* scratch, const i64 steps, const i64 batch,
                                       const i64 classes, const i64 positions, const i64 blank, const i64 check,
                                       i64* found) {
    __shared__ T shared[2 * kept];
    const Sequence sequence(log_probs, all_labels, batch, classes, positions, blank);
    const bool* ends = all_ends + sequence.number * positions;
    T* now = positions <= kept ? shared : scratch + 2 * positions * sequence.number;
    T* next = now + (positions <= kept ? kept : positions);
    for (i64 s = threadIdx.x; s < positions; s += blockDim.x) {
        if (!sequence.is_class(sequence.labels[s])) note(sequence.labels[s], check, found);
        alphas[sequence.row(0) + s] = now[s] = s < 2 ? sequence.score(0, s) : never();
    }
    const i64 count = counts[sequence.number] < steps ? counts[sequence.number] : steps;
    const i64 own = threadIdx.x;  // first position of this thread; its score is read a step ahead
    T ahead = count > 1 && own < positions ? sequence.score(1, own) : T(0);
    for (i64 t = 1; t < count; ++t) {
        const T first = ahead;
        if (t + 1 < count && own < positions) ahead = sequence.score(t + 1, own);
        __syncthreads();
        for (i64 s = own; s < positions; s += blockDim.x) {
            const T one = s > 0 ? now[s - 1] : never(), two = sequence.skips(s) ? now[s - 2] : never();
            const T alpha = log_sum(now[s], one, two) + (s == own ? first : sequence.score(t, s));
            alphas[sequence.row(t) + s] = next[s] = alpha;
        }
        T* last = now;
        now = next;
        next = last;
    }
    T top = never(), total = 0;
    for (i64 s = own; s < positions; s += blockDim.x)  // each thread reads the numbers that it wrote itself
        if (ends[s]) top = Largest()(top, now[s]);
    top = row_largest(top);
    for (i64 s = own; s < positions; s += blockDim.x)
        if (ends[s]) total += exp(now[s] - top);
    total = row_sum(total);
    if (threadIdx.x == 0) losses[sequence.number] = -(log(total) + top);
    for (i64 t = count > 1 ? count : 1; t < steps; ++t)
        for (i64 s = own; s < positions; s += blockDim.x) alphas[sequence.row(t) + s] = now[s];
}

// Add the gradient by log_probs to `out`, which is zero. The cotangent of a position is the sum, over its successors,
// of the successor's cotangent times the position's share in the successor's sum. The cotangents of positions with one
// label are summed in the order of the positions, by the thread of the first one. `following` links each position to
// the next one of the same label; the last one has its own number. Blanks, which are every other position, are summed
// by all threads.
extern "C" __global__ void ctc_backward(const T* grad, const T* log_probs, const i64* all_labels, const bool* all_ends,
                                        const i64* counts, const T* losses, const T* alphas, T* out, T* scratch,
                                        i64* links, const i64 steps, const i64 batch, const i64 classes,
                                        const i64 positions, const i64 blank) {
    __shared__ T shared[4 * kept];
    const Sequence sequence(log_probs, all_labels, batch, classes, positions, blank);
    const bool* ends = all_ends + sequence.number * positions;
    const bool is_kept = positions <= kept;
    const i64 width = is_kept ? kept : positions, own = threadIdx.x;
    T* flow = is_kept ? shared : scratch + 4 * positions * sequence.number;
    T *sums = flow + width, *next_flow = sums + width, *next_sums = next_flow + width;
    i64* following = links + sequence.number * positions;
    const i64* labels = sequence.labels;
    for (i64 s = own; s < positions; s += blockDim.x) {
        i64 found = s + 1;
        while (found < positions && labels[found] != labels[s]) ++found;
        i64 before = s - 1;
        while (before >= 0 && labels[before] != labels[s]) --before;
        // A negative number marks a position that has an earlier one of the same label.
        following[s] = labels[s] == blank ? positions : before < 0 ? found : -found - 1;
    }
    const i64 count = counts[sequence.number] < steps ? counts[sequence.number] : steps;
    const i64 last = sequence.row(steps - 1);
    for (i64 s = own; s < positions; s += blockDim.x)
        flow[s] = ends[s] ? -grad[sequence.number] * exp(alphas[last + s] + losses[sequence.number]) : T(0);
    for (i64 t = count > 1 ? count - 1 : 0; t >= 0; --t) {
        const i64 row = sequence.row(t);
        T* to = out + (t * batch + sequence.number) * classes;
        T blanks = 0;
        for (i64 s = own; s < positions; s += blockDim.x) {
            const T alpha = alphas[row + s];
            const bool counted = t ? !(alpha <= never() / 2) : s < 2;
            if (!counted) flow[s] = 0;
            sums[s] = alpha - sequence.score(t, s);
            if (labels[s] == blank) blanks += flow[s];
        }
        blanks = row_sum(blanks);
        __syncthreads();
        if (own == 0) to[blank] = blanks;
        for (i64 s = own; s < positions; s += blockDim.x) {
            if (labels[s] == blank || following[s] < 0 || !sequence.is_class(labels[s])) continue;
            T total = flow[s];
            for (i64 other = following[s]; other < positions; other = -following[other] - 1) total += flow[other];
            to[labels[s]] = total;
        }
        if (!t) break;
        const i64 before = sequence.row(t - 1);
        for (i64 s = own; s < positions; s += blockDim.x) {
            T found = 0;
            for (i64 by = 0; by < 3 && s + by < positions; ++by) {
                if (by == 2 && !sequence.skips(s + 2)) break;
                const T away = alphas[before + s] - sums[s + by];  // at most 0 unless neither position is reached
                found += flow[s + by] * exp(away < 0 ? away : T(0));
            }
            next_flow[s] = found;
        }
        T* const done = flow;
        flow = next_flow;
        next_flow = done;
        T* const used = sums;
        sums = next_sums;
        next_sums = used;
    }
}
