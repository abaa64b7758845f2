"""Guards in code: arguments in, sizes and addresses out, or a miss.

For each leaf the entry checks what the variant was compiled for (type, dtype, rank, layout,
writeable) and binds what it needs: a bare size symbol binds where it is first seen, any other
dimension is compared. A check costs a load and a compare; what no address depends on is compared
together.
"""

from __future__ import annotations

from tailorbird.dispatch import abi
from tailorbird.dispatch.leaf import WEAK, ZERO_D, Leaf
from tailorbird.dispatch.text import Text
from tailorbird.emit.builder import MEMORY_TYPES
from tailorbird.emit.frame import Frame
from tailorbird.ir.expr import Dim, Expr, Sym, product
from tailorbird.ir.node import Guard, Value
from tailorbird.ir.types import LONG
from tailorbird.lower.kernel import PART, SIZES


def descr(t: Text, short: str) -> str:
    return t.data(f"tb_descr_{LONG[short].name}")


def is_dtype(t: Text, found: str, short: str) -> str:
    """Whether a dtype object is of the scalar type and in native order; an array that was pickled
    has one of its own.
    """
    scalar = t.field(found, abi.DESCR_SCALAR, "ptr")
    same = t.reg(f"icmp eq ptr {scalar}, {t.data(f'tb_scalar_type_{LONG[short].name}')}")
    order = t.field(found, abi.DESCR_ORDER, "i8")
    return t.reg(f"and i1 {same}, {t.reg(f'icmp ne i8 {order}, {abi.SWAPPED}')}")


def bind_size(t: Text, dim: Dim, register: str) -> None:
    """A bare symbol takes the value; anything else must equal it."""
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        (monomial, coefficient), *_ = dim.terms
        if (
            coefficient == 1
            and len(monomial) == 1
            and monomial[0].kind != "op"
            and monomial[0] not in t.symbols
        ):
            t.symbols[monomial[0]] = register
            return
    if not t.can_compute(dim):
        t.pending.append((dim, register))
        return
    t.expect(t.reg(f"icmp eq i64 {register}, {t.size(dim)}"))


def settle_pending(t: Text) -> None:
    """Compares the dimensions that had to wait."""
    for dim, register in t.pending:
        t.expect(t.reg(f"icmp eq i64 {register}, {t.size(dim)}"))
    t.pending.clear()


def check_array(t: Text, obj: str, value: Value, leaf: Leaf, position: int) -> str:
    """An exact ndarray of the right dtype, rank and layout; binds its sizes; the register of its
    data.
    """
    rank = value.type.rank
    kind = t.field(obj, abi.TYPE, "ptr")
    t.require(t.reg(f"icmp eq ptr {kind}, {t.data('tb_ndarray_type')}"))
    same = is_dtype(t, t.field(obj, abi.ARRAY_DESCR, "ptr"), value.type.short)
    ndim = t.field(obj, abi.ARRAY_NDIM, "i32")
    ranked = t.reg(f"icmp eq i32 {ndim}, {rank}")
    wanted = abi.ALIGNED | (abi.WRITEABLE if leaf.written else 0)
    wanted |= {"C": abi.C_CONTIGUOUS, "F": abi.F_CONTIGUOUS}.get(leaf.layout, 0)
    flags = t.field(obj, abi.ARRAY_FLAGS, "i32")
    flagged = t.reg(f"icmp eq i32 {t.reg(f'and i32 {flags}, {wanted}')}, {wanted}")
    t.require(t.reg(f"and i1 {t.reg(f'and i1 {same}, {ranked}')}, {flagged}"))
    dims = t.field(obj, abi.ARRAY_DIMS, "ptr")
    for k, dim in enumerate(value.type.shape):
        bind_size(t, dim, t.field(dims, 8 * k, "i64"))
    if leaf.layout.startswith("S"):
        bind_strides(t, obj, value, leaf, position)
    return t.field(obj, abi.ARRAY_DATA, "ptr")


def bind_strides(t: Text, obj: str, value: Value, leaf: Leaf, position: int) -> None:
    """Strides in elements; a stride that is not a whole number of elements is a miss."""
    item = SIZES[value.type.short]
    shift = item.bit_length() - 1
    strides = t.field(obj, abi.ARRAY_STRIDES, "ptr")
    for k in range(value.type.rank):
        raw = t.field(strides, 8 * k, "i64")
        if leaf.layout[1:] == str(k):
            t.expect(t.reg(f"icmp eq i64 {raw}, {item}"))
            continue
        if shift:
            low = t.reg(f"and i64 {raw}, {item - 1}")
            t.expect(t.reg(f"icmp eq i64 {low}, 0"))
            raw = t.reg(f"ashr i64 {raw}, {shift}")
        t.symbols[Sym(f"s{position}_{k}", "stride")] = raw


