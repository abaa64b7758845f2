"""Result structures: tuples, lists and dicts, and their leaves.

In: a structure. Out: its leaves in order, or the same structure with others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def leaves(results: Any) -> Iterator[Any]:
    """The leaves of a result structure, in order."""
    if isinstance(results, (tuple, list)):
        for item in results:
            yield from leaves(item)
    elif isinstance(results, dict):
        for item in results.values():
            yield from leaves(item)
    else:
        yield results


def map_leaves(results: Any, change: Any) -> Any:
    """The same structure with every leaf changed."""
    if isinstance(results, (tuple, list)):
        return type(results)(map_leaves(item, change) for item in results)
    if isinstance(results, dict):
        return {key: map_leaves(item, change) for key, item in results.items()}
    return change(results)
