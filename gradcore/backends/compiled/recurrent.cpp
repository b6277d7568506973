// Recurrent layers over whole sequences. Each step is a product with the weights, which are packed once per call, and
// one pass over the gates. Samples are independent, so each thread processes some of them for all steps.

#include <cstring>
#include <memory>

#include "calls.h"
#include "lanes.h"

namespace gradcore {
namespace {  // other sources define functions with the same names

// ------------------------------------------------------------------------------------------------------------ products

constexpr int tile_vectors = registers / 8;

// Number of rows of a tile, which stays in registers.
constexpr int tile_rows = 6;

template <class T>
constexpr i64 lanes = Lanes<T>::count;

template <class T>
std::unique_ptr<T[]> memory(i64 count) {
    return std::unique_ptr<T[]>(new T[count > 0 ? count : 1]);
}

// A matrix in panels as wide as a tile, padded with zeros. The rows of a panel are adjacent in memory.
template <class T>
class Packed {
public:
    i64 inner, columns, lead;  // rows, columns, and columns rounded up to whole registers

    // Element (k, j) is w[k * row + j * column].
    Packed(i64 rows, i64 columns, const T* w, i64 row, i64 column)
        : inner(rows), columns(columns), lead((columns + lanes<T> - 1) / lanes<T> * lanes<T>),
          data_(memory<T>(rows * lead)) {
        for (i64 first = 0; first < lead; first += width) {
            const i64 wide = lead - first < width ? lead - first : width;
            T* panel = data_.get() + first * inner;
            const i64 used = columns - first < wide ? columns - first : wide;
            for (i64 k0 = 0; k0 < inner; k0 += 16) {  // of both matrices some rows stay in the cache
                const i64 k1 = k0 + 16 < inner ? k0 + 16 : inner;
                for (i64 j = 0; j < used; ++j) {
                    for (i64 k = k0; k < k1; ++k) panel[k * wide + j] = w[k * row + (first + j) * column];
                }
                for (i64 j = used; j < wide; ++j) {
                    for (i64 k = k0; k < k1; ++k) panel[k * wide + j] = 0;
                }
            }
        }
    }

    // out = a @ matrix; rows of `a` are `step` apart, those of `out` are `lead`.
    void multiply(i64 rows, const T* a, i64 step, T* out) const {
        for (i64 first = 0; first < lead; first += width) {
            const T* panel = data_.get() + first * inner;
            const i64 vectors = ((lead - first < width ? lead - first : width)) / lanes<T>;
            i64 row = 0;
            for (; row + tile_rows <= rows; row += tile_rows) {
                tiles<tile_rows>(vectors, a + row * step, step, panel, out + row * lead + first);
            }
            const T* rest = a + row * step;
            T* to = out + row * lead + first;
            switch (rows - row) {
                case 5: tiles<5>(vectors, rest, step, panel, to); break;
                case 4: tiles<4>(vectors, rest, step, panel, to); break;
                case 3: tiles<3>(vectors, rest, step, panel, to); break;
                case 2: tiles<2>(vectors, rest, step, panel, to); break;
                case 1: tiles<1>(vectors, rest, step, panel, to); break;
                default: break;
            }
        }
    }

private:
    static constexpr i64 width = tile_vectors * lanes<T>;
    std::unique_ptr<T[]> data_;

    template <int R>
    void tiles(i64 vectors, const T* a, i64 step, const T* panel, T* out) const {
        if constexpr (tile_vectors == 4) {
            if (vectors == 4) return tile<R, 4>(a, step, panel, out);
            if (vectors == 3) return tile<R, 3>(a, step, panel, out);
        }
        if (vectors == 2) return tile<R, 2>(a, step, panel, out);
        return tile<R, 1>(a, step, panel, out);
    }

