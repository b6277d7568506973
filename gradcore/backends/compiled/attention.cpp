// Attention, some queries of a head at a time, so that their scores stay in the cache. Threads share the heads. BLAS
// multiplies the matrices. It reads a transposed copy of keys and values: for products as small as those of a head, it
// takes up to half of the time of a product with a transposed operand.

#include <algorithm>
#include <memory>

#include "blas.h"
#include "lanes.h"
#include "rows.h"

namespace gradcore {

namespace {

// The number of scores that are computed at a time, and the number of queries if later keys are hidden from them.
constexpr i64 scores_of_block = 1 << 14, queries_of_causal_block = 64;

// The operands of all heads: arrays whose rows have adjacent elements, and of which the last two dims are matrices.
template <class T>
struct Heads {
    const void* gemm;
    bool long_integers, causal;
    T scale;
    const Array &query, &key, &value, *mask;
    i64 heads, queries, keys, width, value_width, block;

    Heads(const void* function, bool has_long_integers, bool is_causal, double factor, const Array& q, const Array& k,
          const Array& v, const Array* m)
        : gemm(function), long_integers(has_long_integers),
          causal(is_causal), scale(static_cast<T>(factor)), query(q), key(k), value(v), mask(m) {
        queries = q.extents[q.dims - 2], width = q.extents[q.dims - 1];
        keys = k.extents[k.dims - 2], value_width = v.extents[v.dims - 1];
        heads = q.size() / (queries * width);
        block = std::max<i64>(scores_of_block / keys / 16 * 16, 16);
        block = std::min({block, queries, causal ? queries_of_causal_block : queries});
    }

    // Return the number of keys that the queries before number `stop` may see.
    i64 seen(i64 stop) const { return causal ? std::min(stop, keys) : keys; }

    // The padded length of the rows of transposed keys or values.
    i64 padded() const { return (keys + Lanes<T>::count - 1) / Lanes<T>::count * Lanes<T>::count; }
};

// A matrix of a head: its rows are `lead` elements apart.
template <class T>
struct Rows {
    T* data;
    i64 lead;

