"""The code behind every call, in LLVM IR: bind the arguments, try the entries, rest or fall back.

Exports the slots of the heap type that `object.py` makes: `call` (vectorcall), `descr_get`,
`traverse`, `clear` and `dealloc`.

An instance is {head, vectorcall, __dict__, weak references, table, owner}. `table` is C memory
laid out as FIELDS says and owned by `owner`, a Python list, for as long as the instance lives.

Invariants:
- Entries get exactly one borrowed pointer per parameter. Positional arguments are passed through;
  keyword names are matched by identity (names are interned on both sides); defaults come from the
  table. Whatever does not bind that way goes to the fallback, which is Python and binds with all
  the rules.
- An entry returns a new reference, or null with an exception set, or, having changed nothing,
  `tb_miss` (try the next) or `tb_plain` (the plain function answers).
- While the table's rest, a count, is above zero, what no entry answers goes to the plain function
  and the count is taken down; the fallback is asked when it is zero.
- The plain function is called as plain(*args, **kwargs), the fallback as
  fallback(self, *args, **kwargs), with the arguments as they came.
- The table pointer is read once per call, so a table that is swapped in meanwhile is used by the
  next one.
- No reference is taken on the path from the caller to an entry.
"""

from __future__ import annotations

from tailorbird.dispatch import abi, entries_ir, errstate

EXPORTS = ("call", "descr_get", "traverse", "clear", "dealloc")
MOST_PARAMETERS = 64

# The table, eight bytes a field.
FIELDS = (
    "parameters",
    "positional",
    "positional_only",
    "names",
    "defaults",
    "fallback",
    "entry_count",
    "entries",
    "plain",
    "rest",
)


def ir() -> str:
    """The module's text for the Python and NumPy at hand."""
    offsets = {f"T_{name.upper()}": 8 * index for index, name in enumerate(FIELDS)}
    layout = {
        "MOST": MOST_PARAMETERS,
        "TYPE": abi.TYPE,
        "DICT": abi.CALL_DICT,
        "WEAKREFS": abi.CALL_WEAKREFS,
        "TABLE": abi.CALL_TABLE,
        "OWNER": abi.CALL_OWNER,
        "TUPLE_SIZE": abi.TUPLE_SIZE,
        "TUPLE_ITEMS": abi.TUPLE_ITEMS,
    }
    apart = errstate.ir()
    shared = "" if _SHARED in apart else f"{_SHARED}\n"  # what the entries need besides
    text = _DECLARE + shared + apart + entries_ir.ir() + _CALL + _BIND + _FALLBACK + _LIFE
    for word, value in {**offsets, **layout}.items():
        text = text.replace(f"${word}$", str(value))
    return text


_SHARED = "declare ptr @tb_PyDict_GetItemWithError(ptr, ptr)"

