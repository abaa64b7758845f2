"""The entry of a variant: `ptr entry(ptr self, ptr args, ptr ctx)`.

Checks the guards, fills the frame, allocates, runs the steps, and returns a new reference; a failed
guard returns `tb_miss` and has touched nothing; so does `tb_plain`, which says that the plain
function is faster for arguments of this size. Arguments are borrowed. Large work runs without the
GIL; between steps of large work signals are looked at, so that KeyboardInterrupt arrives.

`ctx` is the variant's own memory, eight bytes a word (`Context`): counters that the dispatcher
reads, the masks of sizes that are not settled in the race and that were lost there (by log2 of all
elements), and Python objects: static arguments, callables of opaque calls, static results.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tailorbird.dispatch import abi, guards, runners
from tailorbird.dispatch.boxing import Boxing, Context
from tailorbird.dispatch.calling import Caller
from tailorbird.dispatch.factors import Factorer
from tailorbird.dispatch.guards import put
from tailorbird.dispatch.leaf import ASK, COUNTDOWN, HITS, INTEGER, LOST, Leaf
from tailorbird.dispatch.outside import outside
from tailorbird.dispatch.products import Choice, Multiplier
from tailorbird.emit.builder import Module
from tailorbird.emit.control import ControlEmitter
from tailorbird.emit.frame import Asked
from tailorbird.emit.moves import emitter_of
from tailorbird.emit.nest import has_partials, partial_name
from tailorbird.emit.sweep import SLACK
from tailorbird.ir.expr import Dim, product
from tailorbird.ir.node import Value, leaves
from tailorbird.lower.kernel import SIZES, Buffer, Nest, c_strides
from tailorbird.lower.program import Bind, Check, Gemm, Program, PythonCall, parameter_strides
from tailorbird.lower.steps import Control, Factor, Sweep, inner_steps

LARGE = 1 << 20  # bytes from which a result comes from recycled memory
STACK = 8192  # bytes of temporaries kept on the stack
MOST_BOUND = 1 << 40  # elements of an array whose size comes from data
RELEASE = 1 << 19  # work from which the GIL is released

__all__ = ["Context", "EntryEmitter"]


class EntryEmitter(Boxing):
    """Emits one module: kernels, run functions and the entry."""

    def __init__(
        self,
        program: Program,
        leaf_list: list[Leaf],
        places: list[int],
        avx512: bool,
        choice: Choice,
    ) -> None:
        self.program = program
        self.leaves = leaf_list
        self.places = places
        self.choice = choice
        super().__init__(Module(avx512))
        self.arenas: list[tuple[str, str]] = []
        self.filled: set[Any] = set()
        self.ready: set[str] = set()
        self.folds: dict[str, tuple[str, str]] = {}  # chunk and count of each fold
        self.late = False  # whether sizes are known that the guards did not see

    def emit(self, statics: list[tuple[int, Any]]) -> tuple[str, Context]:
        """The module's text and the objects its context needs."""
        for k, step in enumerate(self.program.steps):
            self.emit_step(step, k)
        self.check(statics)
        self.t.missed = "unlike"  # from here on there is something to give up
        self.fill()
        self.prepare()
        self.late = True
        work = self.work()
        large = self.t.reg(f"icmp sge i64 {work}, {RELEASE}")
        release = self.t.reg(f"zext i1 {large} to i32")
        for k, step in enumerate(self.program.steps):
            if isinstance(step, PythonCall):
                self.python_call(step)
                self.fill()
                self.prepare()
            elif isinstance(step, Check):
                self.check_flag(step)
            elif isinstance(step, Control):
                self.run_control(step)
            elif isinstance(step, Bind):
                self.bind(step)
                self.fill()
                self.prepare()
            else:
                self.run(step, k, release)
        self.give_back()
        self.finish()
        frame = f"  %f = alloca [{max(len(self.frame.slots), 1)} x i64], align 64"
        self.t.slots.insert(0, frame)
        self.module.functions.append(self.t.function("ptr @entry(ptr %self, ptr %args, ptr %ctx)"))
        return self.module.text(), self.context

    def emit_step(self, step: Any, k: int) -> None:
        if isinstance(step, Nest):
            emitter_of(step)(self.module, self.frame, step).emit()
            if step.swept:
                runners.Runner(self.module, self.frame).swept(step)
        elif isinstance(step, Sweep):
            for nest in step.nests:
                self.emit_step(nest, k)
            runners.Runner(self.module, self.frame).sweep(step)
        elif isinstance(step, Gemm | Factor):
            self.emit_library(step, f"library{k}")
        elif isinstance(step, Control):
            ControlEmitter(self.module, self.frame, step, self.emit_library).emit()

    def emit_library(self, step: Gemm | Factor | PythonCall, name: str) -> list[Hashable]:
        """The function of a product or of a routine; the slots of the frame that it reads."""
        asked = Asked(self.frame)
        if isinstance(step, PythonCall):
            Caller(self.module, asked, step, self.context).emit(name)
        elif isinstance(step, Gemm):
            Multiplier(self.module, asked, step, self.choice).emit(name)
        else:
            Factorer(self.module, asked, step).emit(name)
        return asked.keys

    # -- guards

    def check(self, statics: list[tuple[int, Any]]) -> None:
        t, graph = self.t, self.program.graph
        for place, obj in statics:
            found = t.field("%args", 8 * place, "ptr")
            wanted = t.field("%ctx", self.context.add(obj), "ptr")
            t.require(t.reg(f"icmp eq ptr {found}, {wanted}"))
        self.arguments: dict[Value, str] = {}
        data: dict[Value, str] = {}
        count = len(graph.parameters)
        for k, (leaf, place) in enumerate(zip(self.leaves, self.places, strict=True)):
            obj = t.field("%args", 8 * place, "ptr")
            if leaf.kind == INTEGER:
                guards.check_int(t, obj, graph.ints[k - count])
                continue
            value = graph.parameters[k]
            self.arguments[value] = obj
            if value.type.rank:
                data[value] = guards.check_array(t, obj, value, leaf, k)
                put(t, self.frame, "ptr", data[value], "pointer", f"p{k}")
            else:
                guards.check_scalar(t, obj, value, leaf, self.frame, f"p{k}")
        guards.settle_pending(t)
        self.waiting = guards.check_guards(t, graph.guards)
        if graph.finals:
            self.check_apart(data)
        self.check_race()

    def check_apart(self, data: dict[Value, str]) -> None:
        graph = self.program.graph
        position = {v: k for k, v in enumerate(graph.parameters)}
        strides = {
            v: parameter_strides(position[v], v.type.shape, self.leaves[position[v]].layout)
            for v in data
            if self.leaves[position[v]].layout not in ("C", "F")
        }
        written = [(v, data[v]) for v in graph.finals]
        for v in graph.finals:
            if self.leaves[position[v]].layout.startswith("S"):
                guards.check_spread(self.t, v, strides[v])
        guards.check_apart(self.t, written, list(data.items()), strides)

    def check_race(self) -> None:
        """Sizes that are not settled in the race are a miss; so is a call that is to be timed
        again. Sizes that were lost there are left to the plain function.
        """
        t = self.t
        total: Dim = 1
        for value in self.arguments:
            if value.type.rank:
                total = total + product(value.type.shape)
        zeros = t.call("llvm.ctlz.i64", "i64", ("i64", t.size(total)), ("i1", "false"))
        bucket = t.reg(f"sub i64 63, {zeros}")
        self.check_mask(ASK, bucket, "miss")
        left = t.reg(f"sub i64 {t.field('%ctx', 8 * COUNTDOWN, 'i64')}, 1")
        t.do(f"store i64 {left}, ptr {t.offset('%ctx', 8 * COUNTDOWN)}")
        t.require(t.reg(f"icmp ne i64 {left}, 0"))
        self.check_mask(LOST, bucket, "plain")
        hits = t.reg(f"add i64 {t.field('%ctx', 8 * HITS, 'i64')}, 1")
        t.do(f"store i64 {hits}, ptr {t.offset('%ctx', 8 * HITS)}")

    def check_mask(self, word: int, bucket: str, otherwise: str) -> None:
        """Goes on only if the bit of a size class is not set."""
        t = self.t
        mask = t.field("%ctx", 8 * word, "i64")
        bit = t.reg(f"and i64 {t.reg(f'lshr i64 {mask}, {bucket}')}, 1")
        t.require(t.reg(f"icmp eq i64 {bit}, 0"), otherwise)

    def work(self) -> str:
        """Points times cost of all nests whose sizes are known at entry, and of matrix products."""
        if not hasattr(self, "_work"):
            total: Dim = 1
            for step in inner_steps([s for s in self.program.steps if not isinstance(s, Control)]):
                if isinstance(step, Nest):
                    amount: Dim = runners.points(step) * step.schedule.cost
                elif isinstance(step, Gemm):
                    amount = step.m * step.n * step.k
                elif isinstance(step, Factor):
                    amount = step.work
                else:
                    continue
                if self.t.can_compute(amount):
                    total = total + amount
            self._work = self.t.size(total)
        return self._work

    # -- frame and memory

    def fill(self) -> None:
        """Stores every size the kernels use, as far as its symbols are known."""
        for key in list(self.frame.slots):
            if key in self.filled or key[0] != "size" or not self.t.can_compute(key[1]):  # type: ignore[index]
                continue
            self.filled.add(key)
            put(self.t, self.frame, "i64", self.t.size(key[1]), *key)  # type: ignore[index,misc]

    def prepare(self) -> None:
        """Allocates the buffers whose sizes are known: results as arrays, the rest in one arena."""
        t = self.t
        plan: list[tuple[str, str]] = []  # (frame pointer, bytes)
        for buffer in self.program.buffers:
            size = buffer.size if buffer.room is None else buffer.room
            known = all(map(t.can_compute, (size, *(buffer.shape if buffer.room is None else ()))))
            if buffer.name in self.ready or not known:
                continue
            if buffer.role == "returned":
                continue
            self.ready.add(buffer.name)
            if buffer.role in ("result", "array") and buffer.shape:
                self.new_array(buffer)
            else:
                room = t.op_max(t.size(size), "0")  # a loop that never runs has no last turn
                plan.append((buffer.name, t.reg(f"mul i64 {room}, {SIZES[buffer.ty]}")))
        for step in self.program.steps:
            if not isinstance(step, Nest) or not has_partials(step) or step.name in self.ready:
                continue
            if t.can_compute(runners.points(step)):
                self.ready.add(step.name)
                plan += self.partials(step)
        plan += self.waiting_sums()
        if plan:
            self.arena(plan)

    def partials(self, nest: Nest) -> list[tuple[str, str]]:
        """Chunk size and count of a fold, and the bytes of its partial results."""
        t = self.t
        axis = runners.chunk_axis(nest)
        assert axis is not None
        n = t.size(axis.extent)
        others = t.op_max(t.size(_others(nest)), "1")
        chunk = t.reg(f"sdiv i64 {runners.FOLD_POINTS}, {others}")
        chunk = t.op_max(chunk, "1")
        count = t.ceil_div(n, chunk)
        count = t.op_max(count, "1")
        self.folds[nest.name] = (chunk, count)
        size = t.reg(f"mul i64 {count}, 8")
        out = []
        for fold in nest.stages[0].folds:
            out.append((partial_name(nest, fold), size))
            if fold.position is not None:
                out.append((partial_name(nest, fold) + ".at", size))
        return out

    def waiting_sums(self) -> list[tuple[str, str]]:
        """Memory for the sums of sweeps, which wait between blocks."""
        t, out = self.t, []
        for step in self.program.steps:
            if not isinstance(step, Sweep) or step.name in self.ready:
                continue
            columns = step.down.rows[0].extent
            if t.can_compute(columns):
                self.ready.add(step.name)
                room = t.reg(f"mul i64 {t.reg(f'add i64 {t.size(columns)}, {SLACK}')}, 8")
                out += [(partial_name(step.down, f), room) for f in step.down.stages[0].folds]
        return out

    def arena(self, plan: list[tuple[str, str]]) -> None:
        """One block for all temporaries: on the stack when small."""
        t = self.t
        offsets, total = [], "0"
        for _, size in plan:
            offsets.append(total)
            rounded = t.reg(f"and i64 {t.reg(f'add i64 {size}, 63')}, -64")
            total = t.reg(f"add i64 {total}, {rounded}")
        base = t.slot("ptr", "null")
        used = t.slot("i64", "0")
        stack = t.slot(f"[{STACK} x i8]", align=64)
        small, large, done = t.fresh("small"), t.fresh("large"), t.fresh("laid")
        t.do(f"br i1 {t.reg(f'icmp ule i64 {total}, {STACK}')}, label %{small}, label %{large}")
        t.label(large)
        block = t.call("tb_scratch", "ptr", ("i64", total))
        t.require(t.reg(f"icmp ne ptr {block}, null"), "nomemory")
        t.do(f"store ptr {block}, ptr {base}")
        t.do(f"store i64 {total}, ptr {used}")
        t.do(f"br label %{done}")
        t.label(small)
        t.do(f"br label %{done}")
        t.label(done)
        held = t.reg(f"load ptr, ptr {base}")
        none = t.reg(f"icmp eq ptr {held}, null")
        start = t.reg(f"select i1 {none}, ptr {stack}, ptr {held}")
        for (name, _), offset in zip(plan, offsets, strict=True):
            place = t.reg(f"getelementptr i8, ptr {start}, i64 {offset}")
            put(t, self.frame, "ptr", place, "pointer", name)
        self.arenas.append((base, used))

    def new_array(self, buffer: Buffer) -> None:
        """A fresh NumPy array; large ones from recycled memory. Late sizes may fail a check yet."""
        t = self.t
        rank = len(buffer.shape)
        slot = t.slot("ptr", "null")
        self.objects[buffer.name] = slot
        self.held.append(slot)
        dims = t.slot(f"[{rank} x i64]")
        for k, d in enumerate(buffer.shape):
            length = t.op_max(t.size(d), "0") if self.late else t.size(d)
            t.do(f"store i64 {length}, ptr {t.offset(dims, 8 * k)}")
        kind = guards.descr(t, buffer.ty)
        size = t.reg(f"mul i64 {t.size(buffer.size)}, {SIZES[buffer.ty]}")
        big, little, made = t.fresh("big"), t.fresh("little"), t.fresh("made")
        self.incref(kind)
        t.do(f"br i1 {t.reg(f'icmp uge i64 {size}, {LARGE}')}, label %{big}, label %{little}")
        subtype = ("ptr", t.data("tb_ndarray_type"))
        head = [subtype, ("ptr", kind), ("i32", str(rank)), ("ptr", dims), ("ptr", "null")]
        flags = ("i32", str(0 if buffer.strides == c_strides(buffer.shape) else abi.F_CONTIGUOUS))
        t.label(big)
        array = t.call("tb_new_large", "ptr", *head, flags)
        t.do(f"store ptr {array}, ptr {slot}")
        t.do(f"br label %{made}")
        t.label(little)
        array = t.call("tb_np_new", "ptr", *head, ("ptr", "null"), flags, ("ptr", "null"))
        t.do(f"store ptr {array}, ptr {slot}")
        t.do(f"br label %{made}")
        t.label(made)
        array = t.reg(f"load ptr, ptr {slot}")
        t.require(t.reg(f"icmp ne ptr {array}, null"), "failed")
        put(t, self.frame, "ptr", t.field(array, abi.ARRAY_DATA, "ptr"), "pointer", buffer.name)

    # -- running

    def run(self, step: Any, k: int, release: str) -> None:
        """Runs a step; large work without the GIL, and then signals are looked at."""
        t = self.t
        if isinstance(step, Nest):
            status = runners.run_nest(t, step, t.size, release, self.folds.get(step.name))
        else:
            name = step.name if isinstance(step, Sweep) else f"library{k}"
            args = [("ptr", f"@run_{name}"), ("ptr", "%f"), ("i32", release)]
            status = t.call("tb_step", "i32", *args)
        t.require(t.reg(f"icmp eq i32 {status}, 0"), "failed")

    def run_control(self, step: Control) -> None:
        """Runs loops and branches; they may have released the GIL, and may have left."""
        t = self.t
        state = t.reg(f"getelementptr i64, ptr %f, i64 {self.frame.slot('gil')}")
        t.do(f"store ptr null, ptr {state}")
        put(t, self.frame, "ptr", "%ctx", "ctx")
        status = t.reg(f"call i32 @{step.name}(ptr %f)")
        held = t.reg(f"load ptr, ptr {state}")
        back, on = t.fresh("back"), t.fresh("on")
        t.do(f"br i1 {t.reg(f'icmp eq ptr {held}, null')}, label %{on}, label %{back}")
        t.label(back)
        t.call("tb_PyEval_RestoreThread", "void", ("ptr", held))
        t.do(f"br label %{on}")
        t.label(on)
        t.require(t.reg(f"icmp ne i32 {status}, 2"), "failed")
        t.require(t.reg(f"icmp eq i32 {status}, 0"))

    def python_call(self, step: PythonCall) -> None:
        """Calls Python with arrays of our own; what comes back must be what was captured, else
        plain Python runs.
        """
        t = self.t
        count = len(step.operands)
        argv = t.slot(f"[{max(count, 1)} x ptr]")
        for k, (x, given) in enumerate(zip(step.operands, step.node.inputs, strict=True)):
            t.do(f"store ptr {self.boxed_operand(x, given)}, ptr {t.offset(argv, 8 * k)}")
        function = t.field("%ctx", self.context.add(outside(step.node)), "ptr")
        result = t.call(
            "tb_PyObject_Vectorcall",
            "ptr",
            ("ptr", function),
            ("ptr", argv),
            ("i64", str(count)),
            ("ptr", "null"),
        )
        slot = t.slot("ptr", "null")
        t.do(f"store ptr {result}, ptr {slot}")
        self.held.append(slot)
        t.require(t.reg(f"icmp ne ptr {result}, null"), "failed")
        t.require(t.reg(f"icmp ne ptr {result}, {t.data('tb_Py_None')}"), "unlike")
        for k, buffer in enumerate(step.outputs):
            array = t.call("tb_PyTuple_GetItem", "ptr", ("ptr", result), ("i64", str(k)))
            if buffer.shape:  # a result is this very array
                self.objects[buffer.name] = t.slot("ptr", "null")
                t.do(f"store ptr {array}, ptr {self.objects[buffer.name]}")
            dims = t.field(array, abi.ARRAY_DIMS, "ptr")
            for j, d in enumerate(buffer.shape):
                guards.bind_size(t, d, t.field(dims, 8 * j, "i64"))
            guards.settle_pending(t)
            put(t, self.frame, "ptr", t.field(array, abi.ARRAY_DATA, "ptr"), "pointer", buffer.name)
            self.ready.add(buffer.name)
        self.waiting = guards.check_guards(t, self.waiting)

    def check_flag(self, step: Check) -> None:
        """Leaves for plain Python unless the flag is set."""
        flag = self.t.reg(f"load i8, ptr {self.pointer(step.buffer)}")
        self.t.require(self.t.reg(f"icmp ne i8 {flag}, 0"))

    def bind(self, step: Bind) -> None:
        """An integer out of memory; a size is no more than memory can hold."""
        t = self.t
        number = t.reg(f"load i64, ptr {self.pointer(step.buffer)}")
        if step.symbol.kind == "fresh":
            t.require(t.reg(f"icmp ult i64 {number}, {MOST_BOUND}"))
        elif step.dtype == "u64":
            t.require(t.reg(f"icmp sge i64 {number}, 0"))
        t.symbols[step.symbol] = number
        self.waiting = guards.check_guards(t, self.waiting)

    # -- results

    def give_back(self) -> None:
        """Builds the result and returns it."""
        t = self.t
        plain = list(leaves(self.program.graph.results))
        lowered = list(leaves(self.program.results))
        objects = [self.box(x, y) for x, y in zip(plain, lowered, strict=True)]
        if is_flat(self.program.graph.results):
            out = objects[0]
        else:
            out = t.call("tb_PyTuple_New", "ptr", ("i64", str(len(objects))))
            t.require(t.reg(f"icmp ne ptr {out}, null"), "failed")
            for k, obj in enumerate(objects):
                t.do(f"store ptr {obj}, ptr {t.offset(out, abi.TUPLE_ITEMS + 8 * k)}")
        t.do(f"store ptr {out}, ptr {self.result_slot()}")
        t.do("br label %clean")

    def result_slot(self) -> str:
        if not hasattr(self, "_result"):
            self._result = self.t.slot("ptr", "null")
        return self._result

    def finish(self) -> None:
        """The ways out: a result, an exception, no memory, a miss after an opaque call, a miss
        at the guards.
        """
        t = self.t
        result = self.result_slot()
        t.label("nomemory")
        t.call("tb_PyErr_NoMemory", "ptr")
        t.do("br label %failed")
        t.label("unlike")
        t.do(f"store ptr {t.data('tb_miss')}, ptr {result}")
        t.do("br label %clean")
        t.label("failed")
        t.do(f"store ptr null, ptr {result}")
        t.do("br label %clean")
        t.label("clean")
        for base, used in self.arenas:
            block = t.reg(f"load ptr, ptr {base}")
            free, on = t.fresh("free"), t.fresh("on")
            t.do(f"br i1 {t.reg(f'icmp eq ptr {block}, null')}, label %{on}, label %{free}")
            t.label(free)
            t.call(
                "tb_scratch_free", "void", ("ptr", block), ("i64", t.reg(f"load i64, ptr {used}"))
            )
            t.do(f"br label %{on}")
            t.label(on)
        for slot in self.held:
            t.call("tb_Py_DecRef", "void", ("ptr", t.reg(f"load ptr, ptr {slot}")))
        t.do(f"ret ptr {t.reg(f'load ptr, ptr {result}')}")
        t.label("miss")
        t.do(f"ret ptr {t.data('tb_miss')}")
        t.label("plain")
        t.do(f"ret ptr {t.data('tb_plain')}")


def is_flat(results: Any) -> bool:
    """One leaf: returned as it is. Anything else comes back as a tuple of its leaves."""
    return not isinstance(results, (tuple, list, dict))


def _others(nest: Nest) -> Dim:
    axis = runners.chunk_axis(nest)
    total: Dim = 1
    for a in [*nest.rows, *nest.inner]:
        if a is not axis:
            total = total * a.extent
    return total
