#!/usr/bin/env python3
"""Derives the polynomials of src/kir/vmath_tables.h: weighted minimax fits in 60-digit arithmetic.

Each fit states a function, the powers of the polynomial, an interval and what the error is measured against. Coefficients are
rounded to the target precision one after another, from the most important (lowest power) on; after each rounding the others are
fitted again, so that they take up its error. Run it to print the header; the number behind each table is the error left, in bits.
Source of the method: C. L. Lawson, reweighted least squares (1961); the range reductions they serve are Cody and Waite's, see src/kir/vmath.c.
Needs mpmath. Usage: tools/vmath_coeffs.py > src/kir/vmath_tables.h
"""
import struct
import sys

from mpmath import mp, mpf

mp.dps = 60


def round_to(v, kind):
    """v as the nearest float32 or float64, as an mpf."""
    if kind == "f64":
        return mpf(float(v))
    m, e = mp.frexp(v)
    return mp.ldexp(mp.nint(mp.ldexp(m, 24)), e - 24) if v else mpf(0)


def nodes(lo, hi, n):
    return [(lo + hi) / 2 + (hi - lo) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)][::-1]


def least_squares(powers, rows, lawson):
    """Weighted least squares: rows of (powers of x, target, weight); lawson: extra weight of each row."""
    n = len(powers)
    m = mp.matrix(n, n)
    v = mp.matrix(n, 1)
    for (x, f, w), extra in zip(rows, lawson):
        w2 = w * w * extra
        for i in range(n):
            v[i] += w2 * x[i] * f
            for j in range(i, n):
                m[i, j] += w2 * x[i] * x[j]
    for i in range(n):
        for j in range(i):
            m[i, j] = m[j, i]
    return list(mp.lu_solve(m, v))


def errors(c, rows):
    return [abs(sum(a * b for a, b in zip(c, x)) - f) * w for x, f, w in rows]


def fit(target, weight, powers, lo, hi, kind):
    xs = [x for x in nodes(mpf(lo), mpf(hi), 6 * (len(powers) + 1)) if abs(x) > mpf(10) ** -12]
    rows = [([x**p for p in powers], target(x), weight(x)) for x in xs]
    lawson = [mpf(1)] * len(rows)
    best = None
    for _ in range(25):
        c = least_squares(powers, rows, lawson)
        e = errors(c, rows)
        if best is None or max(e) < best[0]:
            best = (max(e), list(lawson))
        total = sum(l * k for l, k in zip(lawson, e))
        lawson = [max(l * k / total, mpf(10) ** -9) for l, k in zip(lawson, e)]
    lawson, done = best[1], []
    for k in range(len(powers)):  # round c_k, fit the rest to what remains
        sub = [(x[k:], f - sum(a * b for a, b in zip(done, x)), w) for x, f, w in rows]
        done.append(round_to(least_squares(powers[k:], sub, lawson)[0], kind))
    check = [x for x in nodes(mpf(lo), mpf(hi), 301) if abs(x) > mpf(10) ** -12]
    return done, max(errors(done, [([x**p for p in powers], target(x), weight(x)) for x in check]))


def table(name, what, kind, target, weight, powers, lo, hi):
    c, worst = fit(target, weight, list(powers), lo, hi, kind)
    bits = -mp.log(worst, 2) if worst else mpf(99)
    print(f"/* {what}; error 2^-{mp.nstr(bits, 4)} */")
    print(f"static const double {name}_{kind}[] = {{")
    print("    " + ",\n    ".join(float(v).hex() for v in c) + "};")
    sys.stdout.flush()


def both(name, what, target, weight, n32, n64, lo, hi, step=1, lo64=None, hi64=None):
    for kind, n in (("f32", n32), ("f64", n64)):
        if n:
            l, h = (lo, hi) if kind == "f32" or lo64 is None else (lo64, hi64)
            table(name, what, kind, target, weight, [step * k for k in range(n)], l, h)


