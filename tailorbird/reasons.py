"""Every refusal, fallback and guard miss, in one table.

In: a code and its details, `why("no_source", name="step")`. Out: a frozen `Why` whose `str` is a
sentence for the user: where, what, and what to do about it.

Invariants:
- A reason exists only as a row of `REASONS`; another code is an AssertionError, for it is our bug.
- A row is (template, what to do), both in the user's words. A field of the template that `why` was
  not given shows as `?`, so that explaining never fails. Rows are sorted by stage.
- `Why` compares by value, so a reason that was met twice can be counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailorbird.dataclass import dataclass

REASONS: Mapping[str, tuple[str, str]] = {
    # the machine and the switches
    "unsupported_platform": (
        "native code is made for Linux on x86-64 and this is {platform}",
        "the function runs as plain Python here; nothing needs to change",
    ),
    "no_avx2": (
        "this CPU has no AVX2 ({cpu})",
        "run on a CPU with AVX2 or AVX-512",
    ),
    "unknown_target": (
        "there is no target named {name}",
        "use one of {known}",
    ),
    "target_too_new": (
        "this CPU ({cpu}) cannot run code made for {name}",
        "unset TAILOR_TARGET, or name an older CPU",
    ),
    "abi_mismatch": (
        "NumPy or Python lays out {name} in a way this version does not know",
        "update tailorbird, or report the versions that `tailorbird hardware` prints",
    ),
    "switched_off": (
        "{name} is switched off",
        "unset TAILOR_PLAIN",
    ),
    "wrong_setting": (
        "a setting cannot be used: {error}",
        "set it right, or unset it",
    ),
    # capture: the function
    "no_source": (
        "the source of {name} cannot be read",
        "define it in a file or a notebook cell rather than through exec, or in C",
    ),
    "not_a_function": (
        "{name} is a {type}, which is not compiled: only functions written in Python are",
        "tailor a function of your own that calls it",
    ),
    "generator": (
        "{name} is a generator or a coroutine",
        "tailor the array function that it calls instead",
    ),
    "unsupported_syntax": (
        "{name} is not compiled",
        "move it out of the function",
    ),
    "unsupported_call": (
        "{name} is not understood",
        "write it with NumPy functions, or move it out of the function",
    ),
    "opaque_call": (
        "{name} runs as plain Python between compiled pieces",
        "nothing to do, unless it can move out of the function so that the rest is one piece",
    ),
    "reordered": (
        "a product of {factors} factors is computed in another order than written, with {times}"
        " times less work, while its result is finite",
        "`tailor(exact=True)` keeps the order that is written",
    ),
    "looked_up": (
        "a function of bytes is looked up in a table of 256 of its values: {operations} operations",
        "nothing to do: the answer has the same bits",
    ),
    "library_routine": (
        "{name} is a routine of the library that native code has Python call, here in each turn",
        "nothing to do",
    ),
    "data_dependent_branch": (
        "the branch on {name} depends on array data or on a Python float",
        "use np.where, or test before the call and pass an int, a bool or a text",
    ),
    "joined_value": (
        "{name} is read after a branch that depends on array data",
        "bind it on every path, to numbers of one type or to arrays made on both",
    ),
    "lent_array": (
        "what is the caller's own array until a loop has run, and a new one then, is {name}",
        "copy it before the loop: x = x.copy()",
    ),
    "loop_shape": (
        "{name} keeps the loop from being compiled",
        "give each name one array before the loop and write into it, or make a new one each round",
    ),
    "call_in_loop": (
        "{name} gives what is not known before it is called, as a loop or a branch needs it",
        "call it outside, or write it with NumPy functions that are compiled",
    ),
    "data_dependent_loop": (
        "how often the loop over {name} runs depends on the values in an array",
        "give the loop a length known from shapes and Python numbers",
    ),
    "long_loop": (
        "the loop over {name} runs {count} times, and at most {most} are written out",
        "write it with whole arrays, or tailor the function that is called in it",
    ),
    "data_dependent_shape": (
        "the shape of {name} depends on the values in an array",
        "use np.where or a mask of 0 and 1 in place of a boolean index",
    ),
    "unknown_size": (
        "{name} cannot be settled before the function runs",
        "a size named k is that of a result of a plain call; make that call outside the function",
    ),
    "data_dependent_index": (
        "{name} is read at positions that depend on the values in an array",
        "the function runs plain; look up before or after it, and the rest can be compiled",
    ),
    "data_dependent_value": (
        "{name} needs to know a value that is computed from an array",
        "keep it as an array or a NumPy scalar, or move the conversion out of the function",
    ),
    "returns_view": (
        "{name} would be returned as a view of memory that others can see",
        "return a copy, for example with .copy()",
    ),
    "returns_zero_d": (
        "{name} is an array of rank 0",
        "return x[()], which is a NumPy scalar",
    ),
    "reshape_alias": (
        "{name} is written, and whether NumPy copied it when it was reshaped depends on strides",
        "write before reshaping, or reshape a copy",
    ),
    "nothing_to_compile": (
        "{name} computes nothing from its arrays",
        "nothing needs to change: the plain function is as fast as it gets",
    ),
    "capture_bug": (
        "reading {name} failed: {error}",
        "this is a bug of Tailorbird's; the plain function is used meanwhile",
    ),
    "in_place_write": (
        "{name} is written in place",
        "make a new array, for example with np.where or np.concatenate",
    ),
    "attribute_write": (
        "{name} is assigned, which changes an object outside the function",
        "return the new value, and assign it where the function is called",
    ),
    "numpy_raises": (
        "this call raises an exception ({error})",
        "the plain function runs, so that the exception is its own",
    ),
    "promotion": (
        "the type of {name} follows a promotion rule that is not compiled",
        "convert with astype before the operation",
    ),
    "budget": (
        "reading {name} took more steps than allowed",
        "shorten the loops over Python sequences, or tailor a smaller function",
    ),
    # capture: the arguments
    "unsupported_dtype": (
        "{name} has dtype {dtype}, which is not compiled",
        "convert it, for example with astype(np.float32)",
    ),
    "unsupported_type": (
        "{name} is a {type}, which is not compiled",
        "pass NumPy arrays, Python numbers, or tuples, dicts and dataclasses of them",
    ),
    "subclass": (
        "{name} is a {type}, a subclass of ndarray with rules of its own",
        "pass np.asarray({name}) if its extra meaning is not needed",
    ),
    "object_array": (
        "{name} is an array of Python objects",
        "convert it to a numeric dtype",
    ),
    # fuse, lower, emit, assemble
    "too_large": (
        "{name} is too large to compile ({size})",
        "tailor a smaller function",
    ),
    "compile_failed": (
        "the compiler rejected the code for {name}: {error}",
        "this is a bug of Tailorbird's; the plain function is used meanwhile",
    ),
    "no_blas": (
        "NumPy's BLAS cannot be called directly",
        "nothing to do: matrix products go through NumPy",
    ),
    "cache_refused": (
        "a cached object was refused: {detail}",
        "nothing to do: it was removed and compiled again",
    ),
    # dispatch: this call
    "many_kinds_of_call": (
        "{name} was called in more than {count} ways (types, layouts, texts, lengths)",
        "tailor the array function inside, with the same kinds of arguments at each call",
    ),
    "many_variants": (
        "{count} variants were tried for calls like this one, and none fits",
        "keep sizes and objects that decide what is computed the same from call to call",
    ),
    "guard_missed": (
        "no compiled variant fits this call: {detail}",
        "nothing to do: a variant that fits is built if such calls go on",
    ),
    "overlap": (
        "{name} overlaps in memory with {other}, which is written",
        "pass a copy of one of them",
    ),
    "misaligned": (
        "{name} is not aligned to its dtype, or not in this machine's byte order",
        "pass a copy, which is aligned and in native order",
    ),
    "layout": (
        "the memory layout of {name} is not compiled",
        "pass np.ascontiguousarray({name})",
    ),
    "errstate": (
        "np.errstate or np.seterr is not at its default",
        "nothing to do: NumPy itself runs, so that its warnings and errors are as asked",
    ),
    "not_faster": (
        "the compiled variant was not faster ({tailored} against {plain})",
        "nothing to do: the plain function is used for calls of this size",
    ),
}


@dataclass(frozen=True)
class Why:
    """One reason, with the user's line where it is known."""

    code: str
    text: str
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """`file:line` in the user's program, or the empty text."""
        if not self.file:
            return ""
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


class _Blank(dict[str, Any]):
    """Fields for a template, in which a missing one reads as a question mark."""

    def __missing__(self, name: str) -> str:
        return "?"


def why(code: str, *, file: str = "", line: int = 0, **details: Any) -> Why:
    """The reason `code` with its details filled in.

    >>> print(why("generator", file="step.py", line=4, name="step"))
    step.py:4: step is a generator or a coroutine; tailor the array function that it calls instead
    """
    assert code in REASONS, f"no row {code!r} in REASONS"
    fields = _Blank(details)
    what, advice = (part.format_map(fields) for part in REASONS[code])
    return Why(code, f"{what}; {advice}", file, line)


def why_at(place: str, code: str, **details: Any) -> Why:
    """The same at a line that a node of a graph has, `step.py:4`."""
    file, _, line = place.rpartition(":")
    return why(code, file=file, line=int(line) if line.isdigit() else 0, **details)
