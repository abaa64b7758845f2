"""Code that fits the data: each case on data that has a property, and on data that has not.

A case is one function written against an array module, so that NumPy, JAX and Numba get the same
text; where a peer names things otherwise it has its own, and where it cannot run it it is left out.
`scipy.sparse` converts in every call, as a caller who does not know his data would have to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bench.peers import Arguments, Peer
from bench.race import Options, line, ratios
from bench.timing import Entry, race

Function = Callable[..., Any]
SIDE = 2048  # of an image: 4 megapixels
COUNT = 1_000_000
PLACES = {"f": 1e-4, "d": 1e-9}


@dataclass(frozen=True)
class DataCase:
    """A function and its data: `make(rng, True)` has the property, `make(rng, False)` has not."""

    name: str
    write: Callable[[Any], Function]
    make: Callable[[np.random.Generator, bool], Arguments]
    torch: Callable[[Any], Function] | None = None
    others: dict[str, Function] = field(default_factory=dict)
    without: tuple[str, ...] = ()  # peers that cannot run it


def _thin(rng: np.random.Generator, shape: tuple[int, int], density: float) -> np.ndarray:
    return np.where(rng.random(shape) < density, rng.normal(size=shape), 0).astype("float32")


def _sparse_product(density: float) -> Callable[[np.random.Generator, bool], Arguments]:
    def make(rng: np.random.Generator, has: bool) -> Arguments:
        x = _thin(rng, (512, 1024), density if has else 1.0)
        return x, rng.normal(size=(1024, 512)).astype("float32")

    return make


def _rows(rng: np.random.Generator, has: bool) -> Arguments:
    x = rng.normal(size=(512, 1024)).astype("float32")
    if has:
        x[rng.random(512) < 0.9] = 0
    return x, rng.normal(size=(1024, 512)).astype("float32")


def _layers(density: float) -> Callable[[np.random.Generator, bool], Arguments]:
    """The share of units that are on is set by the threshold of the first layer."""

    def make(rng: np.random.Generator, has: bool) -> Arguments:
        x, w = rng.normal(size=(256, 256)), rng.normal(size=(256, 2048)) / 16
        b = np.full(2048, -np.quantile(x @ w, 1 - density if has else 0.0))
        v = rng.normal(size=(2048, 512)) / 45
        return tuple(a.astype("float32") for a in (x, w, b, v))

    return make


def _image(rng: np.random.Generator, has: bool) -> Arguments:
    image = rng.integers(0, 256, (SIDE, SIDE))
    return (image.astype(np.uint8 if has else np.int32),)


def _integers(rng: np.random.Generator, has: bool) -> Arguments:
    return (rng.integers(0, 256 if has else 10**9, COUNT),)


def _matrices(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator, bool], Arguments]:
    """What algebra needs: it asks nothing of the data but that it is finite."""

    def make(rng: np.random.Generator, has: bool) -> Arguments:
        found = [rng.normal(size=shape) for shape in shapes]
        if not has:
            found[0].flat[0] = np.nan
        return tuple(found)

    return make


def _product(np: Any) -> Function:
    return lambda x, w: x @ w


def _by_scipy(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    import scipy.sparse

    return scipy.sparse.csr_matrix(x) @ w


def _product_case(name: str, make: Callable[[np.random.Generator, bool], Arguments]) -> DataCase:
    return DataCase(name, _product, make, _product, {"scipy.sparse": _by_scipy})


def _two_layers(np: Any) -> Function:
    return lambda x, w, b, v: np.maximum(x @ w + b, 0) @ v


def _gamma(np: Any) -> Function:
    return lambda x: (x / 255.0) ** 2.2


def _tone(np: Any) -> Function:
    def tone(x: Any) -> Any:
        y = x.astype(np.float32) / np.float32(255)
        z = np.sqrt(np.exp(-y * y) + np.log1p(y)) * np.sin(y)
        return (z * np.float32(255)).astype(np.uint8)

    return tone


def _torch_tone(torch: Any) -> Function:
    def tone(x: Any) -> Any:
        y = x.to(torch.float32) / 255
        z = torch.sqrt(torch.exp(-y * y) + torch.log1p(y)) * torch.sin(y)
        return (z * 255).to(torch.uint8)

    return tone


def _densities(np: Any) -> Function:
    return lambda x: np.exp(np.sin(x / 9.0)) + np.tanh(x / 40.0)


CASES = (
    *(_product_case(f"x @ w, {d:g} not 0", _sparse_product(d)) for d in (0.1, 0.01, 0.001)),
    _product_case("x @ w, one row in ten", _rows),
    *(
        DataCase(
            f"relu layers, {d:g} on",
            _two_layers,
            _layers(d),
            lambda torch: lambda x, w, b, v: torch.clamp_min(x @ w + b, 0) @ v,
        )
        for d in (0.5, 0.2, 0.1, 0.03, 0.01)
    ),
    DataCase("gamma of an image", _gamma, _image, _gamma),
    DataCase("tone of an image", _tone, _image, _torch_tone),
    DataCase("exp, sin, tanh of an image", _densities, _image, _densities),
    DataCase(
        "sort", lambda np: lambda x: np.sort(x), _integers, lambda torch: lambda x: torch.sort(x)[0]
    ),
    DataCase(
        "unique",
        lambda np: lambda x: np.unique(x),
        _integers,
        lambda torch: torch.unique,
        without=("jax",),
    ),
    DataCase(
        "unique with counts",
        lambda np: lambda x: np.unique(x, return_counts=True)[1],
        _integers,
        lambda torch: lambda x: torch.unique(x, return_counts=True)[1],
        without=("jax", "numba"),
    ),
    DataCase("median", lambda np: lambda x: np.median(x), _integers),
    DataCase(
        "stable argsort",
        lambda np: lambda x: np.argsort(x, kind="stable"),
        _integers,
        lambda torch: lambda x: torch.argsort(x, stable=True),
        without=("numba",),
    ),
    DataCase(
        "a @ b @ v",
        lambda np: lambda a, b, v: a @ b @ v,
        _matrices((500, 500), (500, 500), (500,)),
        lambda torch: lambda a, b, v: a @ b @ v,
    ),
    DataCase(
        "sum(x @ w, 1)",
        lambda np: lambda x, w: np.sum(x @ w, axis=1),
        _matrices((500, 500), (500, 500)),
        lambda torch: lambda x, w: torch.sum(x @ w, dim=1),
    ),
    DataCase(
        "trace(a @ b)",
        lambda np: lambda a, b: np.trace(a @ b),
        _matrices((500, 500), (500, 500)),
        lambda torch: lambda a, b: torch.trace(a @ b),
    ),
    DataCase(
        "diag(d) @ x",
        lambda np: lambda d, x: np.diag(d) @ x,
        _matrices((500,), (500, 500)),
        lambda torch: lambda d, x: torch.diag(d) @ x,
    ),
    DataCase(
        "(a @ b)[3]",
        lambda np: lambda a, b: (a @ b)[3],
        _matrices((500, 500), (500, 500)),
        lambda torch: lambda a, b: (a @ b)[3],
    ),
    DataCase(
        "x.T @ diag(d) @ x @ w",
        lambda np: lambda x, d, w: x.T @ np.diag(d) @ x @ w,
        _matrices((500, 400), (500,), (400, 8)),
        lambda torch: lambda x, d, w: x.T @ torch.diag(d) @ x @ w,
    ),
)


def run(peers: list[Peer], options: Options) -> dict[str, Any]:
    """Every case twice."""
    chosen = CASES[::5] if options.quick else CASES
    results = []
    for case in chosen:
        for has in (True, False):
            results.append(_run_case(case, has, peers, options))
            print(line(results[-1]), flush=True)
    return {"cases": results}


def _run_case(case: DataCase, has: bool, peers: list[Peer], options: Options) -> dict[str, Any]:
    arguments = case.make(np.random.default_rng(7), has)
    wanted = np.asarray(case.write(np)(*arguments))
    entries: list[Entry] = []
    failed: dict[str, str] = {}
    wrong: dict[str, float] = {}
    for label, prepare in _candidates(case, peers):
        try:
            function, converted = prepare(arguments)
            found = np.asarray(function(*converted))
        except Exception as error:  # noqa: BLE001 - a peer that cannot do this case is named
            failed[label] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            continue
        wrong[label] = _error(found, wanted)
        entries.append(Entry(label, function, converted))
    times = race(entries, options.seconds, options.clock)
    places = PLACES.get(np.result_type(*arguments).char, 1e-6)
    measured = {
        label: {**asdict(timing), "error": wrong[label], "agrees": wrong[label] <= places}
        for label, timing in times.items()
    }
    name = case.name if has else f"{case.name}; data without it"
    shared = {"case": name, "function": case.name, "has": has, "size": int(np.size(arguments[0]))}
    return {**shared, "times": measured, "failed": failed, "ratios": ratios(measured)}


def _candidates(case: DataCase, peers: list[Peer]) -> Any:
    """Labels, and what prepares a function of theirs."""
    for peer in peers:
        if peer.name in case.without or peer.name in ("numexpr", "numba fastmath"):
            continue
        function = _version(case, peer.name)
        if function is not None:
            yield peer.name, lambda args, p=peer, f=function: p.prepare(f, args)
    for label, function in case.others.items():
        yield label, lambda args, f=function: (f, args)


def _version(case: DataCase, name: str) -> Function | None:
    """The function as a peer runs it."""
    if name in ("numpy", "tailorbird"):
        return case.write(np)
    if name == "jax":
        import jax

        return jax.jit(case.write(jax.numpy))
    if name == "numba":
        import numba

        return numba.njit(case.write(np))
    if name == "torch.compile" and case.torch is not None:
        import torch

        return case.torch(torch)
    return None


def _error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference of finite elements, relative to the largest magnitude."""
    if found.shape != wanted.shape:
        return float("inf")
    good = np.isfinite(wanted)
    if not np.array_equal(good, np.isfinite(found)):
        return float("inf")
    a, b = found[good].astype("float64"), wanted[good].astype("float64")
    return float(np.max(np.abs(a - b), initial=0) / max(np.max(np.abs(b), initial=0), 1e-300))
