"""What is done to the steps of a program before anything says how they run, in this order."""

from __future__ import annotations

from collections.abc import Mapping

from tailorbird.ir.expr import Sym
from tailorbird.lower.beside import lay_beside
from tailorbird.lower.carry import carry_all
from tailorbird.lower.independent import find_independent
from tailorbird.lower.recurrences import sum_ahead
from tailorbird.lower.scatters import join_scatters
from tailorbird.lower.steps import Program


def rearrange(program: Program, sizes: Mapping[Sym, int]) -> None:
    """All of it; `sizes` are those of the call at hand."""
    find_independent(program.steps)
    carry_all(program.steps)
    join_scatters(program.steps)
    program.steps = sum_ahead(program.steps, program.temporary, sizes)
    program.steps = lay_beside(program.steps, program.temporary, sizes)
