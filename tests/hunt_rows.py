"""What random programs are made of: one row for each kind of statement.

A row is text with placeholders, how exact NumPy's answer is, and how often it is drawn. The
placeholders are filled by `hunt_programs.py`:

    {a} {a2}   arrays; {f} of floats, {i} integers, {b} bools, {z} complex, {r} not complex
    {v} {m}    arrays of rank 1, of rank 2 or more; {w} an array to write
    {x} {x2}   any operand, number or array; {s} a number, {c} a small count, {k} a small integer
    {d} {d2}   a dtype, a dtype that the first array can be cast to; {t} a new name
    {ax} {axes} {axn}   an axis of the first array, several, one counted with a new one
    {ix} {sh} {p}       an index, a new shape, another order of axes for the first array

Exactness: `move` never rounds; `exact` rounds as IEEE says, so bits must agree (unless complex);
`near` is a function that may be some ulp off; `sum` adds in an order of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

HELPERS = """\
import functools
import math
import operator
import numpy as np
from scipy import special

SCALE = 3
HALF = np.float32(0.5)
TABLE = np.array([2, -1, 3])


def scaled(p, q=2, *, plus=1):
    return p * q + plus


def centred(p, axis=-1):
    total = p.sum(axis=axis, keepdims=True)
    return p - total / max(p.shape[axis], 1)


def both(p, q):
    return p + q, p - q


