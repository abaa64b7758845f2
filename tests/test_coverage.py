"""Every row of the table of ops, by kind of dtype, and what the LLVM backend does with it.

Each map has code, is decomposed into maps that have, or is left to NumPy by name; anything else
fails here. The table is written to docs/op_table.md; `pytest --bless` rewrites it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tailorbird.assemble import symbols
from tailorbird.emit import libm, ops
from tailorbird.emit.vmath import VECTOR_MATH
from tailorbird.errors import Refused
from tailorbird.fuse.capable import folds, generated
from tailorbird.fuse.flow import inlines
from tailorbird.ir.expr import symbol
from tailorbird.ir.node import Graph, Node, Value, View, type_of
from tailorbird.ir.ops import OPS, ROWS
from tailorbird.ir.promote import LEGACY
from tailorbird.ir.shapes import infer_all
from tailorbird.ir.signature import SIGNATURES
from tailorbird.ir.types import LONG, Type
from tailorbird.lower import complex as pairs
from tailorbird.lower.opaque import MOVES
from tailorbird.rewrite.decompose import decompose

PAGE = Path(__file__).resolve().parent.parent / "docs" / "op_table.md"
COLUMNS = {"bool": "b1", "integers": "i32", "unsigned": "u32", "floats": "f64", "complex": "c128"}
N = symbol("n")
VECTOR = (N,)
LEFT_OUT = frozenset({"region", "effect"})
# Steps of their own, and what runs them.
STEPS = {"matmul": "BLAS", "write": "nest", "concatenate": "nest", "reshape": "no copy, or a nest"}
STEPS |= {"compress": "nest", "scatter": "nest", "extent": "a size"}
INTRO = """# What runs each op

Written by `tests/test_coverage.py` (`pytest --bless`). For each row of `ir/ops.py` and each kind of
dtype: how the LLVM backend runs it.

- **code**: a row of `emit/ops.py` or `lower/complex.py`, inlined into a kernel
- **vector math**: inlined from `emit/vmath.py`, within 4 ulp
- **C library**: called for each lane
- **fold**, **scan**, **nest**, **BLAS**, **LAPACK**: a kernel or a library call of its own
- *add, multiply*: decomposed by `rewrite/` into these, which are run as their own rows say
- NumPy: a call of NumPy between kernels
- empty: NumPy has no such loop

"""


def one_op(op: str, short: str) -> Graph | None:
    """The graph of one op on vectors of a dtype; None where NumPy has no loop."""
    dtype = LONG[short]
    attrs = attributes(op, dtype)
    count = 1 if op in ("einsum",) else max(SIGNATURES[op].least, 1)
    shape = (N, N) if OPS[op].kind in ("contract", "linear") else VECTOR
    parameters = [Value(Type(dtype, shape), name=f"x{k}") for k in range(count)]
    operands = list(parameters)
    if OPS[op].kind == "create":
        operands = [1] * SIGNATURES[op].least
    elif op == "where" or op == "write_mask":
        place = 0 if op == "where" else 1
        operands[place] = parameters[place] = Value(Type(LONG["b1"], VECTOR), name="mask")
    elif op in ("take", "gather", "scatter"):
        operands[1] = parameters[1] = Value(Type(LONG["i64"], VECTOR), name="index")
    elif op == "compress":
        operands[1] = parameters[1] = Value(Type(LONG["b1"], VECTOR), name="mask")
    if op == "write_mask":
        operands[2] = True
    graph = Graph(op, parameters)
    try:
        types = infer_all(op, operands, attrs)
        graph.results = graph.body.append(Node(op, operands, attrs, types)).outputs[0]
    except Refused:
        return None
    return graph


def attributes(op: str, dtype: np.dtype) -> dict:
    """The attributes an op must have."""
    known = {
        "axis": 0 if OPS[op].kind in ("scan", "move") else (0,),
        "dtype": dtype,
        "shape": VECTOR,
        "view": View(((N - 1, -1, 0),), VECTOR),
        "width": ((1, 1),),
        "mode": "edge",
        "endpoint": True,
        "size": symbol("k", "fresh"),
        "subscripts": "ij->ji",
    }
    if op == "reshape":
        return {"shape": (N, 1)}
    return {name: known[name] for name in SIGNATURES[op].must}


def how(node: Node) -> str:
    """What runs one core node; an AssertionError when nothing does."""
    kind = OPS[node.op].kind
    if kind == "map":
        return how_map(node)
    if kind == "reduce":
        return "fold" if folds(node) else "NumPy"
    if kind == "scan":
        return "NumPy" if node.op == "cumprod" and is_complex(node) else "scan"
    if kind == "linear":
        return "LAPACK"
    if node.op in STEPS:
        return STEPS[node.op]
    if inlines(node):
        return "code"
    assert node.op in MOVES or OPS[node.op].meaning is not None, f"nothing runs {node.op}"
    return "NumPy"


def is_complex(node: Node) -> bool:
    return any(type_of(x).dtype.kind == "c" for x in node.inputs)


def how_map(node: Node) -> str:
    if not generated(node):
        return "NumPy"
    if node.op in ("cast", "where", "complex"):
        return "code"
    if is_complex(node):
        if node.op in pairs.LIBRARY:
            return found_in_library(pairs.LIBRARY[node.op])
        assert node.op in pairs.TABLE or node.op in ("real", "imag"), f"no complex {node.op}"
        return "code"
    if node.op in ops.TABLE:
        return "code"
    if node.op in VECTOR_MATH:
        return "vector math"
    return found_in_library(libm.NAMES.get(node.op, node.op))


def found_in_library(name: str) -> str:
    assert symbols.resolve_one(name) and symbols.resolve_one(f"{name}f"), name
    return "C library"


def cell(op: str, short: str) -> str:
    graph = one_op(op, short)
    if graph is None:
        return ""
    nodes = decompose(graph).body.nodes
    if not nodes:
        return "code"
    if len(nodes) == 1 and nodes[0].op == op:
        return how(nodes[0])
    for node in nodes:
        how(node)
    names = dict.fromkeys(node.op for node in nodes)
    return f"*{', '.join(names)}*"


def table() -> str:
    lines = [f"| op | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for row in ROWS:
        if row.kind not in LEFT_OUT:
            cells = [cell(row.name, short) for short in COLUMNS.values()]
            lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return INTRO + "\n".join(lines) + "\n"


@pytest.mark.skipif(LEGACY, reason="the table is that of NumPy 2")
def test_every_op_has_something_that_runs_it(bless):
    text = table()
    if bless:
        PAGE.write_text(text)
    message = "docs/op_table.md is stale: run pytest --bless tests/test_coverage.py"
    assert PAGE.exists() and PAGE.read_text() == text, message


@pytest.mark.parametrize("row", [r for r in ROWS if r.kind == "map"], ids=lambda r: r.name)
def test_every_map_has_code_or_a_name_in_numpy(row):
    for short in LONG:
        graph = one_op(row.name, short)
        if graph is None:
            continue
        for node in decompose(graph).body.nodes:
            how(node)
