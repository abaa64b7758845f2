"""Numbers for the tests of the backend, and which maps may round otherwise than NumPy."""

from __future__ import annotations

import itertools

import numpy as np

from tailorbird.ir.types import LONG

# Elementary functions: within 4 ulp. Every other map of real numbers is bit for bit NumPy's.
INEXACT = frozenset(
    {
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh"),
        *("cosh", "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "cbrt"),
        *("power", "float_power", "arctan2", "hypot", "logaddexp", "logaddexp2", "erf", "expit"),
    }
)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 1e-310, -5e-324, 1e300, np.nan, np.inf, -np.inf)
_MORE = (3.5, 0.1, 7.0, -7.0, 2.5, 1.5, -0.3, 100.25, 1e-5, 12345.678, -88.0)
_INTS = (0, 1, 2, 3, 5, 7, 31, 63, 64, 65, -1, -2, -7, -64)


def special_values(short: str) -> np.ndarray:
    """The numbers of a dtype that functions treat apart."""
    dtype = LONG[short]
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        wanted = [*_INTS, limits.min, limits.max]
        return np.array([x for x in wanted if limits.min <= x <= limits.max], dtype=dtype)
    with np.errstate(all="ignore"):
        floats = np.array(_FLOATS + _MORE).astype("f4" if short in ("f32", "c64") else "f8")
    if dtype.kind == "f":
        return floats
    pairs = np.array(list(itertools.product(floats[:13], floats[:13])))
    out = np.empty(len(pairs), dtype)
    out.real, out.imag = pairs.T
    return out


def ordinary_values(short: str, shape: int | tuple[int, ...], seed: int) -> np.ndarray:
    """Random numbers of many sizes."""
    rng = np.random.default_rng([seed, *np.atleast_1d(shape)])
    dtype = LONG[short]
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        wide = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, wide, wide % 17).astype(dtype)
    x = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3, shape)
    if dtype.kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)
