"""Arguments for random programs: dtypes, shapes, layouts and special values.

In: a `Spec` for each parameter, the sizes of the named dimensions and a seed. Out: fresh arguments,
equal for equal seeds, so that the plain and the tailored function each get their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

INTS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
DTYPES = ("f8", "f4", "f8", "f4", "c16", "c8", "i8", "i4", "?", *INTS)
SHAPES: tuple[tuple[Any, ...], ...] = (
    ("n", "m"),
    ("n", "m"),
    ("n",),
    ("m",),
    ("n", 1),
    (1, "m"),
    ("m", "n"),
    ("n", "n"),
    ("k", "n", "m"),
    ("n", "m", "k"),
    (2, "n", "k", "m"),
    (3,),
    ("n", 3),
    (),
)
LAYOUTS = (
    "C",
    "guarded",
    "F",
    "transposed",
    "strided",
    "reversed",
    "broadcast",
    "offset",
    "columns",
)
ODD_LAYOUTS = ("unaligned", "swapped", "frozen", "windows")
NUMBERS = ("int", "float", "complex", "bool", "f4()", "f8()", "i4()", "u1()", "c8()", "?()")
STYLES = ("small", "small", "normal", "unit", "wide")
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 5e-324, 1e-40, 1e300, 0.5)
SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 12, 17, 33)


@dataclass(frozen=True)
class Spec:
    """One parameter: an array or a number; `alias` names an earlier one that it overlaps."""

    name: str
    dtype: str
    dims: tuple[Any, ...] | None = None
    layout: str = "C"
    style: str = "small"
    special: bool = False
    alias: str = ""

    @property
    def simpler(self) -> list[Spec]:
        """The same parameter with one thing made plain, for shrinking."""
        found = []
        if self.alias:
            found.append(replace(self, alias=""))
        if self.layout != "C":
            found.append(replace(self, layout="C"))
        if self.special:
            found.append(replace(self, special=False))
        if self.style != "small":
            found.append(replace(self, style="small"))
        return found


def draw_specs(rng: Random) -> list[Spec]:
    """Parameters of a random program: arrays, and now and then a number."""
    count = rng.choice((1, 2, 2, 3, 3))
    narrow = rng.random() < 0.4
    dtypes = [rng.choice(DTYPES)] * 9 if narrow else list(DTYPES)
    plain = rng.random() < 0.5
    specs = []
    for name in "xyz"[:count]:
        layout = rng.choice(LAYOUTS[:2]) if plain else rng.choice(LAYOUTS)
        if rng.random() < 0.03:
            layout = rng.choice(ODD_LAYOUTS)
        dims = rng.choice(SHAPES)
        special = rng.random() < 0.3
        style = rng.choice(STYLES)
        alias = "x" if specs and rng.random() < 0.04 else ""
        specs.append(Spec(name, rng.choice(dtypes), dims, layout, style, special, alias))
    if rng.random() < 0.4:
        specs.append(Spec("s", rng.choice(NUMBERS)))
    return specs


def draw_sizes(rng: Random, big: bool = False) -> dict[str, int]:
    """Sizes of the named dimensions; equal ones, 0 and 1 are common."""
    sizes = {name: rng.choice(SIZES) for name in "nmk"}
    sizes["k"] = min(sizes["k"], 5)
    if big:
        sizes["n"] = rng.choice((70, 130, 300))
        sizes["m"] = rng.choice((64, 65, 100, 257))
        sizes["k"] = 2
    elif rng.random() < 0.2:
        sizes["m"] = sizes["n"]
    return sizes


def make_arguments(specs: Sequence[Spec], sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Fresh arguments by name."""
    rng = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    for spec in specs:
        if spec.alias in made and isinstance(made[spec.alias], np.ndarray):
            made[spec.name] = _alias(made[spec.alias], rng)
        elif spec.dims is None:
            made[spec.name] = _number(spec, rng)
        else:
            shape = tuple(d if isinstance(d, int) else sizes[d] for d in spec.dims)
            made[spec.name] = _array(spec, shape, rng)
    return made


