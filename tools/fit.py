"""Fits the polynomials of vector math: run by hand, prints tailorbird/emit/vmath_tables.py.

    python tools/fit.py > tailorbird/emit/vmath_tables.py

In: the rows of FITS (what to approximate, in which powers, where, and how many bits a coefficient
has) and of TABLES (what to tabulate). Out: a module of literal tuples. Each fit is the Remez
exchange in 60 digits: the largest weighted error is as small as that many coefficients allow.
"""

from __future__ import annotations

import struct
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath as mp  # type: ignore[import-untyped]

mp.mp.dps = 60
Real = Callable[[mp.mpf], mp.mpf]

LN2 = mp.log(2)
GRID = 400


@dataclass(frozen=True)
class Fit:
    """sum(c[i] * x**powers[i]) close to f on [low, high], error times weight levelled."""

    name: str
    kind: str
    f: Real
    powers: Sequence[int]
    low: mp.mpf
    high: mp.mpf
    order: int = 0  # the fit is multiplied by x**order when used
    factor: Real = lambda x: mp.mpf(1)  # and by this


def _weight(row: Fit, x: mp.mpf) -> mp.mpf:
    """How much an error at x counts; kept off zero, where the exchange would be singular."""
    reach = max(abs(row.low), abs(row.high))
    return mp.sqrt(x**2 + (reach / 8) ** 2) ** row.order * row.factor(x)


def remez(row: Fit) -> tuple[list[mp.mpf], mp.mpf]:
    """Coefficients and the levelled error."""
    low, high = mp.mpf(row.low), mp.mpf(row.high) + mp.mpf("1e-10")  # no node at 0 itself
    size = len(row.powers) + 1
    middle, half = (low + high) / 2, (high - low) / 2
    points = [middle - half * mp.cos(mp.pi * (2 * i + 1) / (2 * size)) for i in range(size)]
    grid = [middle - half * mp.cos(mp.pi * (2 * i + 1) / (2 * GRID)) for i in range(GRID)]
    samples = [(x, row.f(x), _weight(row, x)) for x in grid]
    for _ in range(12):
        coefficients, level = _solve(row, points)
        errors = [(f - _value(row.powers, coefficients, x)) * w for x, f, w in samples]
        worst = max(abs(e) for e in errors)
        points = _extrema(grid, errors, size)
        if worst < abs(level) * mp.mpf("1.02") or len(points) < size:
            break
    return coefficients, worst


def _solve(row: Fit, points: Sequence[mp.mpf]) -> tuple[list[mp.mpf], mp.mpf]:
    size = len(points)
    matrix, right = mp.matrix(size, size), mp.matrix(size, 1)
    for i, x in enumerate(points):
        for j, power in enumerate(row.powers):
            matrix[i, j] = x**power
        matrix[i, size - 1] = (-1) ** i / _weight(row, x)
        right[i] = row.f(x)
    solution = mp.lu_solve(matrix, right)
    return list(solution[: size - 1]), solution[size - 1]


def _value(powers: Sequence[int], coefficients: Sequence[mp.mpf], x: mp.mpf) -> mp.mpf:
    return mp.fsum(c * x**p for c, p in zip(coefficients, powers))


def _extrema(grid: Sequence[mp.mpf], errors: Sequence[mp.mpf], size: int) -> list[mp.mpf]:
    """One point of largest error for each run of equal sign; the best `size` neighbours of them."""
    runs: list[int] = []
    for i, e in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > size:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    return [grid[i] for i in runs]


def rounded(value: mp.mpf, kind: str) -> float:
    """To the nearest float of the kind: float, double, or a number of bits."""
    if kind == "float":
        (result,) = struct.unpack("<f", struct.pack("<f", float(value)))
        return float(result)
    return float(value)


def head_bits(value: mp.mpf, bits: int) -> float:
    """The leading bits of a value, so that products with small integers are exact."""
    if value == 0:
        return 0.0
    mantissa, exponent = mp.frexp(value)
    return float(mp.ldexp(mp.nint(mp.ldexp(mantissa, bits)), int(exponent) - bits))


# What is fitted

SMALL = mp.mpf("1e-9")
HALF_LN2 = LN2 / 2 * mp.mpf("1.0005")