    template <int R, int V>
    void tile(const T* a, i64 step, const T* panel, T* out) const {
        using Vector = typename Lanes<T>::Type;
        Vector sums[R][V] = {};
        for (i64 k = 0; k < inner; ++k, panel += V * lanes<T>) {
            Vector read[V];
            for (int v = 0; v < V; ++v) read[v] = load(panel + v * lanes<T>);
            for (int r = 0; r < R; ++r)
                for (int v = 0; v < V; ++v) sums[r][v] += read[v] * a[r * step + k];
        }
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < V; ++v) store(out + r * lead + v * lanes<T>, sums[r][v]);
    }
};

// ------------------------------------------------------------------------------------------------------------ sequences

// Arguments of a kernel apart from its arrays. Steps are packed: the samples of a step are consecutive rows, which the
// rows of the next step follow.
struct Sequence {
    i64 steps, batch, width, outputs;  // `width` of the state, `outputs` after its projection
    const i64 *sizes, *starts;         // number of samples and first row of each step
    i64 reverse, relu, threads, parts;
};

// Call `work(first row, first sample, samples)` for the steps in order or in reverse, if they have any of the samples
// from `begin` to before `end`.
template <class F>
INLINE void each_step(const Sequence& s, bool back, i64 begin, i64 end, const F& work) {
    for (i64 i = 0; i < s.steps; ++i) {
        const i64 t = back != (s.reverse != 0) ? s.steps - 1 - i : i;
        const i64 count = (s.sizes[t] < end ? s.sizes[t] : end) - begin;
        if (count > 0) work(s.starts[t] + begin, count);
    }
}

// Call `work(begin, end)` for the parts of the batch.
template <class F>
void in_parts(const Sequence& s, const F& work) {
    const auto part = [&](i64 i) { work(s.batch * i / s.parts, s.batch * (i + 1) / s.parts); };
    using Part = decltype(part);
    if (s.parts == 1) return part(0);
    share(s.parts, s.threads, [](const void* w, i64 i) { (*static_cast<const Part*>(w))(i); }, &part);
}

template <class T>
INLINE T logistic(T x) {
    return 1 / (1 + exponential(-x));
}

// Pack the weights of the state that a step receives. Return null if there are none, because a product has been added.
template <class T>
std::unique_ptr<Packed<T>> packed(const Array& weight, bool transposed) {
    if (weight.size() == 0) return nullptr;
    const i64 rows = weight.extents[0], columns = weight.extents[1];
    const T* w = reinterpret_cast<const T*>(weight.data);
    return std::unique_ptr<Packed<T>>(transposed ? new Packed<T>(columns, rows, w, 1, columns)
                                                 : new Packed<T>(rows, columns, w, columns, 1));
}

template <class T>
T* data(const Array& a) {
    return a.size() ? reinterpret_cast<T*>(a.data) : nullptr;
}

// Products of rows with packed weights, or rows of zeros if there are no weights.
template <class T>
class Product {
public:
    Product(const Packed<T>* weights, i64 rows, i64 columns) : weights_(weights) {
        lead = weights ? weights->lead : 0;
        out_ = memory<T>(weights ? rows * lead : columns);
        if (!weights) std::memset(out_.get(), 0, columns * sizeof(T));
    }
    const T* of(i64 rows, const T* a, i64 step) {
        if (weights_) weights_->multiply(rows, a, step, out_.get());
        return out_.get();
    }
    i64 lead;

private:
    const Packed<T>* weights_;
    std::unique_ptr<T[]> out_;
};

// ------------------------------------------------------------------------------------------------ long short-term memory

template <class T>
void lstm(const Sequence& s, const Array& inflows, const Array& weights, const Array& projections, const Array& hs,
          const Array& cs, const Array& results, const Array& all_gates, const Array& all_cells) {
    const i64 width = s.width, outputs = s.outputs;
    const auto across = packed<T>(weights, true), projection = packed<T>(projections, true);
    in_parts(s, [&](i64 begin, i64 end) {
        T *h = data<T>(hs) + begin * outputs, *c = data<T>(cs) + begin * width;
        Product<T> recurrent(across.get(), end - begin, 4 * width), projected(projection.get(), end - begin, 0);
        const auto hidden = memory<T>(projection ? (end - begin) * width : 0);
        each_step(s, false, begin, end, [&](i64 first, i64 count) {
            const T* sums = recurrent.of(count, h, outputs);
            for (i64 r = 0; r < count; ++r) {
                const T *z = data<T>(inflows) + (first + r) * 4 * width, *more = sums + r * recurrent.lead;
                T *cell = c + r * width, *gates = data<T>(all_gates) + (first + r) * 4 * width;
                T *cells = data<T>(all_cells) + (first + r) * width;
                T* to = projection ? hidden.get() + r * width : data<T>(results) + (first + r) * width;
#pragma omp simd
                for (i64 j = 0; j < width; ++j) {
                    const T in = logistic(z[j] + more[j]), forget = logistic(z[width + j] + more[width + j]);
                    const T candidate = tanh(z[2 * width + j] + more[2 * width + j]);
                    const T out = logistic(z[3 * width + j] + more[3 * width + j]);
                    const T next = forget * cell[j] + in * candidate;
                    gates[j] = in, gates[width + j] = forget;
                    gates[2 * width + j] = out, gates[3 * width + j] = candidate;
                    cell[j] = cells[j] = next;
                    to[j] = out * tanh(next);
                }
            }
            T* result = data<T>(results) + first * outputs;
            if (projection) {
                const T* found = projected.of(count, hidden.get(), width);
                for (i64 r = 0; r < count; ++r)
                    std::memcpy(result + r * outputs, found + r * projected.lead, outputs * sizeof(T));
            }
            std::memcpy(h, result, count * outputs * sizeof(T));
        });
    });
}

template <class T>
void lstm_back(const Sequence& s, const Array& upstreams, const Array& weights, const Array& projections,
               const Array& befores, const Array& all_gates, const Array& all_cells, const Array& of_hs,
               const Array& of_cs, const Array& of_inflows, const Array& all_sources) {
    const i64 width = s.width, outputs = s.outputs;
    const auto across = packed<T>(weights, false), projection = packed<T>(projections, false);
    in_parts(s, [&](i64 begin, i64 end) {
        T *of_h = data<T>(of_hs) + begin * outputs, *of_c = data<T>(of_cs) + begin * width;
        Product<T> recurrent(across.get(), end - begin, outputs), projected(projection.get(), end - begin, 0);
        each_step(s, true, begin, end, [&](i64 first, i64 count) {
            if (const T* upstream = data<T>(upstreams)) {
                upstream += first * outputs;
#pragma omp simd
                for (i64 i = 0; i < count * outputs; ++i) of_h[i] += upstream[i];
            }
            const T* grads = of_h;
            i64 lead = outputs;
            if (projection) {
                std::memcpy(data<T>(all_sources) + first * outputs, of_h, count * outputs * sizeof(T));
                grads = projected.of(count, of_h, outputs), lead = projected.lead;
            }
            T* inner = data<T>(of_inflows) + first * 4 * width;
            for (i64 r = 0; r < count; ++r) {
                const T *grad = grads + r * lead, *gates = data<T>(all_gates) + (first + r) * 4 * width;
                const T *cells = data<T>(all_cells) + (first + r) * width;
                const T* before = data<T>(befores) + (first + r) * width;
                T *of_cell = of_c + r * width, *to = inner + r * 4 * width;
#pragma omp simd
                for (i64 j = 0; j < width; ++j) {
                    const T in = gates[j], forget = gates[width + j], out = gates[2 * width + j];
                    const T candidate = gates[3 * width + j], bent = tanh(cells[j]), of_h_j = grad[j];
                    const T along = of_cell[j] + of_h_j * (out * (1 - bent * bent));
                    to[j] = along * (candidate * in * (1 - in));
                    to[width + j] = along * (before[j] * forget * (1 - forget));
                    to[2 * width + j] = along * (in * (1 - candidate * candidate));
                    to[3 * width + j] = of_h_j * (bent * out * (1 - out));
                    of_cell[j] = along * forget;
                }
            }
            const T* found = recurrent.of(count, inner, 4 * width);
            for (i64 r = 0; r < count; ++r)
                std::memcpy(of_h + r * outputs, found + r * recurrent.lead, outputs * sizeof(T));
        });
    });
}

// ------------------------------------------------------------------------------------------------ gated recurrent units

template <class T>
void gru(const Sequence& s, const Array& inflows, const Array& weights, const Array& biases, const Array& hs,
         const Array& results, const Array& all_gates) {
    const i64 width = s.width;
    const auto across = packed<T>(weights, true);
    in_parts(s, [&](i64 begin, i64 end) {
        T* h = data<T>(hs) + begin * width;
        const T* bias = data<T>(biases);
        Product<T> recurrent(across.get(), end - begin, 3 * width);
        each_step(s, false, begin, end, [&](i64 first, i64 count) {
            const T* sums = recurrent.of(count, h, width);
            for (i64 r = 0; r < count; ++r) {
                const T *z = data<T>(inflows) + (first + r) * 3 * width, *more = sums + r * recurrent.lead;
                T *state = h + r * width, *gates = data<T>(all_gates) + (first + r) * 4 * width;
                T* result = data<T>(results) + (first + r) * width;
#pragma omp simd
                for (i64 j = 0; j < width; ++j) {
                    const T reset = logistic(z[j] + (more[j] + bias[j]));
                    const T keep = logistic(z[width + j] + (more[width + j] + bias[width + j]));
                    const T recall = more[2 * width + j] + bias[2 * width + j];
                    const T candidate = tanh(z[2 * width + j] + reset * recall);
                    gates[j] = reset, gates[width + j] = keep;
                    gates[2 * width + j] = candidate, gates[3 * width + j] = recall;
                    state[j] = result[j] = candidate + keep * (state[j] - candidate);
                }
            }
        });
    });
}

template <class T>
void gru_back(const Sequence& s, const Array& upstreams, const Array& weights, const Array& befores,
              const Array& all_gates, const Array& of_hs, const Array& of_alls) {
    const i64 width = s.width;
    const auto across = packed<T>(weights, false);
    in_parts(s, [&](i64 begin, i64 end) {
        T* of_h = data<T>(of_hs) + begin * width;
        Product<T> recurrent(across.get(), end - begin, width);
        each_step(s, true, begin, end, [&](i64 first, i64 count) {
            if (const T* upstream = data<T>(upstreams)) {
                upstream += first * width;
#pragma omp simd
                for (i64 i = 0; i < count * width; ++i) of_h[i] += upstream[i];
            }
            T* inner = data<T>(of_alls) + first * 4 * width;
            for (i64 r = 0; r < count; ++r) {
                const T* gates = data<T>(all_gates) + (first + r) * 4 * width;
                const T* before = data<T>(befores) + (first + r) * width;
                T *grad = of_h + r * width, *to = inner + r * 4 * width;
#pragma omp simd
                for (i64 j = 0; j < width; ++j) {
                    const T reset = gates[j], keep = gates[width + j], candidate = gates[2 * width + j];
                    const T recall = gates[3 * width + j];
                    const T of_new = grad[j] * ((1 - keep) * (1 - candidate * candidate));
                    to[j] = of_new;
                    to[width + j] = of_new * (recall * reset * (1 - reset));
                    to[2 * width + j] = grad[j] * ((before[j] - candidate) * keep * (1 - keep));
                    to[3 * width + j] = of_new * reset;
                    grad[j] *= keep;
                }
            }
            const T* found = recurrent.of(count, inner + width, 4 * width);
            for (i64 r = 0; r < count; ++r) {
                const T* more = found + r * recurrent.lead;
                T* grad = of_h + r * width;
#pragma omp simd
                for (i64 j = 0; j < width; ++j) grad[j] += more[j];
            }
        });
    });
}

// ------------------------------------------------------------------------------------------------ plain recurrent networks

// At the beginning, `results` contains the inflow.
template <class T>
void rnn(const Sequence& s, const Array& weights, const Array& hs, const Array& results) {
    const i64 width = s.width;
    const auto across = packed<T>(weights, true);
    in_parts(s, [&](i64 begin, i64 end) {
        T* h = data<T>(hs) + begin * width;
        Product<T> recurrent(across.get(), end - begin, width);
        each_step(s, false, begin, end, [&](i64 first, i64 count) {
            const T* sums = recurrent.of(count, h, width);
            for (i64 r = 0; r < count; ++r) {
                const T* more = sums + r * recurrent.lead;
                T *state = h + r * width, *result = data<T>(results) + (first + r) * width;
                if (s.relu) {
#pragma omp simd
                    for (i64 j = 0; j < width; ++j) state[j] = result[j] = maximum(result[j] + more[j], T(0));
                } else {
#pragma omp simd
                    for (i64 j = 0; j < width; ++j) state[j] = result[j] = tanh(result[j] + more[j]);
                }
            }
        });
    });
}

template <class T>
void rnn_back(const Sequence& s, const Array& upstreams, const Array& weights, const Array& results,
              const Array& of_hs, const Array& of_inflows) {
    const i64 width = s.width;
    const auto across = packed<T>(weights, false);
    in_parts(s, [&](i64 begin, i64 end) {
        T* of_h = data<T>(of_hs) + begin * width;
        Product<T> recurrent(across.get(), end - begin, width);
        each_step(s, true, begin, end, [&](i64 first, i64 count) {
            if (const T* upstream = data<T>(upstreams)) {
                upstream += first * width;
#pragma omp simd
                for (i64 i = 0; i < count * width; ++i) of_h[i] += upstream[i];
            }
            const T* result = data<T>(results) + first * width;
            T* inner = data<T>(of_inflows) + first * width;
            if (s.relu) {
#pragma omp simd
                for (i64 i = 0; i < count * width; ++i) inner[i] = of_h[i] * chosen(result[i] <= 0, T(0), T(1));
            } else {
#pragma omp simd
                for (i64 i = 0; i < count * width; ++i) inner[i] = of_h[i] * (1 - result[i] * result[i]);
            }
            const T* found = recurrent.of(count, inner, width);
            for (i64 r = 0; r < count; ++r)
                std::memcpy(of_h + r * width, found + r * recurrent.lead, width * sizeof(T));
        });
    });
}

// ------------------------------------------------------------------------------------------------------------ calls

// The function that Python calls for a kernel. `steps` contains the number of samples of each step, then the first row of
// each. An empty array stands for a missing one.
template <auto kernel>
struct SequenceEntry;

template <class... A, void (*kernel)(const Sequence&, const A&...)>
struct SequenceEntry<kernel> {
    static void run(const Array& steps, i64 batch, i64 width, i64 outputs, i64 reverse, i64 relu, i64 threads, i64 parts,
                    const A&... arrays) {
        const i64 count = steps.extents[1], *sizes = reinterpret_cast<const i64*>(steps.data);
        const Sequence sequence{count, batch, width, outputs, sizes, sizes + count, reverse, relu, threads, parts};
        kernel(sequence, arrays...);
    }
};

}  // namespace
}  // namespace gradcore

#define SEQUENCE_KERNEL(name)                                                                \
    BUILTIN(gradcore_##name##_f, &gradcore::SequenceEntry<&gradcore::name<float>>::run)      \
    BUILTIN(gradcore_##name##_d, &gradcore::SequenceEntry<&gradcore::name<double>>::run)

SEQUENCE_KERNEL(lstm)
SEQUENCE_KERNEL(lstm_back)
SEQUENCE_KERNEL(gru)
SEQUENCE_KERNEL(gru_back)
SEQUENCE_KERNEL(rnn)
SEQUENCE_KERNEL(rnn_back)
