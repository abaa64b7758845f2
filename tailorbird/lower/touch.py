"""Which memory a step reads and writes, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tailorbird.lower.kernel import Buffer, Load, Nest
from tailorbird.lower.schedule import expressions
from tailorbird.lower.steps import (
    Bind,
    Branch,
    Check,
    Factor,
    Gemm,
    Loop,
    ProgramStep,
    PythonCall,
    While,
    inner_steps,
)


def reads(step: ProgramStep) -> Iterator[Buffer]:
    """What one step reads itself, not what steps inside it read."""
    if isinstance(step, Nest):
        yield from (x.buffer for x in expressions(step) if isinstance(x, Load))
    elif isinstance(step, Gemm):
        yield from (step.a.buffer, step.b.buffer)
    elif isinstance(step, Factor):
        yield from step.matrices
    elif isinstance(step, PythonCall):
        yield from (x for x in step.operands if isinstance(x, Buffer))
    elif isinstance(step, (Check, Bind)):
        yield step.buffer
    elif isinstance(step, (While, Branch)):
        yield step.flag
    elif isinstance(step, Loop) and step.until is not None:
        yield step.until


def writes(step: ProgramStep) -> Iterator[Buffer]:
    """What one step writes itself."""
    if isinstance(step, Nest):
        for stage in step.stages:
            yield from (store.buffer for store in (*stage.head, *stage.stores))
    elif isinstance(step, Gemm):
        yield step.out.buffer
    elif isinstance(step, Factor):
        yield from (*step.matrices, *step.vectors)
    elif isinstance(step, PythonCall):
        yield from step.outputs


def written_by(steps: Sequence[ProgramStep]) -> set[str]:
    """The names of all that is written, inside loops too."""
    return {buffer.name for step in inner_steps(steps) for buffer in writes(step)}


def touched_by(steps: Sequence[ProgramStep]) -> set[str]:
    """The names of all that is read or written, inside loops too."""
    return {b.name for step in inner_steps(steps) for b in (*reads(step), *writes(step))}
