"""Random generators of the caller's, as values of a graph.

In: a `Generator` or `RandomState`. Out: a token, an array of two int64: which generator it is, and
how often it was drawn from. `draw` takes a token and gives what was drawn and the next token; so
draws stay in the order in which they were written, through loops and branches, like versions of an
array that is written in place.

Invariants: a generator is held as long as the token that was made for a call, and is found by what
the token holds only while that lives. The state before the first draw is kept, so that a call that
leaves half way can be taken back before plain Python runs.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

DRAW = "tailorbird.ir.draws:draw"  # the function of a call that draws
SIZE = 2  # words of a token
_BYTES = SIZE * 8


class Draws(bytearray):
    """The memory of a token, and the generator it stands for."""

    generator: Any = None
    state: Any = None


_known: weakref.WeakValueDictionary[int, Draws] = weakref.WeakValueDictionary()


def token(generator: Any) -> np.ndarray:
    """The token of a generator that nothing was drawn from.

    >>> first = token(np.random.default_rng(0))
    >>> x, second = draw(first, "integers", 10, size=3)
    >>> x, second[1]
    (array([8, 6, 5]), np.int64(1))
    """
    memory = Draws(_BYTES)
    memory.generator = generator
    made: np.ndarray = np.ndarray((SIZE,), np.int64, memory)
    made[0] = id(memory)
    _known[id(memory)] = memory
    return made


def draw(before: Any, method: str, *args: Any, **keywords: Any) -> tuple[Any, np.ndarray]:
    """What a generator's method gives, and the next token."""
    memory = _known[int(before[0])]
    if memory.state is None:
        memory.state = _state_of(memory.generator)
    result = getattr(memory.generator, method)(*args, **keywords)
    return result, np.array([before[0], before[1] + 1])


def take_back(tokens: Any) -> None:
    """Sets generators to where they were when their tokens were made; others are no tokens."""
    for made in tokens:
        memory = getattr(made, "base", None)
        if isinstance(memory, Draws) and memory.state is not None:
            _set_state(memory.generator, memory.state)
            memory.state = None


def _state_of(generator: Any) -> Any:
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return generator.bit_generator.state


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state