    Rows(T* first, i64 distance) : data(first), lead(distance) {}
    Rows(const Array& a, i64 head) : data(reinterpret_cast<T*>(matrix_of(a, head))) {
        const i64 rows = a.extents[a.dims - 2], columns = a.extents[a.dims - 1];
        lead = rows > 1 ? a.strides[a.dims - 2] / static_cast<i64>(sizeof(T)) : columns;
    }
    Rows from(i64 row) const { return {data + row * lead, lead}; }
};

// out = factor * a @ b + kept * out, for the transpose of `a` if `turned`.
template <class T>
void multiply(const Heads<T>& of, bool turned, i64 rows, i64 columns, i64 inner, T factor, Rows<T> a, Rows<T> b, T kept,
              Rows<T> out) {
    const int order = turned ? transposed : as_it_is;
    const auto call = [&](auto integer) {
        using I = decltype(integer);
        const auto gemm = reinterpret_cast<Gemm<T, I>>(const_cast<void*>(of.gemm));
        gemm(row_major, order, as_it_is, I(rows), I(columns), I(inner), factor, a.data, I(a.lead), b.data, I(b.lead), kept,
             out.data, I(out.lead));
    };
    of.long_integers ? call(i64(0)) : call(i32(0));
}

// Return the matrix of a head, transposed, in memory that it writes to.
template <class T>
Rows<T> turned_copy(const Heads<T>& of, const Array& a, i64 head, T* memory) {
    const Rows<T> rows(a, head);
    transpose(rows.data, of.keys, a.extents[a.dims - 1], rows.lead, memory, of.padded());
    return {memory, of.padded()};
}

// Write the scores of `count` queries and of the keys that they see: query @ key.T * scale + mask.
template <class T>
void write_scores(const Heads<T>& of, i64 head, i64 first, i64 count, Rows<T> turned_keys, T* scores) {
    const i64 seen = of.seen(first + count);
    multiply<T>(of, false, count, seen, of.width, of.scale, Rows<T>(of.query, head).from(first), turned_keys, 0,
                {scores, of.keys});
    if (!of.mask) return;
    const Array& mask = *of.mask;
    const i64 step = mask.strides[mask.dims - 1] / static_cast<i64>(sizeof(T));
    const char* place = matrix_of(mask, head) + first * mask.strides[mask.dims - 2];
    for (i64 i = 0; i < count; ++i, place += mask.strides[mask.dims - 2]) {
        const T* terms = reinterpret_cast<const T*>(place);
        T* row = scores + i * of.keys;
        if (step == 1) {
#pragma omp simd
            for (i64 j = 0; j < seen; ++j) row[j] += terms[j];
        } else {
            for (i64 j = 0; j < seen; ++j) row[j] += terms[j * step];
        }
    }
}

// Write attention's result, and either its weights or (unless it `keeps` them) the logarithms of the sums of the rows'
// exponentials, which are 0 for rows of minus infinity.
template <class T>
void attend(const Heads<T>& of, i64 threads, bool keeps, const Array& out, const Array& saved) {
    const i64 blocks = (of.queries + of.block - 1) / of.block;
    // Few heads are divided, and their keys transposed for each part.
    const i64 cuts = of.heads >= 2 * threads ? 1 : std::min(blocks, 2 * threads);
    const auto part = [&](i64 number) {
        const i64 head = number / cuts, cut = number % cuts;
        const i64 of_keys = of.width * of.padded();
        const std::unique_ptr<T[]> memory(new T[of_keys + (keeps ? 0 : of.block * of.keys)]);
        const Rows<T> keys = turned_copy(of, of.key, head, memory.get());
        T* const results = reinterpret_cast<T*>(saved.data) + head * of.queries * (keeps ? of.keys : 1);
        for (i64 b = blocks * cut / cuts; b < blocks * (cut + 1) / cuts; ++b) {
            const i64 first = b * of.block, count = std::min(of.block, of.queries - first);
            T* const weights = keeps ? results + first * of.keys : memory.get() + of_keys;
            write_scores(of, head, first, count, keys, weights);
            const i64 most = of.seen(first + count);
            for (i64 i = 0; i < count; ++i) {
                T* const row = weights + i * of.keys;
                const i64 seen = of.seen(first + i + 1);
                const RowSum<T> sum = softmax_or_zero_row(seen, row, row);
                if (!keeps) results[first + i] = sum.top == -infinity<T>() ? T(0) : sum.top + T(std::log(sum.total));
                std::fill(row + seen, row + (keeps ? of.keys : most), T(0));
            }
            multiply<T>(of, false, count, of.value_width, most, 1, {weights, of.keys}, Rows<T>(of.value, head), 0,
                        Rows<T>(out, head).from(first));
        }
    };
    using Part = decltype(part);
    share(of.heads * cuts, threads, [](const void* w, i64 i) { (*static_cast<const Part*>(w))(i); }, &part);
}

// Write the gradients of queries, keys and values to those of the arrays that are not null. `saved` is what `attend`
// has saved.
template <class T>
void attend_backward(const Heads<T>& of, i64 threads, bool keeps, const Array& grad, const Array& saved,
                     const Array* of_query, const Array* of_key, const Array* of_value) {
    const auto part = [&](i64 head) {
        const i64 block = of.block * of.keys, of_keys = keeps ? 0 : of.width * of.padded();
        const std::unique_ptr<T[]> memory(new T[block + (keeps ? 0 : block) + of_keys + of.value_width * of.padded()]);
        T* const scores = memory.get();  // and their gradient
        T* const again = scores + block;
        T* const copies = keeps ? again : again + block;
        const Rows<T> values = turned_copy(of, of.value, head, copies + of_keys);
        Rows<T> keys = values;
        if (!keeps) keys = turned_copy(of, of.key, head, copies);
        const T* const results = reinterpret_cast<const T*>(saved.data) + head * of.queries * (keeps ? of.keys : 1);
        if (of.causal) {
            for (const Array* target : {of_key, of_value}) {
                if (!target) continue;
                const i64 columns = target->extents[target->dims - 1];
                for (i64 j = 0; j < of.keys; ++j) std::fill_n(Rows<T>(*target, head).from(j).data, columns, T(0));
            }
        }
        for (i64 first = 0; first < of.queries; first += of.block) {
            const i64 count = std::min(of.block, of.queries - first), most = of.seen(first + count);
            const T kept = of.causal || first > 0;
            const Rows<T> upstream = Rows<T>(grad, head).from(first);
            if (!keeps) write_scores(of, head, first, count, keys, again);
            const T* const weights = keeps ? results + first * of.keys : again;
            const Rows<T> rows_of_weights(const_cast<T*>(weights), of.keys), rows(scores, of.keys);
            if (!keeps) {
                for (i64 i = 0; i < count; ++i) {
                    T* const row = again + i * of.keys;
                    const i64 seen = of.seen(first + i + 1);
                    exponentials(row, seen, results[first + i], row);
                    std::fill(row + seen, row + most, T(0));
                }
            }
            if (of_value) {
                multiply<T>(of, true, most, of.value_width, count, 1, rows_of_weights, upstream, kept, {*of_value, head});
            }
            if (!of_query && !of_key) continue;
            multiply<T>(of, false, count, most, of.value_width, 1, upstream, values, 0, rows);
            for (i64 i = 0; i < count; ++i) {
                T* const row = scores + i * of.keys;
                const i64 seen = of.seen(first + i + 1);
                softmax_backward_row<T>(seen, row, weights + i * of.keys, row);
                std::fill(row + seen, row + most, T(0));
            }
            if (of_query) {
                multiply<T>(of, false, count, of.width, most, of.scale, rows, Rows<T>(of.key, head), 0,
                            Rows<T>(*of_query, head).from(first));
            }
            if (of_key) {
                multiply<T>(of, true, most, of.width, count, of.scale, rows, Rows<T>(of.query, head).from(first), kept,
                            {*of_key, head});
            }
        }
    };
    using Part = decltype(part);
    share(of.heads, threads, [](const void* w, i64 i) { (*static_cast<const Part*>(w))(i); }, &part);
}

}  // namespace

// For arrays with equal batch dims, whose rows have adjacent elements: attention, with a mask that has the shape of the
// scores and any strides if `has_mask`. `saved` is contiguous.
template <class T>
void attention(const void* gemm, i64 long_integers, i64 threads, i64 causal, double scale, i64 has_mask, i64 keeps,
               const Array& query, const Array& key, const Array& value, const Array& mask, const Array& out,
               const Array& saved) {
    const Heads<T> of(gemm, long_integers, causal, scale, query, key, value, has_mask ? &mask : nullptr);
    attend(of, threads, keeps, out, saved);
}

// The gradients of `attention`. The bits of `needs` say which of the last three arrays are written.
template <class T>
void attention_backward(const void* gemm, i64 long_integers, i64 threads, i64 causal, double scale, i64 has_mask,
                        i64 keeps, i64 needs, const Array& grad, const Array& query, const Array& key,
                        const Array& value, const Array& mask, const Array& saved, const Array& of_query,
                        const Array& of_key, const Array& of_value) {
    const Heads<T> of(gemm, long_integers, causal, scale, query, key, value, has_mask ? &mask : nullptr);
    attend_backward(of, threads, keeps, grad, saved, needs & 1 ? &of_query : nullptr, needs & 2 ? &of_key : nullptr,
                    needs & 4 ? &of_value : nullptr);
}

}  // namespace gradcore

BUILTIN(attention_f, &gradcore::attention<float>)
BUILTIN(attention_d, &gradcore::attention<double>)
BUILTIN(attention_backward_f, &gradcore::attention_backward<float>)
BUILTIN(attention_backward_d, &gradcore::attention_backward<double>)