_DECLARE = r"""
@tb_miss = external global i8
@tb_plain = external global i8
@tb_Py_None = external global i8
@tb_PyExc_RuntimeError = external global i8
@unset = internal constant [37 x i8] c"this tailored function was torn down\00"
declare ptr @tb_PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @tb_PyCell_Get(ptr)
declare ptr @tb_PyMethod_New(ptr, ptr)
declare ptr @tb_PyMem_Malloc(i64)
declare void @tb_PyMem_Free(ptr)
declare ptr @tb_PyErr_NoMemory()
declare void @tb_PyErr_SetString(ptr, ptr)
declare void @tb_Py_IncRef(ptr)
declare void @tb_Py_DecRef(ptr)
declare void @tb_PyObject_GC_UnTrack(ptr)
declare void @tb_PyObject_GC_Del(ptr)
declare void @tb_PyObject_ClearWeakRefs(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

_CALL = r"""
define ptr @call(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames) {
entry:
  %buffer = alloca [$MOST$ x ptr]
  %p.table = getelementptr i8, ptr %self, i64 $TABLE$
  %table = load ptr, ptr %p.table
  %torn = icmp eq ptr %table, null
  br i1 %torn, label %dead, label %start
dead:
  call void @tb_PyErr_SetString(ptr @tb_PyExc_RuntimeError, ptr @unset)
  ret ptr null
start:
  %nargs = and i64 %nargsf, 9223372036854775807
  %p.n = getelementptr i8, ptr %table, i64 $T_PARAMETERS$
  %n = load i64, ptr %p.n
  %p.pos = getelementptr i8, ptr %table, i64 $T_POSITIONAL$
  %positional = load i64, ptr %p.pos
  %p.count = getelementptr i8, ptr %table, i64 $T_ENTRY_COUNT$
  %count = load i64, ptr %p.count
  %some = icmp ne i64 %count, 0
  %may = icmp ule i64 %nargs, %positional
  %both = and i1 %some, %may
  br i1 %both, label %shape, label %slow
shape:
  %plain = icmp eq ptr %kwnames, null
  %exact = icmp eq i64 %nargs, %n
  %simple = and i1 %plain, %exact
  br i1 %simple, label %state, label %complex
complex:
  %bound = call i1 @bind(ptr %table, ptr %args, i64 %nargs, ptr %kwnames, ptr %buffer)
  br i1 %bound, label %state, label %slow
state:
  %values = phi ptr [%args, %shape], [%buffer, %complex]
  %quiet = call i32 @errstate_quiet()
  %usual = icmp eq i32 %quiet, 1
  br i1 %usual, label %try, label %odd
odd:
  %raised = icmp slt i32 %quiet, 0
  br i1 %raised, label %error, label %slow
error:
  ret ptr null
try:
  %p.entries = getelementptr i8, ptr %table, i64 $T_ENTRIES$
  %entries = load ptr, ptr %p.entries
  br label %next
next:
  %i = phi i64 [0, %try], [%i1, %missed]
  %p.fn = getelementptr {ptr, ptr}, ptr %entries, i64 %i
  %fn = load ptr, ptr %p.fn
  %p.ctx = getelementptr {ptr, ptr}, ptr %entries, i64 %i, i32 1
  %ctx = load ptr, ptr %p.ctx
  %r = call ptr %fn(ptr %self, ptr %values, ptr %ctx)
  %miss = icmp eq ptr %r, @tb_miss
  br i1 %miss, label %missed, label %answer
answer:
  %lost = icmp eq ptr %r, @tb_plain
  br i1 %lost, label %plainly, label %given
given:
  ret ptr %r
missed:
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %count
  br i1 %more, label %next, label %slow
slow:
  %p.rest = getelementptr i8, ptr %table, i64 $T_REST$
  %rest = load ptr, ptr %p.rest
  %left = load i64, ptr %rest
  %resting = icmp sgt i64 %left, 0
  br i1 %resting, label %rests, label %ask
rests:
  %less = sub i64 %left, 1
  store i64 %less, ptr %rest
  br label %plainly
plainly:
  %p.plain = getelementptr i8, ptr %table, i64 $T_PLAIN$
  %undecorated = load ptr, ptr %p.plain
  %q = tail call ptr @tb_PyObject_Vectorcall(ptr %undecorated, ptr %args, i64 %nargsf, ptr %kwnames)
  ret ptr %q
ask:
  %f = call ptr @fallback(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames, ptr %table)
  ret ptr %f
}
"""

_BIND = r"""
; Fill %out with one value per parameter; false if that takes more than this can do.
define internal i1 @bind(ptr %table, ptr %args, i64 %nargs, ptr %kwnames, ptr %out) {
entry:
  %p.n = getelementptr i8, ptr %table, i64 $T_PARAMETERS$
  %n = load i64, ptr %p.n
  %large = icmp ugt i64 %n, $MOST$
  %more = icmp ugt i64 %nargs, %n
  %no = or i1 %large, %more
  br i1 %no, label %fail, label %copy
copy:
  %given = shl i64 %nargs, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %args, i64 %given, i1 false)
  %rest = getelementptr ptr, ptr %out, i64 %nargs
  %left = sub i64 %n, %nargs
  %blank = shl i64 %left, 3
  call void @llvm.memset.p0.i64(ptr %rest, i8 0, i64 %blank, i1 false)
  %no.kw = icmp eq ptr %kwnames, null
  br i1 %no.kw, label %fill, label %keywords