def check_scalar(t: Text, obj: str, value: Value, leaf: Leaf, frame: Frame, name: str) -> None:
    """A Python float, complex or NumPy scalar, copied into the frame."""
    short = value.type.short
    if leaf.kind == ZERO_D:
        source = check_array(t, obj, value, leaf, -1)
    else:
        types = {"f64": "tb_PyFloat_Type", "c128": "tb_PyComplex_Type"}
        wanted = types[short] if leaf.kind == WEAK else f"tb_scalar_type_{LONG[short].name}"
        kind = t.field(obj, abi.TYPE, "ptr")
        t.require(t.reg(f"icmp eq ptr {kind}, {t.data(wanted)}"))
        source = t.offset(obj, abi.SCALAR_VALUE)
    part = PART.get(short)
    names = [(f"{name}.re", 0), (f"{name}.im", SIZES[part])] if part else [(name, 0)]
    ty = part or short
    for key, offset in names:
        register = t.field(source, offset, MEMORY_TYPES[ty])
        put(t, frame, MEMORY_TYPES[ty], register, "scalar", key, ty)


def check_int(t: Text, obj: str, name: str) -> None:
    """An exact Python int that fits 64 bits, bound to its symbol."""
    kind = t.field(obj, abi.TYPE, "ptr")
    t.require(t.reg(f"icmp eq ptr {kind}, {t.data('tb_PyLong_Type')}"))
    overflow = t.slot("i32", "0")
    register = t.call("tb_PyLong_AsLongLongAndOverflow", "i64", ("ptr", obj), ("ptr", overflow))
    t.require(t.reg(f"icmp eq i32 {t.reg(f'load i32, ptr {overflow}')}, 0"))
    t.symbols[Sym(name, "int")] = register


def check_guards(t: Text, guards: list[Guard]) -> list[Guard]:
    """Relations between sizes and integer arguments; gives back those that have to wait."""
    waiting = []
    for guard in guards:
        if not t.can_compute(guard.expr):
            waiting.append(guard)
            continue
        relation = {"==": "eq", "!=": "ne", ">=": "sge"}[guard.rel]
        t.expect(t.reg(f"icmp {relation} i64 {t.size(guard.expr)}, 0"))
    return waiting


def check_apart(
    t: Text,
    written: list[tuple[Value, str]],
    others: list[tuple[Value, str]],
    strides: dict[Value, tuple[Dim, ...]],
) -> None:
    """Arguments that are written must not share memory with any other argument. Those that lie in
    one piece have no strides.
    """
    ranges = {}
    for value, data in dict([*written, *others]).items():
        ranges[value] = memory_range(t, value, data, strides.get(value))
    seen = set()
    for value, _ in written:
        seen.add(value)
        low, high = ranges[value]
        for other, (low2, high2) in ranges.items():
            if other in seen:
                continue
            before = t.reg(f"icmp ule i64 {high}, {low2}")
            after = t.reg(f"icmp ule i64 {high2}, {low}")
            t.expect(t.reg(f"or i1 {before}, {after}"))


def check_spread(t: Text, value: Value, strides: tuple[Dim, ...]) -> None:
    """No two elements of an argument that is written may be one: each stride steps over what the
    shorter ones reach.
    """
    sizes = [t.size(d) for d in value.type.shape]
    steps = [t.size(s) for s in strides]
    steps = [t.op_max(s, t.reg(f"sub i64 0, {s}")) for s in steps]
    reaches = [t.reg(f"mul i64 {t.reg(f'sub i64 {n}, 1')}, {s}") for n, s in zip(sizes, steps)]
    for k, (size, step) in enumerate(zip(sizes, steps)):
        within = "0"
        for j in range(len(sizes)):
            if j != k:
                shorter = t.reg(f"icmp sle i64 {steps[j]}, {step}")
                reach = t.reg(f"select i1 {shorter}, i64 {reaches[j]}, i64 0")
                within = t.reg(f"add i64 {within}, {reach}")
        over = t.reg(f"icmp sgt i64 {step}, {within}")
        t.expect(t.reg(f"or i1 {over}, {t.reg(f'icmp sle i64 {size}, 1')}"))


def memory_range(
    t: Text, value: Value, data: str, strides: tuple[Dim, ...] | None
) -> tuple[str, str]:
    """The lowest byte of an array and the byte after its highest."""
    item = SIZES[value.type.short]
    low = t.reg(f"ptrtoint ptr {data} to i64")
    if strides is None:
        room = t.reg(f"mul i64 {t.size(product(value.type.shape))}, {item}")
        return low, t.reg(f"add i64 {low}, {room}")
    high = t.reg(f"add i64 {low}, {item}")
    for d, stride in zip(value.type.shape, strides, strict=True):
        last = t.reg(f"sub i64 {t.size(d)}, 1")
        reach = t.reg(f"mul i64 {t.reg(f'mul i64 {last}, {t.size(stride)}')}, {item}")
        low = t.reg(f"add i64 {low}, {t.op_min(reach, '0')}")
        high = t.reg(f"add i64 {high}, {t.op_max(reach, '0')}")
    return low, high


def put(t: Text, frame: Frame, llvm_type: str, register: str, *key: object) -> None:
    """Stores a value into its frame slot."""
    slot = frame.slot(*key)
    address = t.reg(f"getelementptr i64, ptr %f, i64 {slot}")
    t.keep(f"store {llvm_type} {register}, ptr {address}, align 8")
