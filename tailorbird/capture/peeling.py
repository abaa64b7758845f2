"""What to try when a loop does not close as it stands: split buffers, peel rounds, take several.

In: a loop. Out: None once it is captured, else the reason why not, with everything as before.

Invariants: the order of attempts is fixed: as it stands; with buffers that are seen through
disjoint views alone split into one for each; after running the body on heap shapes until one
repeats, with the rounds before the cycle peeled and as many rounds as the cycle has in one
iteration, the rest under branches; with copies of arrays that others see lent to the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from tailorbird.capture.arith import condition, integers
from tailorbird.capture.attempt import Attempt
from tailorbird.capture.branches import BREAK, LEFT, STOP, branch, is_scalar, scalar_operand
from tailorbird.capture.heap import arrays, is_whole, pins, place
from tailorbird.capture.loops import Site, distance, settled
from tailorbird.capture.rounds import Rounds
from tailorbird.capture.tracer import Tracer
from tailorbird.capture.values import Arr, Buffer, Poison, Scal, is_static
from tailorbird.capture.views import is_contiguous
from tailorbird.dataclass import replace
from tailorbird.errors import Refused
from tailorbird.ir.expr import Dim, apply
from tailorbird.ir.node import Region, Value, View, type_of

LONGEST_SEARCH = 6
LONGEST_PERIOD = 4
MOST_PEELED = 3


def attempts(t: Tracer, site: Site, rounds: Rounds | None) -> str | None:
    """Captures the loop by the first attempt that closes; where names had to be tagged when it was
    captured before, for another attempt at a loop around it, that comes second.
    """
    if site.statement in t.tagged:
        reason = settled(t, site, rounds)
        if reason is None or settled(t, site, rounds, tagging=True) is None:
            return None
    reason = _rearranged(t, site, rounds)
    if reason is None or (t.lends and _lent(t, site, rounds)):
        return None
    return settled(t, site, rounds, tagging=True) and reason


def _rearranged(t: Tracer, site: Site, rounds: Rounds | None) -> str | None:
    reason = settled(t, site, rounds)
    if reason is None:
        return None
    before = Attempt(t)
    if _split(t, site):
        if settled(t, site, rounds) is None:
            return None
        before.abandon()
    if rounds is None:
        return reason
    cycle = _cycle(t, site, rounds)
    if cycle is None or cycle == (0, 1):
        return reason
    before = Attempt(t)
    try:
        _peeled(t, site, rounds, *cycle)
    except (_Open, Refused) as open_:
        before.abandon()
        return str(open_) if isinstance(open_, _Open) else reason
    return None


def _lent(t: Tracer, site: Site, rounds: Rounds | None) -> bool:
    """Whether the loop closes once names that it binds anew begin with copies of what others see
    too (`x = step(x)` for an argument x). Nothing may tell the copies from the arrays: the loop
    leaves those as they are, and what writes either, or returns or compares a copy, is refused.
    """
    before, pinned = Attempt(t), pins(t)
    names = site.frame.names
    kept: list[tuple[Buffer, Value]] = []
    for name in sorted(site.assigned & site.live):
        x = names.get(name)
        if isinstance(x, Arr) and is_whole(x) and x.buffer in pinned:
            kept.append((x.buffer, x.buffer.content))
            names[name] = t.array(x.buffer.content, contiguous=x.buffer.contiguous)
            names[name].buffer.lent = True
    if not kept:
        return False
    try:
        closes = settled(t, site, rounds) is None
    except Refused as refused:
        if refused.why.code != "lent_array":
            raise
        closes = False
    if closes and all(buffer.content is content for buffer, content in kept):
        t.lenders += [buffer for buffer, _ in kept]
        return True
    before.abandon()
    return False


class _Open(Exception):
    """A loop does not close after peeling, either."""


# Splitting


def _split(t: Tracer, site: Site) -> bool:
    """A buffer that is seen only through views which never meet becomes one buffer for each."""
    names = site.frame.names
    pinned = pins(t)
    users: dict[Buffer, list[tuple[str, Arr]]] = {}
    shared: set[Buffer] = set()
    for name, x in names.items():
        for a in arrays(x):
            if a is x and (a.buffer.base is None or a.buffer.shares):
                users.setdefault(a.buffer.root, []).append((name, a))
            else:
                shared.add(a.buffer.root)
    done = False
    for root, seen in users.items():
        ways = {place(a): a for _, a in seen}
        views = [_outermost(a) for a in ways.values()]
        apart = all(_disjoint(v, w) for k, v in enumerate(views) for w in views[:k])
        if root in pinned or root in shared or any(map(is_whole, ways.values())) or not apart:
            continue
        made = {way: t.array(t.read(a), is_contiguous(t, a)) for way, a in ways.items()}
        objects = {id(a): Arr(made[place(a)].buffer) for _, a in seen}
        for name, a in seen:
            names[name] = objects[id(a)]
        done = True
    return done


def _outermost(x: Arr) -> View | None:
    """The view of a buffer with memory of its own through which x is seen, reshaped or not."""
    view, buffer = x.view, x.buffer
    while buffer.base is not None:
        view, buffer = buffer.base.view, buffer.base.buffer
    return view


def _disjoint(v: View | None, w: View | None) -> bool:
    """Whether two views fix one axis of the base at two different numbers."""
    if v is None or w is None:
        return False
    for (a, _, axis), (b, _, other) in zip(v.dims, w.dims):
        numbers = isinstance(a, int) and isinstance(b, int)
        if axis is None and other is None and numbers and a != b:
            return True
    return False


# The cycle of heap shapes


def _shape(t: Tracer, site: Site) -> Hashable:
    """The heap shape: pinned buffers by identity, others by the order in which they are met."""
    pinned = pins(t)
    numbers: dict[Buffer, int] = {}

    def of(x: Any) -> Hashable:
        if isinstance(x, Arr):
            root, path = place(x)
            at = id(root) if root in pinned else numbers.setdefault(root, len(numbers))
            return ("array", at, path, x.dtype.str, x.ndim)
        if isinstance(x, Poison):
            return "poison"
        if is_scalar(x):
            kind = type_of(scalar_operand(t, x))
            return (kind.dtype.str, kind.weak)
        if isinstance(x, tuple):
            return tuple(map(of, x))
        return repr(x) if is_static(x) else id(x)

    names = site.frame.names
    return tuple((n, of(names[n])) for n in sorted(site.live) if n in names)


def _cycle(t: Tracer, site: Site, rounds: Rounds) -> tuple[int, int] | None:
    """Rounds before the shapes repeat, and after how many they do; found in a scratch region."""
    before = Attempt(t)
    kept: list[Any] = []
    shapes = [_shape(t, site)]
    try:
        t.region = Region(t.region)
        for k in range(LONGEST_SEARCH):
            outcome = _round(t, site, rounds, rounds.start + k * rounds.step)
            if outcome in (BREAK, LEFT):
                return k + 1, 1
            kept.append(dict(site.frame.names))
            shapes.append(_shape(t, site))
            if shapes[-1] in shapes[:-1]:
                first = shapes.index(shapes[-1])
                period = len(shapes) - 1 - first
                fits = first <= MOST_PEELED and period <= LONGEST_PERIOD
                return (first, period) if fits else None
        return None
    except Refused:
        return None
    finally:
        before.abandon()


def _round(t: Tracer, site: Site, rounds: Rounds, at: Dim) -> Any:
    """One round outside the node."""
    from tailorbird.capture.control import run_round

    t.bodies += 1
    outcome = run_round(t, site, rounds, t.assume.canon(at))
    if site.broke:
        left = outcome is not None
        flag = Scal(outcome[1]) if left and outcome[0] == STOP else left
        site.frame.names[site.broke] = flag
    return outcome


# Peeling


def _peeled(t: Tracer, site: Site, rounds: Rounds, first: int, period: int) -> Any:
    """The first rounds one by one, each if there is one; then the cycle."""
    if not first:
        return _by_period(t, site, rounds, period)
    rest = replace(rounds, start=t.assume.canon(rounds.start + rounds.step))

    def one() -> Any:
        outcome = _round(t, site, rounds, rounds.start)
        return _then(t, site, outcome, lambda: _peeled(t, site, rest, first - 1, period))

    return _if_at_least(t, site, distance(rounds), 1, one)


def _then(t: Tracer, site: Site, outcome: Any, go_on: Callable[[], Any]) -> Any:
    """Goes on unless the round left the loop."""
    if outcome is None:
        return go_on()
    if outcome[0] == STOP and isinstance(outcome[1], Value):
        branch(t, site.frame, outcome[1], lambda: None, lambda: _ended(go_on()), site.live)
    return None


def _ended(outcome: Any) -> None:
    """How an inner part was left does not matter to what comes after the loop."""


def _if_at_least(t: Tracer, site: Site, x: Dim, least: Dim, run: Callable[[], Any]) -> Any:
    """Runs where x >= least: always, never, or in a branch."""
    test = integers(t, "greater_equal", t.assume.canon(x), t.assume.canon(least))
    found = condition(t, test, "the number of rounds")
    if isinstance(found, Value):
        return branch(t, site.frame, found, lambda: _ended(run()), lambda: None, site.live)
    return run() if found else None


def _by_period(t: Tracer, site: Site, rounds: Rounds, period: int) -> Any:
    """Whole cycles in one node, then the rounds that are left."""
    count = t.assume.greatest(rounds.count(t), 0)
    if period == 1:
        whole: Dim = count
        middle = rounds.stop
    else:
        whole = apply("floordiv", count, period)
        middle = t.assume.canon(rounds.start + whole * (period * rounds.step))
    reason = settled(t, site, replace(rounds, stop=middle), period)
    if reason is not None:
        raise _Open(reason)
    left = t.assume.canon(count - whole * period)

    def one(k: int) -> Any:
        outcome = _round(t, site, rounds, middle + (k - 1) * rounds.step)
        if outcome is not None:
            raise _Open("a loop that is left early, and whose arrays change places,")
        return more(k + 1)

    def more(k: int) -> Any:
        return _if_at_least(t, site, left, k, lambda: one(k)) if k < period else None

    return more(1)