def expm1_rest(x: mp.mpf) -> mp.mpf:
    """(e^x - 1 - x) / x^2"""
    return mp.expm1(x) / x**2 - 1 / x


def tanh_rest(z: mp.mpf) -> mp.mpf:
    """(tanh(r) - r) / r^3 with z = r^2"""
    r = mp.sqrt(z)
    return (mp.tanh(r) - r) / r**3


def sinh_rest(z: mp.mpf) -> mp.mpf:
    """(sinh(r) - r) / r^3 with z = r^2"""
    r = mp.sqrt(z)
    return (mp.sinh(r) - r) / r**3


def log1p_rest(x: mp.mpf) -> mp.mpf:
    """(log(1 + x) - x) / x^2"""
    return (mp.log1p(x) - x) / x**2


def log1p_cubic(x: mp.mpf) -> mp.mpf:
    """(log(1 + x) - x + x^2 / 2) / x^3"""
    return (mp.log1p(x) - x + x**2 / 2) / x**3


def atanh_rest(z: mp.mpf) -> mp.mpf:
    """(log((1 + s) / (1 - s)) - 2 s) / s^3 with z = s^2"""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / s**3


def sin_rest(z: mp.mpf) -> mp.mpf:
    """(sin(r) - r) / r^3 with z = r^2"""
    r = mp.sqrt(z)
    return (mp.sin(r) - r) / r**3


def cos_rest(z: mp.mpf) -> mp.mpf:
    """(cos(r) - 1 + z / 2) / z^2 with z = r^2"""
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def atan_rest(z: mp.mpf) -> mp.mpf:
    """(atan(r) - r) / r^3 with z = r^2"""
    r = mp.sqrt(z)
    return (mp.atan(r) - r) / r**3


def asin_rest(z: mp.mpf) -> mp.mpf:
    """(asin(r) - r) / r^3 with z = r^2"""
    r = mp.sqrt(z)
    return (mp.asin(r) - r) / r**3


def erf_rest(z: mp.mpf) -> mp.mpf:
    """erf(r) / r - 1 with z = r^2"""
    r = mp.sqrt(z)
    return mp.erf(r) / r - 1


def log_erfc(s: mp.mpf) -> mp.mpf:
    """log(erfc(1 + s))"""
    return mp.log(mp.erfc(1 + s))


HALF_PI = (mp.pi / 2 * mp.mpf("1.005")) ** 2
QUARTER_PI = (mp.pi / 4 * mp.mpf("1.01")) ** 2
EIGHTH_PI = (mp.sqrt(2) - 1) ** 2 * mp.mpf("1.001")

