"""The public names: `tailor` and what it returns.

In: a function, and options. Out: a callable that calls like the function it was made from, with
native code behind it. `explain` says what would run and why, `variants` lists the compiled code,
`warm` compiles now.

Invariants: tailoring never raises because a function cannot be compiled; such a function stays
plain, with the reason. A call raises what the plain function would raise.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from tailorbird import events, knobs
from tailorbird.dataclass import dataclass, field
from tailorbird.errors import Refused, UsageError
from tailorbird.reasons import Why, why

OPTIONS = frozenset(("background", "deterministic", "device", "exact"))
DEVICES = ("cpu",)
_types: list[type] = []


class Tailored:
    """A function with native code behind it."""

    _tiers: Any
    _options: dict[str, Any]
    __wrapped__: Callable[..., Any]

    @property
    def variants(self) -> list[Any]:
        """The compiled variants, newest first, with guards, hits, misses and times."""
        return [built.variant for built in self._tiers.built]

    def warm(self, *args: Any, **kwargs: Any) -> Any:
        """Compile for arguments like these now, without calling the function; gives the function.

        A method takes the object first: `Model.step.warm(model, x)`.
        """
        tiers = self._tiers
        if tiers.why is None:
            values = tiers.binder(*args, **kwargs)
            tiers.prepare(values, self)
        return self

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """What would run for these arguments and why: text, and HTML in a notebook."""
        from tailorbird.explain import explain

        return explain(self, args, kwargs)

    # What `inspect` looks for in functions.
    __code__ = property(lambda self: self.__wrapped__.__code__)
    __defaults__ = property(lambda self: self.__wrapped__.__defaults__)
    __kwdefaults__ = property(lambda self: self.__wrapped__.__kwdefaults__)

    def __repr__(self) -> str:
        return f"<tailored {_name(self.__wrapped__)}>"

    def __reduce__(self) -> Any:
        function = self.__wrapped__
        home: Any = sys.modules.get(getattr(function, "__module__", None) or "")
        for part in _name(function).split("."):
            home = getattr(home, part, None)
        if home is self:
            return _name(function)  # pickled by name, as functions are
        return _rebuild, (function, tuple(sorted(self._options.items())))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


@dataclass
class Stays:
    """What stands behind a callable that is plain for good: the reason, and nothing built."""

    function: Callable[..., Any]
    why: Why
    built: list[Any] = field(default_factory=list)


def tailor(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Cut native code for a function while it runs.

    >>> import numpy as np, tailorbird as tb
    >>> @tb.tailor
    ... def scale(x, s):
    ...     return x * s + 1
    >>> scale(np.arange(3.0), 2.0)
    array([1., 3., 5.])

    Options: `background=False` compiles in the first call instead of behind it;
    `deterministic=True` pins one variant, so that equal calls give equal bits from the first call
    on; `exact=True` computes products of matrices in the order in which they are written;
    `device="cpu"` is the one device there is.
    """
    _check(options)
    if function is None:
        return lambda f: tailor(f, **options)
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(tailor(function.__func__, **options))
    if not callable(function):
        raise UsageError(f"tailor takes a function, and {function!r} is not callable")
    if isinstance(function, tuple(_types)):
        inner: Any = function
        function = inner.__wrapped__
    return _make(function, options)


def _check(options: dict[str, Any]) -> None:
    for name in options:
        if name not in OPTIONS:
            known = ", ".join(sorted(OPTIONS))
            raise UsageError(f"tailor has no option {name!r}; the options are {known}")
    device = options.get("device", DEVICES[0])
    if device not in DEVICES:
        raise UsageError(f"there is no device {device!r} here; the devices are {DEVICES}")


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _rebuild(function: Callable[..., Any], options: tuple[tuple[str, Any], ...]) -> Any:
    return tailor(function, **dict(options))


def _make(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The callable; where no native callables can be made here, a plain wrapper."""
    try:
        from tailorbird.dispatch import object as callables

        if not _types:
            _types.append(callables.make_type(Tailored))
            if callables.is_first():  # no plan is there, so the first call will need the compiler
                _load_compiler()
        made = callables.new(_types[0])
        made._options = dict(options)
        made._tiers, table = _behind(function, options)
        functools.update_wrapper(made, function)
        callables.install(made, table)
        return made
    except Refused as refused:
        events.record("refused", _name(function), why=refused.why)
        return _wrapped(function, refused.why)


def _load_compiler() -> None:
    import tailorbird.capture.trace
    import tailorbird.dispatch.plans
    import tailorbird.lower.regions
    import tailorbird.pipeline  # noqa: F401


def _behind(function: Callable[..., Any], options: dict[str, Any]) -> tuple[Any, Any]:
    """The tiers of a function and its table; what is not a Python function stays plain."""
    from tailorbird.dispatch import object as callables
    from tailorbird.dispatch.tiers import Tiers
    from tailorbird.dispatch.variant import NEVER

    if inspect.isfunction(function):
        pinned = bool(options.get("deterministic"))
        background = bool(options.get("background", True)) and not pinned
        build = _build_exactly if options.get("exact") else _build
        tiers = Tiers(function, build, background, knobs.get("race") and not pinned)
        return tiers, tiers.table()
    kind = type(function).__name__
    reason = why("not_a_function", name=_name(function), type=kind)
    events.record("refused", _name(function), why=reason)
    rest = ctypes.c_int64(NEVER)
    return Stays(function, reason), callables.Table((), (), function, plain=function, rest=rest)


def _build(function: Any, bound: dict[str, Any], names: Any, remembered: bool) -> Any:
    """A variant and its capture: from the disk if it may be remembered, or built and kept there."""
    from tailorbird.dispatch import plans

    key = plans.key_for(function, bound)
    found = plans.find(key, function, bound, _again) if remembered else None
    if found is not None:
        return found
    from tailorbird.pipeline import build_variant

    try:
        variant, captured = build_variant(function, bound, names)
    except Refused as refused:
        plans.keep_refusal(key, function.__qualname__, refused)
        raise
    plans.keep(key, variant, captured)
    return variant, captured


def _build_exactly(*asked: Any) -> Any:
    with knobs.scope(off=(*knobs.get("off"), "algebra")):
        return _build(*asked)


def _again(*made_from: Any) -> Any:
    from tailorbird.pipeline import again

    return again(*made_from)


def _wrapped(function: Callable[..., Any], reason: Why) -> Callable[..., Any]:
    """A wrapper that only runs the function, and can say why."""

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    def explain(*args: Any, **kwargs: Any) -> Any:
        from tailorbird.explain import Explanation

        return Explanation(_name(function), "plain", [str(reason)])

    made: Any = plain
    made.variants = []
    made.warm = lambda *args, **kwargs: made
    made.explain = explain
    return made