def softmax(p, axis):
    e = np.exp(p - p.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def shifted(p):
    out = np.zeros_like(p)
    out[1:] = p[:-1]
    return out
"""


@dataclass(frozen=True)
class Row:
    """A statement in the making; an expression gets a new name."""

    text: str
    exactness: str = "exact"
    weight: float = 1.0

    @property
    def effect(self) -> bool:
        """Whether it writes rather than names a value."""
        return "{w}" in self.text or "{t}" in self.text


def _rows(exactness: str, weight: float, *texts: str) -> list[Row]:
    return [Row(text, exactness, weight) for text in texts]


def _words(text: str) -> list[str]:
    return text.split()


EXACT1 = _words("""negative positive absolute fabs sign signbit rint floor ceil trunc sqrt square
    reciprocal isnan isinf isfinite logical_not invert conjugate spacing bitwise_count""")
NEAR1 = _words("""cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh arcsin arccos
    arctan arcsinh arccosh arctanh degrees radians rad2deg deg2rad sinc""")
EXACT2 = _words("""add subtract multiply divide floor_divide remainder fmod maximum minimum fmax
    fmin copysign nextafter heaviside gcd lcm equal not_equal less less_equal greater greater_equal
    logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor left_shift
    right_shift""")
NEAR2 = _words("power float_power arctan2 hypot logaddexp logaddexp2")
OPERATORS = _words("+ - * / // % == != < <= > >=")
FOLDS = _words("sum prod mean var std")
EXTREMES = _words("min max any all argmin argmax")

UFUNCS = [
    *(Row(f"np.{name}({{a}})", weight=0.5) for name in EXACT1),
    *(Row(f"np.{name}({{a}})", "near", 0.5) for name in NEAR1),
    *(Row(f"np.{name}({{x}}, {{x2}})", weight=0.5) for name in EXACT2),
    *(Row(f"np.{name}({{x}}, {{x2}})", "near", 0.5) for name in NEAR2),
    *(Row(f"{{x}} {name} {{x2}}", weight=2) for name in OPERATORS),
    *(Row(f"{{i}} {name} {{i2}}") for name in ("&", "|", "^", "<<", ">>")),
    *_rows("exact", 1, "-{a}", "~{i}", "+{a}", "abs({a})", "{a} ** 2", "{a} * {a}"),
    *_rows(
        "near", 1, "{f} ** {s}", "{i} ** {c}", "{a} ** {x}", "{s} ** {f}", "{f} ** 0.5", "{f} ** -1"
    ),
    *_rows("exact", 0.7, "np.add({a}, {x}, dtype={d})", "np.multiply({a}, {x}, dtype={d})"),
    *_rows("exact", 0.7, "np.divmod({a}, {x})[0]", "divmod({a}, {x})[1]", "np.ldexp({f}, {i})"),
    *_rows("near", 0.7, "np.exp({i}, dtype=np.float32)", "np.sin({a}, dtype={d})"),
    *_rows("near", 0.7, "special.erf({r})", "special.expit({r})", "special.erf({a})"),
    *_rows("exact", 0.3, "np.modf({f})[1]", "np.frexp({f})[0]", "np.signbit({f}, dtype=bool)"),
]
METHODS = [
    *_rows(
        "move", 1, "{a}.T", "{a}.copy()", "{a}.real", "{a}.imag", "{a}.ravel()", "{a}.flatten()"
    ),
    *_rows("exact", 1, "{a}.conj()", "{a}.astype({d2})", "{r}.clip({s}, {s2})", "{f}.round()"),
    *_rows("move", 1, "{a}.shape[0] * {x}", "{a}.size + {x}", "{a}.ndim - {x}", "len({a}) * {x}"),
    *_rows("move", 1, "{a}.reshape({sh})", "{a}.transpose({p})", "{m}.swapaxes(0, 1)"),
    *_rows("move", 1, "{a}.dtype.type({c}) * {a2}", "{a}.dtype.type({c}) + {a2}"),
    *_rows("move", 0.5, "{a}.squeeze()", "{a}.item() + {x}", "{a}.mT", "{a}.diagonal()"),
    *_rows("move", 0.5, "{a}.take([0, 1, 0], axis={ax})", "{a}.repeat(2, axis={ax})"),
    *_rows("move", 0.5, "{a}.conjugate()", "{a}.nonzero()[0]", "{a}.nbytes + {a}.itemsize * {x}"),
    *_rows("move", 0.5, "{a}.compress([True, False, True], axis={ax})", "{v}.compress({v} > {s})"),
    *_rows("move", 0.5, "{a}.argsort(axis={ax}, kind='stable')", "{v}.searchsorted({s})"),
    *_rows("sum", 0.5, "{m}.trace()", "{m}.trace({k}, dtype={d})"),
]
MOVES = [
    *_rows("move", 8, "{a}[{ix}]"),
    *_rows("move", 2, "np.transpose({a}, {p})", "np.reshape({a}, {sh})", "np.copy({a})"),
    *_rows("move", 1, "np.flip({a}, {ax})", "np.flip({a})", "np.roll({a}, {k}, {ax})"),
    *_rows("move", 1, "np.roll({a}, {k})", "np.moveaxis({a}, 0, -1)", "np.swapaxes({a}, 0, {ax})"),
    *_rows("move", 1, "np.expand_dims({a}, {axn})", "np.squeeze({a})", "np.atleast_2d({a})"),
    *_rows("move", 1, "np.broadcast_to({a}, (2, *{a}.shape))", "np.broadcast_arrays({a}, {a2})[0]"),
    *_rows("move", 1, "np.concatenate([{a}, {a}], axis={ax})", "np.concatenate(({a}, {a2}))"),
    *_rows("move", 1, "np.concatenate([{a}, {a2}], axis=None)", "np.concatenate(({a}, {a2}), -1)"),
    *_rows("move", 1, "np.stack([{a}, {a}], axis={axn})", "np.stack([{a}, {a2}])"),
    *_rows(
        "move", 1, "np.vstack(({a}, {a2}))", "np.hstack(({a}, {a2}))", "np.column_stack(({a}, {a}))"
    ),
    *_rows(
        "move",
        1,
        "np.pad({a}, {c})",
        "np.pad({a}, ((1, {c}),) * {a}.ndim)",
        "np.pad({a}, 1, mode='edge')",
    ),
    *_rows("move", 1, "np.pad({a}, {c}, mode='wrap')", "np.pad({a}, 1, mode='reflect')"),
    *_rows("move", 1, "np.pad({a}, 2, constant_values={s})", "np.pad({a}, 1, mode='symmetric')"),
    *_rows("move", 1, "np.repeat({a}, {c}, axis={ax})", "np.repeat({a}, 2)", "np.tile({a}, {c})"),
    *_rows("move", 1, "np.tile({a}, (2, 1))", "np.take({a}, [0, 1, -1], axis={ax})"),
    *_rows("move", 1, "np.take({a}, [[0, 1], [1, 0]], axis={ax})", "np.take({a}, 0, axis={ax})"),
    *_rows("move", 1, "np.triu({m}, {k})", "np.tril({m})", "np.diag({v})", "np.diag({m}, {k})"),
    *_rows("move", 1, "np.rot90({m}, {k})", "np.split({a}, 2)[1]", "np.array_split({a}, 3)[0]"),
    *_rows("move", 1, "np.meshgrid({v}, {v2})[0]", "np.meshgrid({v}, {v2}, indexing='ij')[1]"),
    *_rows("move", 0.5, "np.real({a})", "np.imag({a})", "np.ravel({a})", "np.append({a}, {a2})"),
    *_rows("move", 0.5, "np.asarray({a})", "np.ascontiguousarray({a})", "np.array({a})"),
    *_rows(
        "exact", 1, "np.diff({a}, axis={ax})", "np.diff({a}, n=2, axis={ax})", "np.ediff1d({a})"
    ),
    *_rows("move", 1, "np.dstack(({a}, {a2}))", "np.block([[{m}, {m}], [{m2}, {m2}]])"),
    *_rows("move", 0.7, "np.atleast_1d({a})", "np.atleast_3d({a})", "np.rollaxis({a}, {ax})"),
    *_rows("move", 0.7, "np.flipud({a})", "np.fliplr({m})", "np.diagonal({m}, {k})"),
    *_rows("move", 0.7, "np.transpose({a})", "{a}.copy(order='F')"),
    *_rows("move", 0.7, "np.resize({a}, (2, 3))", "np.delete({a}, 0, axis={ax})"),
    *_rows("move", 0.7, "np.insert({a}, 1, {s}, axis={ax})", "np.broadcast_to({x}, {a}.shape)"),
    *_rows("move", 0.5, "np.pad({a}, 1, mode='linear_ramp')", "np.unwrap({f}, axis={ax})"),
    *_rows("move", 0.5, "np.sort({a}, axis={ax})", "np.argsort({v}, kind='stable')"),
    *_rows("move", 0.5, "np.searchsorted(np.sort({v}), {a})", "np.sort({v}).searchsorted({s})"),
    *_rows("move", 0.5, "np.searchsorted({v}, {a}, 'right')", "np.digitize({r}, [-1, 0.5, 2])"),
    *_rows("move", 0.5, "np.histogram({r}, {c})[0]", "np.histogram({f}, 3, range=(-1, {s}))[0]"),
    *_rows("move", 0.5, "np.fft.fftshift({a})", "np.fft.fftfreq({a}.size)", "np.vander({v})"),
    *_rows("exact", 0.5, "np.gradient({f}, axis={ax})", "np.interp({f}, [0.0, 1.0], [2.0, 3.0])"),
]
CHOICES = [
    *_rows("move", 3, "np.where({b}, {x}, {x2})", "np.where({a} > {s}, {x}, {x2})"),
    *_rows(
        "exact", 2, "np.clip({r}, {s}, {s2})", "np.clip({r}, {x}, {x2})", "np.clip({r}, None, {s})"
    ),
    *_rows(
        "exact", 1, "np.round({f})", "np.fix({f})", "np.nan_to_num({f})", "np.isclose({f}, {x})"
    ),
    *_rows("near", 0.5, "np.angle({z})", "np.round({f}, 1)"),
    *_rows("exact", 1, "np.where({a}, {x}, {x2})", "np.maximum({r}, 0)", "({a} > 0) * {a2}"),
    *_rows(
        "move",
        1,
        "np.select([{a} > {s}, {a} == {a2}], [{x}, {x2}])",
        "np.select([{b}], [{a}], {s})",
    ),
    *_rows("move", 0.5, "np.isclose({f}, {f2})", "np.isclose({f}, {f2}, equal_nan=True)"),
    *_rows("exact", 0.5, "np.nan_to_num({f}, nan={s}, posinf=2, neginf={s2})", "np.around({f})"),
    *_rows("exact", 0.5, "np.array_equal({a}, {a2})", "np.allclose({f}, {x})"),
    *_rows("exact", 0.5, "{r}.clip(max={s})"),
    *_rows("sum", 0.5, "{r}.clip({x}, {s}).sum()"),
]
CREATION = [
    *_rows("move", 1, "np.zeros({a}.shape)", "np.ones({a}.shape[-1:], {d})", "np.zeros_like({a})"),
    *_rows("move", 1, "np.ones_like({a})", "np.full({a}.shape, {s})", "np.full_like({a}, {c})"),
    *_rows(
        "move", 1, "np.full(({c}, len({a})), {s}, dtype={d2})", "np.full_like({a}, {s}, dtype={d2})"
    ),
    *_rows(
        "move", 1, "np.arange(len({a}))", "np.arange({c}, len({a}) + 4, 2)", "np.arange(5, 0, -2)"
    ),
    *_rows(
        "exact", 1, "np.arange({c}, dtype={d2})", "np.arange(0.5, 3.0, 0.25)", "np.arange(4) * {a}"
    ),
    *_rows("exact", 1, "np.linspace(0, 1, {c})", "np.linspace({s}, {s2}, {a}.size + 1)"),
    *_rows(
        "exact",
        1,
        "np.linspace(-1, 2, 7, endpoint=False)",
        "np.linspace(0, 5, 4, dtype=np.float32)",
    ),
    *_rows("move", 1, "np.eye({c})", "np.eye(len({a}), {c}, k={k})", "np.eye(3, dtype={d2})"),
    *_rows("move", 0.5, "np.identity(len({a}))", "np.tri(3, {c}, {k})", "np.array([{s}, {s2}, 1])"),
    *_rows("move", 0.5, "TABLE * {a}", "np.array([[1, 2], [3, 4]], dtype={d2})", "HALF * {a}"),
    *_rows("move", 0.5, "{d3}({s})", "np.indices((2, {c}))", "np.array({s})"),
    *_rows("move", 1, "{t} = np.empty({a}.shape, {d})\n{t}.fill({s})", "np.arange({s}, 3, 0.7)"),
    *_rows("move", 0.5, "{t} = np.empty_like({a})\nnp.copyto({t}, {a})", "np.ogrid[0:3, 0:{c}][0]"),
    *_rows("move", 1, "{t} = np.empty({a}.shape)\n{t}[:1] = {s}\n{t}[1:] = {s2}"),
    *_rows("move", 0.5, "{t} = np.ndarray({a}.shape)\n{t}[...] = 0", "np.asanyarray({a})"),
    *_rows("move", 0.5, "np.zeros({a}.shape, order='F')", "np.ones_like({a}, dtype={d2})"),
    *_rows("move", 0.5, "np.mgrid[0:{c}, 0:2][1]", "np.tril_indices({c})[0]", "np.diag([1, 2])"),
    *_rows("near", 0.5, "np.logspace(0, 1, {c})", "np.geomspace(1, 8, {c})", "np.vander({v}, 3)"),
    *_rows("exact", 0.5, "np.arange({a}.size, dtype={d2})", "np.linspace({s}, 2, len({a}))"),
]
REDUCTIONS = [
    *(Row(f"{{a}}.{name}(axis={{axes}})", "sum") for name in FOLDS),
    *(Row(f"np.{name}({{a}}, axis={{axes}}, keepdims=True)", "sum") for name in FOLDS),
    *(Row(f"np.{name}({{a}})", "sum") for name in FOLDS),
    *(Row(f"{{a}}.{name}(axis={{ax}})") for name in EXTREMES),
    *(Row(f"np.{name}({{a}}, axis={{ax}}, keepdims=True)") for name in EXTREMES),
    *(Row(f"np.{name}({{a}})") for name in EXTREMES),
    *_rows(
        "sum", 1, "np.sum({a}, dtype={d})", "{a}.sum({ax}, {d})", "{f}.mean({ax}, dtype=np.float64)"
    ),
    *_rows(
        "sum", 1, "np.var({f}, axis={ax}, ddof=1)", "np.std({a}, ddof=1)", "np.prod({a}, dtype={d})"
    ),
    *_rows(
        "move",
        1,
        "np.count_nonzero({a}, axis={ax})",
        "np.count_nonzero({a})",
        "np.any({a}, axis={axes})",
    ),
    *_rows(
        "exact", 1, "np.max({r}, axis={axes})", "np.all({a} > 0, axis={axes})", "np.ptp({r}, {ax})"
    ),
    *_rows(
        "sum",
        1,
        "np.linalg.norm({a})",
        "np.linalg.norm({a}, axis={ax})",
        "np.average({a}, axis={ax})",
    ),
    *_rows(
        "sum",
        1,
        "np.linalg.norm({v}, 1)",
        "np.linalg.norm({m}, 'fro')",
        "np.nansum({f}, axis={ax})",
    ),
    *_rows(
        "sum",
        2,
        "np.cumsum({a}, axis={ax})",
        "{a}.cumprod({ax})",
        "np.cumsum({a})",
        "np.cumprod({a})",
    ),
    *_rows("sum", 1, "{a}.cumsum(axis={ax}, dtype={d})", "np.add.reduce({a}, axis={ax})"),
    *_rows("exact", 1, "np.maximum.reduce({r}, axis={ax})", "np.logical_or.reduce({a})"),
    *_rows("sum", 0.5, "np.add.accumulate({a})", "np.multiply.outer({v}, {a})", "np.trace({m})"),
    *_rows("exact", 0.5, "np.amin({r}, {ax})", "np.amax({r}, {ax})", "np.minimum.reduce({r})"),
    *_rows("exact", 0.5, "np.logical_and.reduce({a}, axis={axes})", "np.subtract.outer({v}, {a})"),
    *_rows("exact", 0.1, "np.maximum.accumulate({r}, {ax})", "np.bitwise_or.reduce({i}, {ax})"),
    *_rows(
        "exact", 0.3, "np.max({r}, initial={s})", "np.min({r}, {ax}, initial=3, where={r} > {s})"
    ),
    *_rows(
        "sum", 0.3, "np.sum({a}, initial={s})", "{f}.mean(where={f} > {s})", "np.nanmean({f}, {ax})"
    ),
    *_rows("sum", 0.5, "np.multiply.reduce({a}, {ax})", "np.multiply.accumulate({a}, {ax})"),
    *_rows("sum", 0.5, "np.add.reduce({a}, axis={axes}, keepdims=True)", "np.trace({m}, {k})"),
    *_rows("sum", 0.5, "np.average({f}, weights=abs({f}) + 1)", "np.nancumsum({f}, {ax})"),
    *_rows("sum", 0.5, "np.linalg.norm({m}, axis=(0, 1))", "np.linalg.norm({v}, np.inf)"),
    *_rows(
        "sum", 0.5, "np.linalg.norm({m}, 1)", "np.linalg.norm({v}, 3)", "np.linalg.norm({v}, 0)"
    ),
    *_rows("sum", 0.5, "np.trapezoid({f}, axis={ax})", "np.trapezoid({f}, dx={s})"),
    *_rows("sum", 0.5, "np.average({m}, axis=-1, weights=abs({m}[0]) + 1)"),
    *_rows("exact", 0.5, "np.median({r}, axis={ax})", "np.nanmax({f})", "np.percentile({f}, 30)"),
]
PRODUCTS = [
    *_rows("sum", 3, "{a} @ {a2}", "{a} @ {a}.T", "np.dot({a}, {a2})", "np.matmul({a}, {a2})"),
    *_rows("sum", 1, "{a}.T @ {a}", "{a}.dot({a2})", "np.dot({v}, {v2})", "np.outer({v}, {v2})"),
    *_rows("sum", 1, "np.inner({a}, {a2})", "np.vdot({a}, {a})", "np.tensordot({a}, {a2}, axes=1)"),
    *_rows("sum", 1, "np.einsum('ij,jk->ik', {m}, {m2})", "np.einsum('ij->ji', {m})"),
    *_rows("sum", 1, "np.einsum('ij,ij->i', {m}, {m})", "np.einsum('i,i->', {v}, {v})"),
    *_rows(
        "sum",
        1,
        "np.einsum('i,j->ij', {v}, {v2})",
        "np.einsum('ii->i', {m})",
        "np.einsum('ij->', {m})",
    ),
    *_rows("sum", 1, "np.einsum('ij,j', {m}, {v})", "np.einsum('ijk,ik->ij', {a}, {a2})"),
    *_rows("sum", 1, "np.einsum('ij,kj', {m}, {m2})", "np.einsum('...i,...i->...', {a}, {a})"),
    *_rows("sum", 1, "{a}[..., None, :] @ {m}", "np.tensordot({a}, {a}, axes=([0], [0]))"),
    *_rows("sum", 1, "np.dot({a}, {s})", "np.einsum('i,ij,j', {v}, {m}, {v})", "{a} @ {a}.mT"),
    *_rows("sum", 0.5, "np.convolve({v}, {v2})", "np.kron({v}, {v2})", "np.cross({a}, {a2})"),
    *_rows("sum", 0.5, "np.convolve({v}, [1, 2, 1], 'same')", "np.correlate({v}, {v2}, 'full')"),
    *_rows("sum", 0.5, "np.cov({f})", "np.corrcoef({m})", "np.cov({v}, {v2}, ddof=0)"),
    *_rows("sum", 0.5, "np.kron({a}, {a2})", "np.cross({a}[..., :3], {a2}[..., :3], axisc=0)"),
    *_rows("sum", 0.5, "np.polyval({v}[:4], {a})", "np.histogram({f}, 4, weights={f} ** 2)[0]"),
    *_rows("sum", 0.5, "np.linalg.inv({m})", "np.linalg.det({m})", "np.linalg.slogdet({m})[1]"),
    *_rows("sum", 0.5, "np.linalg.solve({m} @ {m}.T + 9 * np.eye({m}.shape[-2]), {m2})"),
    *_rows("sum", 0.5, "np.linalg.inv({m}[:2, :2] + 9 * np.eye(2))"),
    *_rows("sum", 0.5, "np.linalg.cholesky({m} @ {m}.T + 9 * np.eye({m}.shape[-2]))"),
    *_rows("sum", 0.5, "np.tensordot({a}, {a2}, axes=0)", "np.linalg.matrix_power({m}, 2)"),
    *_rows("sum", 0.3, "np.vecdot({a}, {a2})", "np.matvec({m}, {v})", "np.vecmat({v}, {m})"),
]
WRITES = [
    *(Row(f"{{w}} {op}= {{x}}", weight=2) for op in ("+", "-", "*", "/", "//", "&")),
    Row("{w} **= {x}", "near"),
    *_rows("exact", 5, "{w}[{ix}] = {x}", "{w}[{ix}] += {x}", "{w}[{ix}] *= {x}"),
    *_rows("exact", 1, "np.add({x}, {x2}, out={w})", "np.subtract({x}, {x2}, {w})"),
    *_rows("exact", 2, "np.multiply({x}, {x2}, out={w}, where={w} > {s})"),
    *_rows("near", 1, "np.exp({a}, out={w})", "np.sqrt({w}, out={w}, where={w} > {s})"),
    *_rows("sum", 1, "np.sum({a}, axis={ax}, out={w})", "np.matmul({a}, {a2}, out={w})"),
    *_rows("move", 1, "{w}.fill({s})", "{w}[...] = {x}", "{w}.T[{ix}] = {x}", "{w}[{b}] = {s}"),
    *_rows("move", 1, "{w}[0], {w}[-1] = {x}, {s}", "{w}[{ix}] = {w}[{ix}]", "{w}[1:] = {w}[:-1]"),
    *_rows("exact", 1, "{w}[1:] += {w}[:-1]", "{w}[:, 0] -= {w}[:, -1]", "{w}[::-1] += {w}"),
    *_rows(
        "exact", 1, "np.less({x}, {x2}, out={w})", "np.maximum({x}, {x2}, {w}, where={w} > {s})"
    ),
    *_rows("exact", 1, "np.clip({r}, {s}, {s2}, out={w})", "np.negative({a}, {w})", "{w} |= {x}"),
    *_rows("exact", 0.5, "{w} ^= {x}", "{w} <<= {c}", "{w} >>= {c}", "{w} %= {x}"),
    *_rows("sum", 0.5, "{w} @= {a}"),
    # an out= of rank 0 crashes NumPy 2.4
    *_rows("sum", 1, "np.cumsum({a}, axis={ax}, out=np.atleast_1d({w}))"),
    *_rows("sum", 1, "np.mean({a}, axis={ax}, out={w})"),
    *_rows("sum", 0.5, "np.dot({a}, {a2}, out={w})", "np.max({a}, axis={ax}, out={w})"),
    *_rows(
        "move",
        1,
        "np.copyto({w}, {x})",
        "np.copyto({w}, {x}, where={w} > {s})",
        "{w}[::2] = {w}[1::2]",
    ),
    *_rows("move", 0.1, "np.fill_diagonal({w}, {s})", "{w}.real = {x}", "{w}.flat[1] = {s}"),
    *_rows("move", 0.1, "{w}.sort(axis={ax})", "np.choose({i} % 2, [{w}, {s}], out={w})"),
    *_rows("move", 0.5, "{w}.T[...] = {w}", "{w}.reshape(-1)[::2] = {s}"),
]
PICKING = [
    *_rows("move", 2, "{a}[{b}]", "{a}[{a} > {s}]", "{a}[{a} != {x}]", "{v}[{v} > {s}]"),
    *_rows("exact", 1, "{v}[{v2} > {s}] * {s2}", "{a}[{b}] + {a}[{b}]", "{a}[~{b}]"),
    *_rows("sum", 1, "{a}[{a} > {s}].sum()", "{f}[{f} > {s}].mean()", "{a}[{b}].sum()"),
    *_rows("exact", 1, "{r}[{r} > {s}].max()", "{r}[{b}].min()", "np.count_nonzero({a} > {s})"),
    *_rows("move", 1, "np.nonzero({a})[0]", "np.where({a} > {s})[-1]", "np.argwhere({a} != {s})"),
    *_rows("move", 1, "np.flatnonzero({a})", "np.extract({b}, {a})", "{v}[np.nonzero({v})[0]]"),
    *_rows("move", 1, "{a}[{i} % len({a})]", "np.take({a}, {i} % len({a}), 0)", "{v}[[0, -1]]"),
    *_rows("move", 1, "np.take({a}, {i}, mode='clip')", "{m}[{i} % 2, 0]", "{m}[:, {i} % 2]"),
    *_rows("move", 1, "{m}[{i} % 2, {i} % 2]", "{m}[1:, {i} % 2]", "{a}[{i}]", "{a}[{b}, ...]"),
    *_rows("exact", 1, "{w}[{w} > {s}] = {s2}", "{w}[{w} > {s}] *= {s2}", "{w}[{b}] = {x}"),
    *_rows("exact", 1, "{w}[{w} == {w}] += {w}[{w} == {w}]", "{w}[{i} % len({w})] = {s}"),
    *_rows("exact", 1, "{w}[{i} % len({w})] += {s}", "np.add.at({w}, {i}[:3] % len({w}), {s})"),
    *_rows("exact", 1, "{w}[np.ravel({i}) % len({w})] = np.arange({i}.size)"),
    *_rows("exact", 1, "np.bincount(abs({i}).ravel() % 9)", "np.sort({v}[{v} > {s}])"),
    *_rows(
        "exact", 1, "np.maximum.at({w}, {i}[:3] % len({w}), {i}[:3])", "{w}[..., {i} % 2] = {s}"
    ),
    *_rows("move", 1, "np.putmask({w}, {w} > {s}, {s2})", "np.put({w}, {i} % 2, {s})"),
    *_rows("move", 1, "np.compress({v} > {s}, {v})", "np.compress([True, False], {a}, axis={ax})"),
    *_rows("move", 1, "np.place({w}, {w} > {s}, [{s2}])", "{w}.put([0, -1], {s})"),
    *_rows("move", 1, "np.take_along_axis({a}, np.argmax({a}, {ax}, keepdims=True), {ax})"),
    *_rows("move", 1, "np.take_along_axis({v}, {i} % 2, 0)", "{a}[np.array([0, 1]), ..., None]"),
    *_rows("move", 1, "np.put_along_axis({w}, {i} % 2, {s}, 0)", "{a}[np.ix_([0, 1], [1, 0])]"),
    *_rows(
        "exact",
        0.5,
        # values of fewer axes than the index: NumPy 2.4 reads beyond them
        "np.subtract.at({w}, {i}[:3] % 2, {i}[:3])",
        "np.multiply.at({w}, {i}[:3] % 2, {s})",
    ),
    *_rows("exact", 0.5, "np.bincount({i} % 5, {f})", "np.unique({r})", "np.digitize({f}, [0, 1])"),
]
LANGUAGE = [
    *_rows("exact", 1, "scaled({a})", "scaled({a}, {x}, plus={s})", "both({a}, {x})[1]"),
    *_rows("sum", 1, "centred({f}, {ax})", "softmax({f}, {ax})", "sum([{a}, {a}, {s}])"),
    *_rows("exact", 1, "(lambda p, q: p * q - SCALE)({a}, {x})", "{a} * math.sqrt(2.0)"),
    *_rows("exact", 1, "{a} if {a}.ndim > 1 else {a} + 1", "max({c}, 2) * {a}", "shifted({a})"),
    *_rows(
        "exact", 1, "[{a} * j for j in range({c})][-1]", "dict(p={a} + 1)['p']", "({a}, {x})[0]"
    ),
    *_rows("exact", 1, "{t} = {a} * 1\nfor j in range({c}):\n    {t} = {t} * 2 - j"),
    *_rows("exact", 1, "{t} = {a} * 1\nfor q in ({x}, {x2}, 2):\n    {t} = {t} + q"),
    *_rows(
        "exact", 1, "{t} = {a}.copy()\n{t}[{ix}] = {x}", "{t} = np.empty_like({a})\n{t}[...] = {x}"
    ),
    *_rows(
        "exact", 1, "{t} = {a} + 0\n{t} += {x}", "{t} = np.zeros({a}.shape, {d})\n{t}[{ix}] += {x}"
    ),
    *_rows("exact", 1, "{t} = {a}[{ix}]\n{t} *= {s}", "{t} = {a}.T\n{t} += {x}"),
    *_rows("exact", 1, "{t} = 0\nfor j, q in enumerate(({a}, {x})):\n    {t} = {t} + q * j"),
    *_rows("exact", 1, "if {a}.shape[0] > 3:\n    {t} = {a} + 1\nelse:\n    {t} = {a} - 1"),
    *_rows("exact", 1, "if {a}.dtype == np.float64:\n    {t} = {a} * 2\nelse:\n    {t} = {a}"),
    *_rows(
        "exact",
        1,
        "{t}, q = both({a}, {x})\n{t} = {t} * q",
        "{t}, *q = {a} + 1, {x}, 3\n{t} = {t} + q[1]",
    ),
    *_rows("move", 0.5, "{t} = {a}\nassert {t}.ndim >= 0, f'rank {{t}.ndim}'"),
    *_rows(
        "exact", 0.5, "operator.mul({a}, {x})", "math.prod({a}.shape) * {a2}", "[*{a}.shape][-1]"
    ),
    *_rows(
        "exact", 0.5, "functools.reduce(np.add, [{a}, {x}])", "functools.partial(np.add, {a})({x})"
    ),
    *_rows("exact", 0.5, "{a}.astype(np.result_type({a}, {a2}))", "any(({a}.ndim, 0)) * {x}"),
    *_rows("exact", 0.5, "{a} * math.floor({a}.size / 2)", "np.shape({a})[0] * {x}"),
    *_rows("exact", 0.5, "np.size({a}) + np.ndim({a}) * {x}", "np.isscalar({x}) * {a}"),
    *_rows(
        "exact",
        0.5,
        "np.iscomplexobj({a}) * {x} + np.isrealobj({a})",
        "np.broadcast_shapes({a}.shape, (1,))[0]",
    ),
    *_rows("move", 0.5, "complex({r}.ravel()[0], {c})", "complex({c}, {f}.ravel()[-1])"),
    *_rows("exact", 0.5, "float({c}) * {a}", "int({f}.shape[0] / 2) + {x}", "isinstance({x}, int)"),
    *_rows(
        "exact", 0.5, "tuple(map(np.negative, ({a}, {x})))[0]", "list(zip(({a},), ({x},)))[0][0]"
    ),
    *_rows(
        "exact", 0.5, "getattr({a}, 'T') * 2", "sorted({a}.shape)[0] * {x}", "min(*{a}.shape, 9)"
    ),
    *_rows(
        "exact", 1, "{t} = {f} * 1\nfor j in range(1, len({t})):\n    {t}[j] += {t}[j - 1] * {s}"
    ),
    *_rows(
        "exact", 1, "{t} = {v} * 1\nfor j in range({v}.shape[0] - 1):\n    {t}[j + 1] -= {t}[j]"
    ),
    *_rows("exact", 1, "{t} = 0.0\nfor j in range({v}.shape[0]):\n    {t} += {v}[j]"),
    *_rows(
        "move",
        1,
        "{t} = {a} * 1\nfor j in range(len({t})):\n    {t}[j] = np.sort({t}[j], axis=None)[0]",
        "{t} = 0\nfor j in range({c}):\n    {t} = {t} + len(np.unique({a} * j))",
        "{t} = {v} * 1\nif len({t}) and {t}[0] > {s}:\n    {t}[:] = np.sort({t})",
        "{t} = np.zeros({r}.shape)\nfor j in range({c}):\n    {t} = {t} + np.median({r} + j)",
        "{t} = {v}[:40] * 0\nfor j in range(len({t})):\n    {t}[j] = np.lexsort(({v}[j:],))[0]",
    ),
    *_rows(
        "sum",
        1,
        "{t} = {m} * 0.0\nfor j in range({c}):\n    {t} = {t} + np.fft.fft({m} + j).real",
        "{t} = 0.0\nfor j in range({c}):\n"
        "    {t} = {t} + np.linalg.svd(np.where(np.isfinite({m}), {m}, 1) + j)[1]",
        "{t} = {f} * 0\nfor j in range({c}):\n    {t} += np.percentile({f}, j * 20)",
    ),
    *_rows("exact", 1, "{t} = {a} * 0\nfor j in range({c} - 4, len({a})):\n    {t} = {t} + {a}[j]"),
    *_rows("exact", 1, "{t} = {r} * 1\nif {t}.max() > {s}:\n    {t} = {t} - {x}"),
    *_rows("exact", 1, "{t} = {r} * 1\nif ({t} > {s}).any():\n    {t}[0] = {s2}"),
    *_rows("exact", 0.5, "int({r}.max())", "int({i}.min()) * {x}", "{a}[: int({i}.sum()) % 3]"),
    *_rows("exact", 0.5, "np.arange(int({i}.max()) % 7)", "float({r}.max()) * {x}"),
    *_rows("exact", 0.5, "bool({a}.any()) * {x}", "{a}[int({r}.argmax()) % 2] * 2"),
    *_rows("exact", 1, "{t} = 0\nwhile {t} < len({a}) and {c} > 1:\n    {t} += 2"),
]
GROUPS: dict[str, tuple[float, list[Row]]] = {
    "ufuncs": (5, UFUNCS),
    "methods": (2, METHODS),
    "moves": (4, MOVES),
    "choices": (1.5, CHOICES),
    "creation": (1.5, CREATION),
    "reductions": (3, REDUCTIONS),
    "products": (1, PRODUCTS),
    "writes": (1.5, WRITES),
    "picking": (1.5, PICKING),
    "language": (1.5, LANGUAGE),
}