FITS = [
    # sin r = r + r^3 q(r^2) up to a half pi; sin and cos = 1 - z/2 + z^2 q(z) up to a quarter
    Fit("SIN_F32", "float", sin_rest, range(4), SMALL, HALF_PI, 1),
    Fit("SIN_F64", "double", sin_rest, range(8), SMALL, HALF_PI, 1),
    Fit("TAN_SIN_F32", "float", sin_rest, range(3), SMALL, QUARTER_PI, 1),
    Fit("TAN_SIN_F64", "double", sin_rest, range(6), SMALL, QUARTER_PI, 1),
    Fit("TAN_COS_F32", "float", cos_rest, range(3), SMALL, QUARTER_PI, 2),
    Fit("TAN_COS_F64", "double", cos_rest, range(6), SMALL, QUARTER_PI, 2),
    # atan r = r + r^3 q(r^2) up to 1 or tan(pi/8); asin likewise up to 1/2
    Fit("ATAN_F32", "float", atan_rest, range(8), SMALL, mp.mpf(1), 1),
    Fit("ATAN_F64", "double", atan_rest, range(11), SMALL, EIGHTH_PI, 1),
    Fit("ASIN_F32", "float", asin_rest, range(5), SMALL, mp.mpf("0.2501"), 1),
    Fit("ASIN_F64", "double", asin_rest, range(12), SMALL, mp.mpf("0.2501"), 1),
    # e^r - 1 = r p(r), or r + r^2 q(r); after a table of 32 or 16 steps an octave, or without one
    Fit("EXP_F32_TABLE", "float", lambda x: mp.expm1(x) / x, range(2), -LN2 / 63, LN2 / 63, 1),
    Fit("EXP_F64_TABLE", "double", expm1_rest, range(5), -LN2 / 31, LN2 / 31, 2),
    Fit("EXPM1_F32_TABLE", "float", expm1_rest, range(2), -LN2 / 63, LN2 / 63, 1),
    Fit("EXPM1_F64_TABLE", "double", expm1_rest, range(6), -LN2 / 31, LN2 / 31, 1),
    Fit("EXPM1_F32", "float", expm1_rest, range(5), -HALF_LN2, HALF_LN2, 1),
    Fit("EXPM1_F64", "double", expm1_rest, range(10), -HALF_LN2, HALF_LN2, 1),
    # tanh r = r + r^3 q(r^2)
    Fit("TANH_F32", "float", tanh_rest, range(2), SMALL, (HALF_LN2 / 2) ** 2, 1),
    Fit("TANH_F64", "double", tanh_rest, range(6), SMALL, (HALF_LN2 / 2) ** 2, 1),
    # sinh r = r + r^3 q(r^2)
    Fit("SINH_F32", "float", sinh_rest, range(3), SMALL, mp.mpf(1), 1),
    Fit("SINH_F64", "double", sinh_rest, range(7), SMALL, mp.mpf(1), 1),
    # log(1 + r) = r + r^2 q(r) after a table, or without one; log((1 + s) / (1 - s)) for doubles
    Fit("LOG_F32_TABLE", "float", log1p_rest, range(3), -mp.mpf(1) / 63, mp.mpf(1) / 31, 1),
    Fit("LOG_F64_TABLE", "double", log1p_rest, range(9), -mp.mpf(1) / 31, mp.mpf(1) / 15, 1),
    Fit("LOG_F32", "float", log1p_rest, range(9), -mp.mpf("0.2505"), mp.mpf("0.5005"), 1),
    Fit("LOG_F64", "double", atanh_rest, range(8), SMALL, mp.mpf("0.0401"), 1),
    # log(1 + r) = r - r^2/2 + r^3 q(r) to more bits than the type has
    Fit("LOG_F32_CUBIC", "float", log1p_cubic, range(3), -mp.mpf(1) / 63, mp.mpf(1) / 31, 2),
    Fit("LOG_F64_CUBIC", "double", log1p_cubic, range(10), -mp.mpf(1) / 31, mp.mpf(1) / 15, 2),
    # erf r = r + r q(r^2) up to 1; from there 1 - e^p(r - 1), where an error counts as erfc does
    Fit("ERF_F32", "float", erf_rest, range(7), SMALL, mp.mpf(1)),
    Fit("ERF_F64", "double", erf_rest, range(13), SMALL, mp.mpf(1)),
    Fit("ERFC_F32", "float", log_erfc, range(7), mp.mpf(0), mp.mpf(3), 0, lambda s: mp.erfc(1 + s)),
    Fit(
        "ERFC_F64", "double", log_erfc, range(18), mp.mpf(0), mp.mpf(5), 0, lambda s: mp.erfc(1 + s)
    ),
    # m^(-1/3), a first guess
    Fit("CBRT_F32", "float", lambda m: mp.cbrt(1 / m), range(5), mp.mpf("0.374"), mp.mpf("3.001")),
    Fit("CBRT_F64", "double", lambda m: mp.cbrt(1 / m), range(6), mp.mpf("0.374"), mp.mpf("3.001")),
]


def split(name: str, value: mp.mpf, kind: str, first_bits: int) -> tuple[str, list[float]]:
    """A constant as a short head and a tail."""
    head = head_bits(value, first_bits)
    return name, [head, rounded(value - head, kind)]


def exp2_steps(steps: int, kind: str) -> list[tuple[str, list[float]]]:
    """2^(j/steps) rounded, and what the rounding left, relative to the rounded value."""
    true = [mp.power(2, mp.mpf(j) / steps) for j in range(steps)]
    near = [rounded(x, kind) for x in true]
    rest = [rounded(x / y - 1, kind) for x, y in zip(true, near)]
    tag = TAGS[kind]
    return [(f"EXP2_{tag}_STEPS", near), (f"EXP2_{tag}_RESTS", rest)]


