"""The public names: `tailor` and what it returns.

A tailored function calls like the function it was made from. `explain` says what would run and why, `variants` lists the compiled code, `warm`
compiles now.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from tailorbird import events, knobs
from tailorbird.errors import Refused, UsageError
from tailorbird.reasons import why

OPTIONS = frozenset(("background", "deterministic", "device", "exact"))
_types: list[type] = []


class Tailored:
    """A function with native code behind it."""

    _tiers: Any
    __wrapped__: Callable[..., Any]

    @property
    def variants(self) -> list[Any]:
        """The compiled variants, newest first, with guards, hits, misses and times."""
        return [built.variant for built in self._tiers.built]

    def warm(self, *args: Any, **kwargs: Any) -> Any:
        """Compile for arguments like these now, without calling the function; returns the function."""
        tiers = self._tiers
        bound = tiers.bind(args, kwargs)
        if bound is None:
            inspect.signature(self.__wrapped__).bind(*args, **kwargs)  # says what is wrong
        with tiers.lock, knobs.scope(background=False):
            tiers.record_of(bound, self)
        from tailorbird.dispatch.worker import WORKER

        WORKER.wait(60.0)
        return self

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """What would run for these arguments and why: text, and HTML in a notebook."""
        from tailorbird.explain import explain

        return explain(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<tailored {self.__wrapped__.__qualname__}>"

    def __reduce__(self) -> Any:
        function = self.__wrapped__
        home: Any = sys.modules.get(function.__module__)
        for part in function.__qualname__.split("."):
            home = getattr(home, part, None)
        if home is self:
            return function.__qualname__  # pickled by name, as functions are
        return _rebuild, (function, tuple(sorted(self._options.items())))  # type: ignore[attr-defined]

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def tailor(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Cut native code for a function while it runs.

    >>> import numpy as np, tailorbird as tb
    >>> @tb.tailor
    ... def scale(x, s):
    ...     return x * s + 1
    >>> scale(np.arange(3.0), 2.0)
    array([1., 3., 5.])

    Options: `background=False` compiles in the first call instead of behind it; `deterministic=True` pins one variant, so
    that equal calls give equal bits from the first call on.
    """
    unknown = set(options) - OPTIONS
    if unknown:
        raise UsageError(
            f"tailor has no option {sorted(unknown)[0]!r}; the options are {', '.join(sorted(OPTIONS))}"
        )
    if options.get("device", "cpu") != "cpu":
        raise UsageError(f"device {options['device']!r} is not known here; the devices are: cpu")
    if function is None:
        return lambda f: tailor(f, **options)
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(tailor(function.__func__, **options))
    if not callable(function):
        raise UsageError(f"tailor takes a function, and {function!r} is not callable")
    return _make(
        getattr(function, "__wrapped__", function) if _is_tailored(function) else function, options
    )


def _is_tailored(x: Any) -> bool:
    return bool(_types) and type(x) is _types[0]


def _rebuild(function: Callable[..., Any], options: tuple[tuple[str, Any], ...]) -> Any:
    return tailor(function, **dict(options))


def _make(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The callable; where native callables cannot be made, or this cannot be read, a plain one with the reason."""
    deterministic = bool(options.get("deterministic"))
    try:
        if not inspect.isfunction(function):
            raise Refused(
                why("unsupported_type", name=repr(function), type=type(function).__name__)
            )
        from tailorbird.dispatch import object as callables
        from tailorbird.dispatch.tiers import Tiers

        if not _types:
            _types.append(callables.make_type(Tailored))
        background = bool(options.get("background", True)) and not deterministic
        tiers = Tiers(function, _build, background, knobs.get("race") and not deterministic)
        made = callables.new(_types[0])
        made._tiers = tiers
        made._options = dict(options)
        functools.update_wrapper(made, function)
        callables.install(made, tiers.table())
        return made
    except Refused as refused:
        events.record("refused", getattr(function, "__qualname__", repr(function)), why=refused.why)
        return _plain(function, refused.why)


def _build(function: Any, bound: dict[str, Any], names: Any) -> Any:
    from tailorbird.pipeline import build_variant

    return build_variant(function, bound, names)


def _plain(function: Callable[..., Any], reason: Any) -> Callable[..., Any]:
    """A wrapper that only runs the function, and can say why."""
    from tailorbird.explain import Explanation

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    made: Any = plain
    made.variants = []
    made.warm = lambda *args, **kwargs: made
    made.explain = lambda *args, **kwargs: Explanation(
        getattr(function, "__qualname__", repr(function)), "plain", [str(reason)], [], ""
    )
    return made