def _alias(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same array, or a view that overlaps with it."""
    if not x.ndim:
        return x
    views = (lambda: x, lambda: x[::-1], lambda: x[1:], lambda: x[:-1], lambda: x.T)
    return views[int(rng.integers(len(views)))]()


def _number(spec: Spec, rng: np.random.Generator) -> Any:
    if spec.dtype.endswith("()"):
        return _values(spec.dtype[:-2], (), "small", False, rng)[()]
    kind = {"int": "i8", "float": "f8", "complex": "c16", "bool": "?"}[spec.dtype]
    return _values(kind, (), "small", False, rng)[()].item()


def _array(spec: Spec, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    def values(wanted: Sequence[int]) -> np.ndarray:
        return _values(spec.dtype, tuple(wanted), spec.style, spec.special, rng)

    return _LAYOUT[spec.layout if shape else "C"](values, shape)


def _unaligned(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    x = values(shape)
    memory = np.zeros(x.nbytes + 1, np.uint8)[1:]
    found = memory.view(x.dtype).reshape(shape)
    found[...] = x
    return found


def _frozen(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    x = values(shape)
    x.flags.writeable = False
    return x


def _guarded(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Contiguous, with memory before and after it that belongs to others."""
    size = int(np.prod(shape))
    return values((size + 32,))[16 : 16 + size].reshape(shape)


def _doubled(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(2 * d for d in shape)


def _windows(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Rows that start one element after each other: elements of the array are one in memory."""
    x = values((sum(shape),))
    return np.lib.stride_tricks.as_strided(x, shape, x.strides * len(shape))


def _columns(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    return values((*shape[:-1], shape[-1] + 3))[..., 1 : shape[-1] + 1]


_LAYOUT: dict[str, Any] = {
    "C": lambda values, shape: values(shape),
    "guarded": _guarded,
    "F": lambda values, shape: np.asfortranarray(values(shape)),
    "transposed": lambda values, shape: values(shape[::-1]).T,
    "strided": lambda values, shape: values(_doubled(shape))[
        tuple(slice(1, None, 2) for _ in shape)
    ],
    "reversed": lambda values, shape: values(shape)[::-1],
    "broadcast": lambda values, shape: np.broadcast_to(values(shape[1:]), shape),
    "offset": lambda values, shape: values((shape[0] + 1, *shape[1:]))[1:],
    "columns": _columns,
    "unaligned": _unaligned,
    "swapped": lambda values, shape: values(shape).astype(values(()).dtype.newbyteorder()),
    "frozen": _frozen,
    "windows": _windows,
}


def _values(
    dtype: str, shape: tuple[int, ...], style: str, special: bool, rng: np.random.Generator
) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        return _integers(kind, shape, special, rng)
    if kind.kind == "c":
        part = np.dtype(f"f{kind.itemsize // 2}")
        parts = [_floats(part, shape, style, special, rng) for _ in range(2)]
        z = np.empty(shape, kind)
        z.real, z.imag = parts
        return z
    return _floats(kind, shape, style, special, rng)


def _integers(
    kind: np.dtype, shape: tuple[int, ...], special: bool, rng: np.random.Generator
) -> np.ndarray:
    x = np.asarray(rng.integers(0 if kind.kind == "u" else -5, 10, shape)).astype(kind)
    if special and x.size:
        limits = np.iinfo(kind)
        picked = rng.integers(x.size, size=2)
        x.reshape(-1)[picked] = rng.choice(np.array([limits.min, limits.max], kind), 2)
    return x


def _floats(
    kind: np.dtype, shape: tuple[int, ...], style: str, special: bool, rng: np.random.Generator
) -> np.ndarray:
    with np.errstate(all="ignore"):
        x = np.asarray(_STYLE[style](rng, shape), dtype=np.float64).astype(kind)
        if special and x.size:
            picked = rng.integers(x.size, size=3)
            x.reshape(-1)[picked] = rng.choice(np.array(SPECIAL), 3).astype(kind)
    return x


_STYLE: dict[str, Any] = {
    "small": lambda rng, shape: rng.integers(-8, 13, shape) / 4,
    "normal": lambda rng, shape: rng.normal(0, 2, shape),
    "unit": lambda rng, shape: rng.random(shape),
    "wide": lambda rng, shape: rng.choice((-1, 1), shape) * 10 ** rng.uniform(-12, 12, shape),
}
