"""Whether a graph reads a version of a buffer after the node that made the next version of it.

In: a graph of a program that copies no array. Out: the nodes that read too late. Lowering writes in
place by this order, so capture must keep it.
"""

from __future__ import annotations

from tailorbird.ir.node import Region, Value

BASES = {"write": slice(0, 1), "write_mask": slice(0, 1), "scatter": slice(0, 1)}
CARRIED = {"loop": slice(3, None), "while": slice(0, None)}


def late_reads(graph):
    """(node, value) pairs: an array is used after it was overwritten."""
    found = []
    _walk(graph.body, set(), found)
    return found


def _walk(region: Region, gone: set[Value], found):
    for node in region.nodes:
        found += [(node, x) for x in node.inputs if x in gone]
        for inner in node.regions:
            _walk(inner, set(gone), found)
        places = BASES.get(node.op, CARRIED.get(node.op, slice(0, 0)))
        if node.op in CARRIED:
            *_, body = node.regions
            pairs = zip(node.inputs[places], body.parameters, body.yields)
            gone |= {x for x, p, y in pairs if _is_array(x) and _made_from(y, p)}
        else:
            gone |= {x for x in node.inputs[places] if _is_array(x)}
    found += [(region, x) for x in region.yields if x in gone]


def _is_array(x):
    return isinstance(x, Value) and x.type.rank > 0


def _made_from(y, p):
    """Whether a yield is a version of the parameter, and not another array."""
    while isinstance(y, Value) and y is not p and y.node is not None:
        if y.node.op not in (*BASES, *CARRIED):
            return False
        places = BASES.get(y.node.op, CARRIED.get(y.node.op))
        y = y.node.inputs[places][y.index if y.node.op in CARRIED else 0]
    return y is p