def log_steps(steps: int, kind: str) -> list[tuple[str, list[float]]]:
    """1/c and log(c), for c in the middle of each piece of [0.75, 1.5).

    The index is the leading mantissa bits of m, so the first half of the entries covers [1, 1.5)
    and the second [0.75, 1). The two pieces that touch 1 have c = 1: no cancellation there.
    """
    inverse = []
    for j in range(steps):
        low = 1 + mp.mpf(j) / steps
        middle = (low + mp.mpf(1) / (2 * steps)) / (1 if j < steps // 2 else 2)
        inverse.append(1.0 if j in (0, steps - 1) else head_bits(1 / middle, 9))
    logs = [-mp.log(mp.mpf(c)) for c in inverse]
    scaled = {"LOG": logs, "LOG2": [x / LN2 for x in logs], "LOG10": [x / mp.log(10) for x in logs]}
    tag = TAGS[kind]
    tables = [(f"LOG_{tag}_INVERSES", inverse)]
    tables += [(f"{n}_{tag}_STEPS", [rounded(x, kind) for x in v]) for n, v in scaled.items()]
    heads = [float(on_grid(x, kind)) for x in logs]
    tails = [rounded(x - head, kind) for x, head in zip(logs, heads)]
    ln2 = on_grid(LN2, kind)
    grid = (f"LN2_{tag}_GRID", [float(ln2), rounded(LN2 - ln2, kind)])
    return [*tables, (f"LOG_{tag}_HEADS", heads), (f"LOG_{tag}_TAILS", tails), grid]


def on_grid(value: mp.mpf, kind: str) -> mp.mpf:
    """To so few fractional bits that sums of these and products with exponents are exact."""
    bits = 16 if kind == "float" else 42
    return mp.ldexp(mp.nint(mp.ldexp(value, bits)), -bits)


def erf_beyond(center: mp.mpf) -> Real:
    return lambda d: mp.erf(center + d)


def erf_pieces() -> list[tuple[str, list[float]]]:
    """erf(j w + d) by powers of d, |d| <= w/2: one table of 32 entries for each power."""
    half = ERF_WIDTH / 2 * mp.mpf("1.001")
    first = Fit("", "float", lambda x: mp.erf(x) / x, range(4), SMALL, half)
    rows = [[mp.mpf(0), *remez(first)[0]]]
    for j in range(1, 32):
        rows.append(remez(Fit("", "float", erf_beyond(ERF_WIDTH * j), range(5), -half, half))[0])
    tables = [(f"ERF_F32_C{i}", [rounded(r[i], "float") for r in rows]) for i in range(5)]
    return [("ERF_WIDTH", [float(ERF_WIDTH)]), *tables]


ERF_WIDTH = mp.mpf(1) / 8
TAGS = {"float": "F32", "double": "F64"}


def pieces(name: str, value: mp.mpf, kind: str, count: int) -> tuple[str, list[float]]:
    """A constant as a sum of full-precision floats, each holding what the ones before left."""
    parts: list[float] = []
    for _ in range(count):
        parts.append(rounded(value - mp.fsum(parts), kind))
    return name, parts


TABLES: list[tuple[str, list[float]]] = [
    *exp2_steps(32, "float"),
    *exp2_steps(16, "double"),
    split("LN2_F32", LN2, "float", 11),
    split("LN2_F64", LN2, "double", 36),
    pieces("PI_F32", mp.pi, "float", 3),
    pieces("PI_F64", mp.pi, "double", 3),
    *erf_pieces(),
    *log_steps(32, "float"),
    *log_steps(16, "double"),
]


def show(name: str, values: Sequence[float]) -> str:
    body = textwrap.fill(", ".join(map(repr, values)), 96)
    return f"{name} = (\n{textwrap.indent(body, '    ')},\n)"


HEADER = '''"""Coefficients and tables of vector math, printed by tools/fit.py; do not edit by hand.

Each polynomial lists its coefficients from the lowest power up. A comment gives the largest error
of the fit itself, relative to the function it stands for, as a power of two.
"""

# fmt: off'''


def main() -> None:
    print(HEADER)
    for name, values in TABLES:
        print(show(name, values))
    for row in FITS:
        coefficients, worst = remez(row)
        print(f"# 2^{float(mp.log(worst, 2)):.1f}")
        print(show(row.name, [rounded(c, row.kind) for c in coefficients]))


if __name__ == "__main__":
    main()