def main():
    ln2, one = mp.log(2), mpf(1)
    h = ln2 / 2 * mpf("1.0005")
    print("/* Polynomial coefficients, lowest power first. Made by tools/vmath_coeffs.py: do not edit. */")
    print("#ifndef TN_VMATH_TABLES_H\n#define TN_VMATH_TABLES_H")
    # exp(r) = 1 + r + r^2 P(r); also expm1(r) = r + r^2 P(r)
    both("expm1_p", "(e^r - 1 - r) / r^2, |r| <= ln2/2, against e^r - 1", lambda r: (mp.expm1(r) - r) / r**2,
         lambda r: abs(r**2 / mp.expm1(r)), 5, 11, -h, h)
    both("exp2_p", "(2^r - 1) / r, |r| <= 1/2, against 2^r", lambda r: (mp.power(2, r) - 1) / r,
         lambda r: abs(r / mp.power(2, r)), 6, 12, -mpf("0.50001"), mpf("0.50001"))
    # log(1+f) = f - f^2/2 + f^3 P(f), f in [-1/3, 1/3]
    table("log_p", "(log(1+f) - f + f^2/2) / f^3, |f| <= 1/3, against log(1+f)", "f32",
          lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, lambda f: abs(f**3 / mp.log1p(f)), range(9), -one / 3, one / 3)
    # log((1+s)/(1-s)) = 2s + s^3 P(s^2), |s| <= 1/5
    table("log_s", "(2 atanh(s) - 2s) / s^3 in s^2, |s| <= 1/5, against 2 atanh(s)", "f64",
          lambda y: (2 * mp.atanh(mp.sqrt(y)) - 2 * mp.sqrt(y)) / mp.sqrt(y) ** 3,
          lambda y: abs(mp.sqrt(y) ** 3 / (2 * mp.atanh(mp.sqrt(y)))), range(10), mpf(0), mpf(1) / 25)
    q = (mp.pi / 4) ** 2 * mpf("1.001")
    both("sin_p", "(sin r - r) / r^3 in r^2, |r| <= pi/4, against sin r", lambda y: (mp.sin(mp.sqrt(y)) - mp.sqrt(y)) / mp.sqrt(y) ** 3,
         lambda y: mp.sqrt(y) ** 3 / mp.sin(mp.sqrt(y)), 3, 7, mpf(0), q)
    both("cos_p", "(cos r - 1 + r^2/2) / r^4 in r^2, |r| <= pi/4, against cos r", lambda y: (mp.cos(mp.sqrt(y)) - 1 + y / 2) / y**2,
         lambda y: y**2 / mp.cos(mp.sqrt(y)), 3, 6, mpf(0), q)
    both("erf_p", "erf(x)/x - 1 in x^2, |x| <= 1.25 (f64: 1), against erf(x)/x", lambda y: mp.erf(mp.sqrt(y)) / mp.sqrt(y) - 1,
         lambda y: mp.sqrt(y) / mp.erf(mp.sqrt(y)), 7, 13, mpf(0), mpf(25) / 16, 1, mpf(0), one)
    mid = mpf("2.59375")
    table("erf_q", "erf(t + 2.59375), 1.25 <= t + 2.59375 <= 3.9375, relative", "f32", lambda t: mp.erf(t + mid), lambda t: 1 / mp.erf(t + mid),
          range(13), mpf("1.25") - mid, mpf("3.9375") - mid)
    # erfc(x) = exp(-x^2) P(t) / (1 + 2x), t = (x - k) / (x + k)
    for kind, n, k, lo, hi in (("f32", 10, mpf(2), mpf("0.5"), mpf("10.1")), ("f64", 22, mpf(3), mpf("0.5"), mpf("27.5"))):
        x_of = lambda t, k=k: k * (1 + t) / (1 - t)
        g = lambda x: mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)
        table("erfc_p", f"(1 + 2x) e^(x^2) erfc(x) in t = (x-{k})/(x+{k}), {lo} <= x <= {hi}, relative", kind,
              lambda t: g(x_of(t)), lambda t: 1 / g(x_of(t)), range(n), (lo - k) / (lo + k), (hi - k) / (hi + k))
    both("asin_p", "(asin x - x) / x^3 in x^2, |x| <= 1/2, against asin x", lambda y: (mp.asin(mp.sqrt(y)) - mp.sqrt(y)) / mp.sqrt(y) ** 3,
         lambda y: mp.sqrt(y) ** 3 / mp.asin(mp.sqrt(y)), 5, 12, mpf(0), one / 4)
    z = mp.tan(mp.pi / 8) ** 2 * mpf("1.001")
    both("atan_p", "(atan x - x) / x^3 in x^2, |x| <= tan(pi/8), against atan x", lambda y: (mp.atan(mp.sqrt(y)) - mp.sqrt(y)) / mp.sqrt(y) ** 3,
         lambda y: mp.sqrt(y) ** 3 / mp.atan(mp.sqrt(y)), 4, 12, mpf(0), z)
    both("tanh_p", "(tanh x - x) / x^3 in x^2, |x| <= 0.3, against tanh x", lambda y: (mp.tanh(mp.sqrt(y)) - mp.sqrt(y)) / mp.sqrt(y) ** 3,
         lambda y: mp.sqrt(y) ** 3 / mp.tanh(mp.sqrt(y)), 3, 10, mpf(0), mpf("0.0901"))
    both("sinh_p", "(sinh x - x) / x^3 in x^2, |x| <= 1, against sinh x", lambda y: (mp.sinh(mp.sqrt(y)) - mp.sqrt(y)) / mp.sqrt(y) ** 3,
         lambda y: mp.sqrt(y) ** 3 / mp.sinh(mp.sqrt(y)), 3, 7, mpf(0), one)
    print("/* 2/pi: 32 zero bits, then its fraction, 32 bits a word */\nstatic const uint32_t two_over_pi[38] = {")
    with mp.workprec(1400):
        bits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (37 * 32)))
    words = [0] + [bits >> (36 - k) * 32 & 0xFFFFFFFF for k in range(37)]
    print("    " + ",\n    ".join(", ".join(f"0x{w:08x}" for w in words[k : k + 8]) for k in range(0, 38, 8)) + "};")
    print("#endif")


if __name__ == "__main__":
    main()
