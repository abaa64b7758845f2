"""Plans: what a capture and all that followed came to, on disk for the next process.

    function, arguments -> key -> plans -> marks hold here? -> fits this call? -> object -> variant

In: a function and the arguments of one call. Out: a variant and its capture, as if built just now,
or None, and then it is built. A plan holds the paths that the variant takes its inputs from, what
it relies on (as marks), its guards, its graph as text and the key of its object. Where a function
was refused, a plan holds the reason and what that relies on, and the refusal is raised again.

Invariants:
- The key only says where to look: the function's code and text, the kinds of its arguments, a
  class of their sizes, what their data is like, the knobs that change code, the versions of
  everything, this machine. Right is what is checked afterwards: every static and every part of a
  library that the capture looked at has the mark it had, every name that was not there is not
  there, and the guards hold.
- Files are those of `assemble/objects.py`: signed, private, replaced whole. A plan that is odd in
  any way is no plan.
- What cannot be marked is not kept.
"""

from __future__ import annotations

import functools
import importlib
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tailorbird import events, knobs
from tailorbird.assemble import blas, build, objects, symbols
from tailorbird.assemble.target import fingerprint, host, own_state
from tailorbird.capture.captured import Captured
from tailorbird.capture.source import is_text
from tailorbird.dispatch import packing
from tailorbird.dispatch.built import PASSING
from tailorbird.dispatch.leaf import ARRAY, INTEGER, SCALAR, WEAK, Leaf
from tailorbird.dispatch.marks import PLAIN, Unmarked, digest, mark, mark_of_part, of_function
from tailorbird.dispatch.signature import bucket, elements, key_of
from tailorbird.dispatch.variant import Recipe, Variant, Whole, make_variant, problem_of
from tailorbird.errors import CompileError, CorruptObject, Refused
from tailorbird.profile.look import profile_of
from tailorbird.reasons import Why

FORMAT = 2
MOST_PLANS = 8  # of one key
SIZE_CLASS = 4  # bits of the number of elements
LARGEST = 1 << 20  # bytes of constants, or of a graph's text
LIBRARIES = ("@tb_cblas_", "@tb_lapack")
ODD = (ArithmeticError, AttributeError, CompileError, CorruptObject, LookupError, TypeError)
WANTED = ("show", "dump", "override")  # knobs that ask for the stages to run
OF_ONE_CALL = PASSING | {"capture_bug"}  # reasons that may not hold the next time
WEAK_TYPES = {"float64": float, "complex128": complex}

Bound = dict[str, Any]
Again = Callable[[Any, list[Leaf], list[int], dict[str, int]], Whole]


def key_for(function: Any, bound: Bound) -> str | None:
    """Where plans for such a call are; None when it is to be built in any case."""
    if not knobs.get("plans") or any(knobs.get(name) for name in WANTED):
        return None
    try:
        made_from = of_function(function)
    except Unmarked:
        return None
    values = tuple(bound.values())
    size = bucket(elements(values)) // SIZE_CLASS
    kinds = repr(tuple(map(key_of, values)))
    data = digest(profile_of(values))
    return f"plan {FORMAT} {made_from} {digest(kinds)} {size} {data} {knobs.key()} {versions()}"


def versions() -> str:
    """Everything besides the function and the arguments that decides what is built."""
    python = platform.python_version()
    return f"python={python} numpy={np.__version__} {own_state()} {fingerprint(host())}"


# Finding


def find(
    key: str | None, function: Any, bound: Bound, again: Again
) -> tuple[Variant, Captured] | None:
    """A variant for this call from the disk; Refused when all that is there says so."""
    cache = objects.default_cache()
    if key is None or cache is None:
        return None
    start = time.perf_counter()
    entry = cache.get(key)
    reason: Why | None = None
    for plan in _plans(entry):
        try:
            if "refused" in plan:
                if reason is None and _captured(plan, function, bound) is not None:
                    reason = Why(*plan["refused"])
                continue
            found = _restored(plan, function, bound, again, cache, start)
        except (*ODD, Unmarked, ValueError) as error:
            events.record("plan_refused", function.__qualname__, error=repr(error))
            continue
        if found is not None:
            return found
    if reason is not None:
        raise Refused(reason)
    return None