keywords:
  %p.size = getelementptr i8, ptr %kwnames, i64 $TUPLE_SIZE$
  %nkw = load i64, ptr %p.size
  %items = getelementptr i8, ptr %kwnames, i64 $TUPLE_ITEMS$
  %p.names = getelementptr i8, ptr %table, i64 $T_NAMES$
  %names = load ptr, ptr %p.names
  %p.first = getelementptr i8, ptr %table, i64 $T_POSITIONAL_ONLY$
  %first = load i64, ptr %p.first
  %values = getelementptr ptr, ptr %args, i64 %nargs
  br label %kw
kw:
  %k = phi i64 [0, %keywords], [%k1, %set]
  %kw.more = icmp ult i64 %k, %nkw
  br i1 %kw.more, label %find, label %fill
find:
  %p.name = getelementptr ptr, ptr %items, i64 %k
  %name = load ptr, ptr %p.name
  br label %search
search:
  %j = phi i64 [%first, %find], [%j1, %other]
  %in = icmp ult i64 %j, %n
  br i1 %in, label %compare, label %fail
compare:
  %p.own = getelementptr ptr, ptr %names, i64 %j
  %own = load ptr, ptr %p.own
  %same = icmp eq ptr %own, %name
  br i1 %same, label %hit, label %other
other:
  %j1 = add i64 %j, 1
  br label %search
hit:
  %p.out = getelementptr ptr, ptr %out, i64 %j
  %already = load ptr, ptr %p.out
  %empty = icmp eq ptr %already, null
  br i1 %empty, label %set, label %fail
set:
  %p.value = getelementptr ptr, ptr %values, i64 %k
  %value = load ptr, ptr %p.value
  store ptr %value, ptr %p.out
  %k1 = add i64 %k, 1
  br label %kw
fill:
  %p.defaults = getelementptr i8, ptr %table, i64 $T_DEFAULTS$
  %defaults = load ptr, ptr %p.defaults
  br label %each
each:
  %d = phi i64 [%nargs, %fill], [%d1, %filled], [%d1, %default]
  %d.more = icmp ult i64 %d, %n
  br i1 %d.more, label %check, label %done
check:
  %d1 = add i64 %d, 1
  %p.slot = getelementptr ptr, ptr %out, i64 %d
  %slot = load ptr, ptr %p.slot
  %missing = icmp eq ptr %slot, null
  br i1 %missing, label %look, label %filled
filled:
  br label %each
look:
  %p.default = getelementptr ptr, ptr %defaults, i64 %d
  %fallback = load ptr, ptr %p.default
  %none = icmp eq ptr %fallback, null
  br i1 %none, label %fail, label %default
default:
  store ptr %fallback, ptr %p.slot
  br label %each
done:
  ret i1 true
