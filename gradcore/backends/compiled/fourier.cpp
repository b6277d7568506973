// Fourier transforms of lines whose sizes have no prime factors but 2, 3 and 5. Each lane of a register belongs to a line
// of its own, so the steps of a transform (Stockham's, which end in the right order) need no exchange of lanes. Lines that
// lie one behind the other are transposed in registers.
//
// A real line is transformed as a complex line of half its size, whose real and imaginary parts are the numbers at even
// and odd positions.

#include <algorithm>
#include <cstring>
#include <memory>

#include "calls.h"
#include "lanes.h"

namespace gradcore {

// Number of lines of a part of the work; a multiple of the lanes of all registers. `compiled/fourier.py` has it, too.
constexpr i64 lines_of_part = 16;

// Complex numbers of as many lines as a register has lanes.
template <class T>
struct Complex {
    typename Lanes<T>::Type re, im;
};

template <class T>
INLINE Complex<T> operator+(const Complex<T>& a, const Complex<T>& b) {
    return {a.re + b.re, a.im + b.im};
}

template <class T>
INLINE Complex<T> operator-(const Complex<T>& a, const Complex<T>& b) {
    return {a.re - b.re, a.im - b.im};
}

// Multiply by a real number.
template <class T>
INLINE Complex<T> scale(const Complex<T>& a, T factor) {
    return {a.re * factor, a.im * factor};
}

// Multiply by the complex number at `factor`, or by its conjugate.
template <class T>
INLINE Complex<T> rotate(const Complex<T>& a, const T* factor) {
    return {a.re * factor[0] - a.im * factor[1], a.re * factor[1] + a.im * factor[0]};
}

template <class T>
INLINE Complex<T> rotate_back(const Complex<T>& a, const T* factor) {
    return {a.re * factor[0] + a.im * factor[1], a.im * factor[0] - a.re * factor[1]};
}

// Multiply by -i.
template <class T>
INLINE Complex<T> turn(const Complex<T>& a) {
    return {a.im, -a.re};
}

template <class T>
INLINE Complex<T> conjugate(const Complex<T>& a) {
    return {a.re, -a.im};
}

// Transform R numbers.
template <int R, class T>
INLINE void transform_few(Complex<T>* x) {
    if constexpr (R == 2) {
        const Complex<T> a = x[0];
        x[0] = a + x[1];
        x[1] = a - x[1];
    } else if constexpr (R == 3) {
        const T sine = T(0.86602540378443864676);
        const Complex<T> sum = x[1] + x[2], across = turn(scale(x[1] - x[2], sine)), middle = x[0] - scale(sum, T(0.5));
        x[0] = x[0] + sum;
        x[1] = middle + across;
        x[2] = middle - across;
    } else if constexpr (R == 4) {
        const Complex<T> a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = turn(x[1] - x[3]);
        x[0] = a + c;
        x[1] = b + d;
        x[2] = a - c;
        x[3] = b - d;
    } else if constexpr (R == 8) {
        const T root[] = {T(0.70710678118654752440), T(-0.70710678118654752440)};
        Complex<T> even[] = {x[0], x[2], x[4], x[6]}, odd[] = {x[1], x[3], x[5], x[7]};
        transform_few<4>(even);
        transform_few<4>(odd);
        odd[1] = rotate(odd[1], root);
        odd[2] = turn(odd[2]);
        odd[3] = turn(rotate(odd[3], root));
        for (int k = 0; k < 4; ++k) {
            x[k] = even[k] + odd[k];
            x[k + 4] = even[k] - odd[k];
        }
    } else {
        const T c1 = T(0.30901699437494742410), s1 = T(0.95105651629515357212), c2 = T(-0.80901699437494742410),
                s2 = T(0.58778525229247312917);
        const Complex<T> a = x[1] + x[4], b = x[2] + x[3], d = turn(x[1] - x[4]), e = turn(x[2] - x[3]);
        const Complex<T> first = x[0] + scale(a, c1) + scale(b, c2), across = scale(d, s1) + scale(e, s2);
        const Complex<T> second = x[0] + scale(a, c2) + scale(b, c1), far = scale(d, s2) - scale(e, s1);
        x[0] = x[0] + a + b;
        x[1] = first + across;
        x[2] = second + far;
        x[3] = second - far;
        x[4] = first - across;
    }
}

// Do one step of a transform, from `x` to `y`: `stride` transforms of R * m numbers become R times as many of m numbers.
template <int R, class T>
void run_step(i64 m, i64 stride, const T* roots, i64 root_step, const Complex<T>* x, Complex<T>* y) {
    for (i64 p = 0; p < m; ++p, x += stride, y += R * stride) {
        for (i64 q = 0; q < stride; ++q) {
            Complex<T> some[R];
            for (int r = 0; r < R; ++r) some[r] = x[q + r * m * stride];
            transform_few<R>(some);
            y[q] = some[0];
            for (int r = 1; r < R; ++r)
                y[q + r * stride] = m == 1 ? some[r] : rotate(some[r], roots + 2 * r * p * stride * root_step);
        }
    }
}

// Transform `n` numbers at `x`. Both memories are overwritten; return the one with the result. The roots of unity are
// exp(-2 pi i k / n), at every `root_step`-th place.
template <class T>
Complex<T>* transform(i64 n, const T* roots, i64 root_step, Complex<T>* x, Complex<T>* y) {
    for (i64 stride = 1; n > 1; std::swap(x, y)) {
        const i64 radix = n % 8 == 0 ? 8 : n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 5;
        const auto step = radix == 8 ? run_step<8, T> : radix == 4 ? run_step<4, T> : radix == 2 ? run_step<2, T>
                        : radix == 3 ? run_step<3, T> : run_step<5, T>;
        n /= radix;
        step(n, stride, roots, root_step, x, y);
        stride *= radix;
    }
    return x;
}

// -------------------------------------------------------------------------------------------------- reading and writing

template <class T, int lanes = Lanes<T>::count>
INLINE void transpose_block(typename Lanes<T>::Type* block) {
#if defined(TRANSPOSES_REGISTERS)
    transpose_registers<T, 1>(block);
#else
    for (int i = 0; i < lanes; ++i) {
        for (int j = 0; j < i; ++j) {
            const T kept = block[i][j];
            block[i][j] = block[j][i];
            block[j][i] = kept;
        }
    }
#endif
}

// The functions below read and write `n` complex numbers of each of `count` lines, and exchange real and imaginary parts if
// `exchanged`. An inverse transform is a transform between two such exchanges.

// Lines begin `length` numbers apart.
template <class T>
void read_lines(const T* from, i64 length, i64 count, i64 n, bool exchanged, Complex<T>* x) {
    constexpr int lanes = Lanes<T>::count;
    for (i64 k = 0; k < n; k += lanes / 2, from += lanes) {
        const i64 width = std::min<i64>(2 * (n - k), lanes);
        typename Lanes<T>::Type block[lanes];
        if (width == lanes && count == lanes) {
            for (int i = 0; i < lanes; ++i) block[i] = load(from + i * length);
        } else {
            std::memset(block, 0, sizeof block);
            for (i64 i = 0; i < count; ++i) std::memcpy(&block[i], from + i * length, width * sizeof(T));
        }
        transpose_block<T>(block);
        for (int j = 0; j < lanes / 2; ++j)
            if (2 * j < width) x[k + j] = {block[2 * j + exchanged], block[2 * j + !exchanged]};
    }
}

template <class T>
void write_lines(const Complex<T>* x, i64 n, bool exchanged, T factor, T* to, i64 length, i64 count) {
    constexpr int lanes = Lanes<T>::count;
    for (i64 k = 0; k < n; k += lanes / 2, to += lanes) {
        const i64 width = std::min<i64>(2 * (n - k), lanes);
        typename Lanes<T>::Type block[lanes];
        for (int j = 0; j < lanes / 2; ++j) {
            const Complex<T> number = scale(x[2 * j < width ? k + j : k], factor);
            block[2 * j] = exchanged ? number.im : number.re;
            block[2 * j + 1] = exchanged ? number.re : number.im;
        }
        transpose_block<T>(block);
        if (width == lanes && count == lanes) {
            for (int i = 0; i < lanes; ++i) store(to + i * length, block[i]);
        } else {
            for (i64 i = 0; i < count; ++i) std::memcpy(to + i * length, &block[i], width * sizeof(T));
        }
    }
}

// Lines lie side by side; the next numbers of all are `length` numbers further.
template <class T>
void read_columns(const T* from, i64 length, i64 count, i64 n, bool exchanged, Complex<T>* x) {
    constexpr int lanes = Lanes<T>::count;
    for (i64 k = 0; k < n; ++k, from += length) {
        Complex<T> number = {};
        if (count == lanes) {
            for (int i = 0; i < lanes; ++i) {
                number.re[i] = from[2 * i];
                number.im[i] = from[2 * i + 1];
            }
        }
        x[k] = exchanged ? Complex<T>{number.im, number.re} : number;
        for (i64 i = 0; i < count % lanes; ++i) {
            x[k].re[i] = from[2 * i + exchanged];
            x[k].im[i] = from[2 * i + !exchanged];
        }
    }
}

template <class T>
void write_columns(const Complex<T>* x, i64 n, bool exchanged, T factor, T* to, i64 length, i64 count) {
    constexpr int lanes = Lanes<T>::count;
    for (i64 k = 0; k < n; ++k, to += length) {
        if (count == lanes) {
            const Complex<T> product = scale(x[k], factor), number = exchanged ? Complex<T>{product.im, product.re} : product;
            for (int i = 0; i < lanes; ++i) {
                to[2 * i] = number.re[i];
                to[2 * i + 1] = number.im[i];
            }
        }
        for (i64 i = 0; i < count % lanes; ++i) {
            to[2 * i + exchanged] = x[k].re[i] * factor;
            to[2 * i + !exchanged] = x[k].im[i] * factor;
        }
    }
}

// Call `work(first, count)` for the lines of parts of the work, as many at a time as a register has lanes.
template <class T, class F>
INLINE void for_lines(i64 start, i64 stop, i64 lines, const F& work) {
    for (i64 first = start * lines_of_part; first < std::min(stop * lines_of_part, lines); first += Lanes<T>::count)
        work(first, std::min<i64>(Lanes<T>::count, lines - first));
}

// -------------------------------------------------------------------------------------------------------------- kernels

// Transform arrays (outer, width, inner) of complex numbers along their middle dim, backward if `cycle` is 1, and multiply
// by `number`. A part consists of lines that lie side by side, or of any lines if `inner` is 1; `height` is their number.
template <class T>
void complex_transforms(const Work& work, i64 start, i64 stop, const T* from, T* to, const T* roots) {
    const i64 n = work.width, inner = work.inner, parts = (inner + lines_of_part - 1) / lines_of_part;
    const bool backward = work.cycle;
    const T factor = static_cast<T>(work.number);
    const std::unique_ptr<Complex<T>[]> memory(new Complex<T>[2 * n]);
    Complex<T>* const x = memory.get();
    if (inner == 1) {
        for_lines<T>(start, stop, work.height, [&](i64 first, i64 count) {
            read_lines(from + first * 2 * n, 2 * n, count, n, backward, x);
            write_lines(transform<T>(n, roots, 1, x, x + n), n, backward, factor, to + first * 2 * n, 2 * n, count);
        });
        return;
    }
    for (i64 part = start; part < stop; ++part) {
        for_lines<T>(part % parts, part % parts + 1, inner, [&](i64 first, i64 count) {
            const i64 offset = 2 * (part / parts * n * inner + first);
            read_columns(from + offset, 2 * inner, count, n, backward, x);
            write_columns(transform<T>(n, roots, 1, x, x + n), n, backward, factor, to + offset, 2 * inner, count);
        });
    }
}

// Compute half of the spectra of `height` real lines of even size `width`, multiplied by `number`, and by `cycle` where an
// element stands for its mirror image, too.
template <class T>
void half_spectra(const Work& work, i64 start, i64 stop, const T* from, T* to, const T* roots) {
    const i64 n = work.width, half = n / 2, size = half + 1;
    const T factor = static_cast<T>(work.number), inner_factor = factor * static_cast<T>(work.cycle) / 2;
    const std::unique_ptr<Complex<T>[]> memory(new Complex<T>[2 * size]);
    Complex<T>* const x = memory.get();
    for_lines<T>(start, stop, work.height, [&](i64 first, i64 count) {
        read_lines(from + first * n, n, count, half, false, x);
        Complex<T>* const z = transform<T>(half, roots, 2, x, x + size);
        const Complex<T> edge = z[0];
        // Both are real. Their imaginary parts are +0, as a sign would change the angle of a negative number.
        const typename Lanes<T>::Type zero = {};
        z[0] = {(edge.re + edge.im) * factor, zero};
        z[half] = {(edge.re - edge.im) * factor, zero};
        for (i64 k = 1; k <= half - k; ++k) {
            const Complex<T> a = z[k], b = conjugate(z[half - k]);
            const Complex<T> even = scale(a + b, inner_factor), odd = rotate(scale(turn(a - b), inner_factor), roots + 2 * k);
            z[k] = even + odd;
            z[half - k] = conjugate(even - odd);
        }
        write_lines(z, size, false, T(1), to + first * 2 * size, 2 * size, count);
    });
}

// Compute `height` real lines of even size `width` from halves of their spectra, multiplied by `number`; elements that stand
// for their mirror image, too, are divided by `cycle` before.
template <class T>
void real_lines(const Work& work, i64 start, i64 stop, const T* from, T* to, const T* roots) {
    const i64 n = work.width, half = n / 2, size = half + 1;
    const T factor = static_cast<T>(work.number), inner_factor = factor / static_cast<T>(work.cycle);
    const std::unique_ptr<Complex<T>[]> memory(new Complex<T>[2 * size]);
    Complex<T>* const x = memory.get();
    for_lines<T>(start, stop, work.height, [&](i64 first, i64 count) {
        read_lines(from + first * 2 * size, 2 * size, count, size, false, x);
        const auto sum = (x[0].re + x[half].re) * factor, difference = (x[0].re - x[half].re) * factor;
        x[0] = {difference, sum};  // exchanged, as for every inverse transform
        for (i64 k = 1; k <= half - k; ++k) {
            const Complex<T> a = x[k], b = conjugate(x[half - k]);
            const Complex<T> even = scale(a + b, inner_factor), odd = turn(rotate_back(scale(a - b, inner_factor), roots + 2 * k));
            const Complex<T> y = even - odd, mirrored = conjugate(even + odd);
            x[k] = {y.im, y.re};
            x[half - k] = {mirrored.im, mirrored.re};
        }
        write_lines(transform<T>(half, roots, 2, x, x + size), half, true, T(1), to + first * n, n, count);
    });
}

}  // namespace gradcore

FLOAT_KERNEL(complex_transforms)
FLOAT_KERNEL(half_spectra)
FLOAT_KERNEL(real_lines)