def _plans(entry: Any) -> list[Any]:
    found = entry.meta.get("plans", []) if entry is not None else []
    return found if isinstance(found, list) else []


def _restored(
    plan: Any, function: Any, bound: Bound, again: Again, cache: objects.ObjectCache, start: float
) -> tuple[Variant, Captured] | None:
    captured = _captured(plan, function, bound)
    if captured is None:
        return None
    recipe = _recipe(plan, function, again)
    values = [s.find(function, bound, captured.constants) for s in captured.sources]
    if plan["blas"] is not None and plan["blas"] != _kind_of_blas():
        return None
    if not _fits(plan, recipe.leaves, values):
        return None
    entry = cache.get(recipe.code)
    if entry is None:
        return None
    library = build.load(entry.obj, ["entry"], symbols.resolve)
    took = round((time.perf_counter() - start) * 1e3, 2)
    variant = make_variant(recipe, library, {"restored": took})
    variant.reasons += captured.reasons
    events.record("restored", recipe.name, milliseconds=took)
    return variant, captured


def _captured(plan: Any, function: Any, bound: Bound) -> Captured | None:
    """What the variant relies on, if all of it is the same here."""
    for module, name, wanted in plan["looked"]:
        if mark_of_part(_part(module, name)) != wanted:
            return None
    for data in plan["absent"]:
        if _is_there(packing.unpacked_source(data), function, bound):
            return None
    constants = [packing.unpacked_array(data) for data in plan["constants"]]
    statics = []
    for data, wanted in plan["statics"]:
        source = packing.unpacked_source(data)
        live = source.find(function, bound, constants)
        if mark(live) != wanted:
            return None
        statics.append((source, live))
    if _sameness(live for _, live in statics) != plan["sameness"]:
        return None
    sources = [packing.unpacked_source(data) for data in plan["sources"]]
    reasons = [Why(*row) for row in plan["reasons"]]
    return Captured(None, sources, statics, reasons, constants)


def _sameness(statics: Iterable[Any]) -> list[int]:
    """Which statics, and bases of classes among them, are one object: two equal classes are not."""
    found: list[Any] = []
    for live in statics:
        found += live.__mro__ if isinstance(live, type) else () if type(live) in PLAIN else (live,)
    seen: dict[int, int] = {}
    return [seen.setdefault(id(x), len(seen)) for x in found]


def _part(module: str, name: str) -> Any:
    if not is_text(module):
        raise ValueError(f"{module} is no library")
    return getattr(importlib.import_module(module), name)


def _is_there(source: Any, function: Any, bound: Bound) -> bool:
    try:
        source.find(function, bound)
    except (LookupError, AttributeError):
        return False
    return True


def _recipe(plan: Any, function: Any, again: Again) -> Recipe:
    leaves = [Leaf(*row) for row in plan["leaves"]]
    text, places, sizes = plan["graph"], plan["places"], plan["sizes"]
    return Recipe(
        function.__qualname__,
        packing.unpacked_shape(plan["results"]),
        leaves,
        places,
        [packing.unpacked_object(data) for data in plan["objects"]],
        plan["code"],
        functools.partial(_parsed, text),
        lambda graph: again(graph, leaves, places, sizes),
        sizes,
    )


def _parsed(text: str) -> Any:
    from tailorbird.ir.parse import parse

    return parse(text)


def _kind_of_blas() -> list[int]:
    """What code that calls BLAS or LAPACK relies on: the widths of integers and of vectors."""
    library, most = blas.blas(), host().vector_bytes
    widths = [] if library is None else [library.int_bits, library.vector_bytes(most)]
    return [*widths, blas.lapack_bits()]


def _fits(plan: Any, leaves: Sequence[Leaf], values: Sequence[Any]) -> bool:
    """Whether the guards hold."""
    known: dict[str, int] = {}
    shapes = []
    for (dtype, dims), leaf, x in zip(plan["types"], leaves, values, strict=True):
        if not _is_kind(leaf, dtype, len(dims), x):
            return False
        if leaf.kind == INTEGER:
            known[leaf.name] = x
        elif leaf.kind == ARRAY:
            shapes.append((dims, x.shape))
    for dims, shape in shapes:
        for dim, size in zip(dims, shape):
            name = packing.bare(dim)
            if name:
                known.setdefault(name, size)
    pairs = [pair for dims, shape in shapes for pair in zip(dims, shape)]
    if any(packing.number(dim, known) != size for dim, size in pairs):
        return False
    return all(_HOLDS[rel](packing.number(dim, known)) for rel, dim in plan["guards"])