fail:
  ret i1 false
}
"""

_FALLBACK = r"""
; fallback(self, *args, **kwargs). If the caller lends us the slot before args, no copy is made.
define internal ptr @fallback(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames, ptr %table) {
entry:
  %local = alloca [$MOST$ x ptr]
  %p.target = getelementptr i8, ptr %table, i64 $T_FALLBACK$
  %target = load ptr, ptr %p.target
  %nargs = and i64 %nargsf, 9223372036854775807
  %n1 = add i64 %nargs, 1
  %lent = icmp slt i64 %nargsf, 0
  br i1 %lent, label %borrow, label %count
borrow:
  %before = getelementptr ptr, ptr %args, i64 -1
  %was = load ptr, ptr %before
  store ptr %self, ptr %before
  %r0 = call ptr @tb_PyObject_Vectorcall(ptr %target, ptr %before, i64 %n1, ptr %kwnames)
  store ptr %was, ptr %before
  ret ptr %r0
count:
  %no.kw = icmp eq ptr %kwnames, null
  br i1 %no.kw, label %room, label %keywords
keywords:
  %p.size = getelementptr i8, ptr %kwnames, i64 $TUPLE_SIZE$
  %nkw = load i64, ptr %p.size
  br label %room
room:
  %extra = phi i64 [0, %count], [%nkw, %keywords]
  %passed = add i64 %nargs, %extra
  %all = add i64 %passed, 1
  %fits = icmp ule i64 %all, $MOST$
  br i1 %fits, label %go, label %heap
heap:
  %bytes = shl i64 %all, 3
  %block = call ptr @tb_PyMem_Malloc(i64 %bytes)
  %null = icmp eq ptr %block, null
  br i1 %null, label %nomemory, label %go
nomemory:
  %nm = call ptr @tb_PyErr_NoMemory()
  ret ptr null
go:
  %owned = phi ptr [null, %room], [%block, %heap]
  %into = phi ptr [%local, %room], [%block, %heap]
  store ptr %self, ptr %into
  %after = getelementptr ptr, ptr %into, i64 1
  %size = shl i64 %passed, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %after, ptr %args, i64 %size, i1 false)
  %r1 = call ptr @tb_PyObject_Vectorcall(ptr %target, ptr %into, i64 %n1, ptr %kwnames)
  call void @tb_PyMem_Free(ptr %owned)
  ret ptr %r1
}
"""

_LIFE = r"""
; As a class attribute it binds like a function.
define ptr @descr_get(ptr %self, ptr %object, ptr %type) {
entry:
  %null = icmp eq ptr %object, null
  %none = icmp eq ptr %object, @tb_Py_None
  %static = or i1 %null, %none
  br i1 %static, label %itself, label %method
itself:
  call void @tb_Py_IncRef(ptr %self)
  ret ptr %self
method:
  %m = call ptr @tb_PyMethod_New(ptr %self, ptr %object)
  ret ptr %m
}

define internal i32 @visit(ptr %self, i64 %offset, ptr %fn, ptr %arg) {
entry:
  %p = getelementptr i8, ptr %self, i64 %offset
  %value = load ptr, ptr %p
  %null = icmp eq ptr %value, null
  br i1 %null, label %end, label %go
go:
  %rc = call i32 %fn(ptr %value, ptr %arg)
  ret i32 %rc
end:
  ret i32 0
}

define i32 @traverse(ptr %self, ptr %fn, ptr %arg) {
entry:
  %a = call i32 @visit(ptr %self, i64 $TYPE$, ptr %fn, ptr %arg)
  %a.ok = icmp eq i32 %a, 0
  br i1 %a.ok, label %dict, label %stop.a
stop.a:
  ret i32 %a
dict:
  %b = call i32 @visit(ptr %self, i64 $DICT$, ptr %fn, ptr %arg)
  %b.ok = icmp eq i32 %b, 0
  br i1 %b.ok, label %owner, label %stop.b
stop.b:
  ret i32 %b
owner:
  %c = call i32 @visit(ptr %self, i64 $OWNER$, ptr %fn, ptr %arg)
  ret i32 %c
}

define internal void @drop(ptr %self, i64 %offset) {
entry:
  %p = getelementptr i8, ptr %self, i64 %offset
  %value = load ptr, ptr %p
  store ptr null, ptr %p
  %null = icmp eq ptr %value, null
  br i1 %null, label %end, label %go
go:
  call void @tb_Py_DecRef(ptr %value)
  br label %end
end:
  ret void
}

define i32 @clear(ptr %self) {
  %p.table = getelementptr i8, ptr %self, i64 $TABLE$
  store ptr null, ptr %p.table
  call void @drop(ptr %self, i64 $OWNER$)
  call void @drop(ptr %self, i64 $DICT$)
  ret i32 0
}

define void @dealloc(ptr %self) {
entry:
  %p.type = getelementptr i8, ptr %self, i64 $TYPE$
  %type = load ptr, ptr %p.type
  call void @tb_PyObject_GC_UnTrack(ptr %self)
  %p.weak = getelementptr i8, ptr %self, i64 $WEAKREFS$
  %weak = load ptr, ptr %p.weak
  %unseen = icmp eq ptr %weak, null
  br i1 %unseen, label %free, label %forget
forget:
  call void @tb_PyObject_ClearWeakRefs(ptr %self)
  br label %free
free:
  %rc = call i32 @clear(ptr %self)
  call void @tb_PyObject_GC_Del(ptr %self)
  call void @tb_Py_DecRef(ptr %type)
  ret void
}
"""