_HOLDS: Mapping[str, Callable[[int], bool]] = {
    "==": lambda x: x == 0,
    "!=": lambda x: x != 0,
    ">=": lambda x: x >= 0,
}


def _is_kind(leaf: Leaf, dtype: str, rank: int, x: Any) -> bool:
    if leaf.kind == INTEGER:
        return type(x) is int and -(2**63) <= x < 2**63
    if leaf.kind == WEAK:
        return type(x) is WEAK_TYPES[dtype]
    if leaf.kind == SCALAR:
        return type(x) is np.dtype(dtype).type
    if type(x) is not np.ndarray or x.dtype != dtype or x.ndim != rank:
        return False
    return not problem_of(leaf, x)


# Keeping


def keep(key: str | None, variant: Variant, captured: Captured) -> None:
    """Puts what was built on disk, in front of the other plans of its key."""
    _keep(key, variant.name, lambda: _plan(variant, captured))


def keep_refusal(key: str | None, name: str, refused: Refused) -> None:
    """Puts on disk why a function is refused, if that does not depend on the call alone."""
    captured, reason = refused.captured, refused.why
    if captured is not None and reason.code not in OF_ONE_CALL:
        _keep(key, name, lambda: {"refused": _packed_reason(reason), **_relied_on(captured)})


def _keep(key: str | None, name: str, make: Callable[[], dict[str, Any]]) -> None:
    cache = objects.default_cache()
    if key is None or cache is None:
        return
    try:
        plan = make()
    except Unmarked as error:
        events.record("plan_not_kept", name, error=str(error))
        return
    others = [other for other in _plans(cache.get(key)) if not _replaces(plan, other)]
    kept = {"name": name, "plans": [plan, *others][:MOST_PLANS]}
    cache.put(key, objects.Entry(b"", kept))


def _replaces(plan: Any, other: Any) -> bool:
    if not isinstance(other, dict):
        return True
    return all(plan.get(name) == other.get(name) for name in ("code", "statics", "sources"))


def _relied_on(captured: Captured) -> dict[str, Any]:
    """What holds for a capture, and with it for what was made of it."""
    if captured.unkept:
        raise Unmarked(captured.unkept)
    if sum(x.nbytes for x in captured.constants) > LARGEST:
        raise Unmarked("large constants")
    return {
        "statics": [[packing.packed_source(s), mark(x)] for s, x in captured.statics],
        "sameness": _sameness(live for _, live in captured.statics),
        "looked": [[module, name, mark_of_part(x)] for module, name, x in captured.looked],
        "absent": [packing.packed_source(s) for s in captured.absent],
        "constants": [packing.packed_array(x) for x in captured.constants],
        "sources": [packing.packed_source(s) for s in captured.sources],
        "reasons": list(map(_packed_reason, captured.reasons)),
    }


def _packed_reason(reason: Why) -> list[Any]:
    return [reason.code, reason.text, reason.file, reason.line]


def _plan(variant: Variant, captured: Captured) -> dict[str, Any]:
    from tailorbird.ir.show import show

    recipe, graph = variant.recipe, variant.graph
    text = show(graph)
    if "opaque(" in text or len(text) > LARGEST:
        raise Unmarked("a graph that has no text, or is very large")
    types: list[Any] = [
        [p.type.dtype.name, list(map(packing.packed_dim, p.type.shape))] for p in graph.parameters
    ]
    return {
        **_relied_on(captured),
        "types": types + [["int", []] for _ in graph.ints],
        "guards": [[g.rel, packing.packed_dim(g.expr)] for g in graph.guards],
        "results": packing.packed_shape(recipe.results),
        "leaves": [[x.kind, x.name, x.layout, x.written] for x in recipe.leaves],
        "places": recipe.places,
        "objects": [packing.packed_object(x) for x in recipe.objects],
        "sizes": recipe.sizes,
        "graph": text,
        "code": recipe.code,
        "blas": _kind_of_blas() if any(x in variant.ir for x in LIBRARIES) else None,
    }
