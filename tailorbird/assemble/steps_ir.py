"""How a step of a variant runs, in LLVM IR: compiled once, not for every step anew.

`tb_step(fn, frame, release)` calls `fn(frame)`; `tb_map` runs a kernel over n points in one piece
or in chunks over the pool, `tb_fold` a fold in chunks and then the fold of its partial results.
Each returns 0, or what PyErr_CheckSignals said. Nests inside of loops: `divide_ir.py`.

Invariants: with `release` the GIL is given up meanwhile, and signals are looked at afterwards. From
`tb_parallel` on, which follows a knob, work is worth waking other threads for. Chunks of a fold are
the caller's, who makes them depend on the sizes alone, so results do not change with the number of
threads; of a map they are rounded to `step`, a power of two, unless all is divided that can be.
`backward` runs the chunks of a fold from the last.
"""

from __future__ import annotations

from tailorbird import knobs

PARALLEL = knobs.KNOBS["parallel"].default  # points * cost from which threads pay

EXPORTS = ("tb_step", "tb_map", "tb_fold", "tb_parallel")

_TEXT = r"""
@tb_parallel = global i64 PARALLEL, align 64

declare ptr @tb_PyEval_SaveThread()
declare void @tb_PyEval_RestoreThread(ptr)
declare i32 @tb_PyErr_CheckSignals()
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)

define internal i1 @worth(i64 %work) {
  %threads = load atomic i64, ptr @tb_threads monotonic, align 8
  %several = icmp sgt i64 %threads, 1
  %least = load atomic i64, ptr @tb_parallel monotonic, align 8
  %big = icmp sge i64 %work, %least
  %both = and i1 %big, %several
  ret i1 %both
}

; A chunk of a job: [kernel, frame, n, chunk].
define internal void @chunk(ptr %job, i64 %c) {
  %kernel = load ptr, ptr %job
  %p.f = getelementptr i64, ptr %job, i64 1
  %f = load ptr, ptr %p.f
  %p.n = getelementptr i64, ptr %job, i64 2
  %n = load i64, ptr %p.n
  %p.chunk = getelementptr i64, ptr %job, i64 3
  %chunk = load i64, ptr %p.chunk
  %low = mul i64 %c, %chunk
  %next = add i64 %low, %chunk
  %high = call i64 @llvm.smin.i64(i64 %next, i64 %n)
  call void %kernel(ptr %f, i64 %low, i64 %high, i64 %c)
  ret void
}

define internal void @chunks(ptr %kernel, ptr %f, i64 %n, i64 %chunk, i64 %count,
                             ptr %watch) {
  %job = alloca [4 x i64], align 16
  store ptr %kernel, ptr %job
  %p.f = getelementptr i64, ptr %job, i64 1
  store ptr %f, ptr %p.f
  %p.n = getelementptr i64, ptr %job, i64 2
  store i64 %n, ptr %p.n
  %p.chunk = getelementptr i64, ptr %job, i64 3
  store i64 %chunk, ptr %p.chunk
  call void @tb_watched(ptr @chunk, ptr %job, i64 %count, ptr %watch, ptr %f)
  ret void
}

define internal void @map(ptr %kernel, ptr %f, i64 %n, i64 %work, i64 %step) {
entry:
  %parallel = call i1 @worth(i64 %work)
  br i1 %parallel, label %many, label %one
one:
  call void %kernel(ptr %f, i64 0, i64 %n, i64 0)
  ret void
many:
  call void @divided(ptr %kernel, ptr %f, i64 %n, i64 %step, ptr null)
  ret void
}

define internal void @divided(ptr %kernel, ptr %f, i64 %n, i64 %step, ptr %watch) {
  %threads = load atomic i64, ptr @tb_threads monotonic, align 8
  %pieces = mul i64 %threads, 4
  %n1 = add i64 %n, %pieces
  %n2 = sub i64 %n1, 1
  %even = sdiv i64 %n2, %pieces
  %last = sub i64 %step, 1
  %up = add i64 %even, %last
  %mask = sub i64 0, %step
  %whole = and i64 %up, %mask
  %least = load atomic i64, ptr @tb_parallel monotonic, align 8
  %always = icmp eq i64 %least, 1
  %short = icmp slt i64 %even, %step
  %few = and i1 %always, %short
  %rounded = select i1 %few, i64 %even, i64 %whole
  %chunk = call i64 @llvm.smax.i64(i64 %rounded, i64 1)
  %c1 = add i64 %n, %chunk
  %c2 = sub i64 %c1, 1
  %count = sdiv i64 %c2, %chunk
  call void @chunks(ptr %kernel, ptr %f, i64 %n, i64 %chunk, i64 %count, ptr %watch)
  ret void
}

define internal void @fold(ptr %kernel, ptr %end, ptr %f, i64 %n, i64 %work, i64 %chunk,
                           i64 %count, i32 %backward) {
entry:
  %worth = call i1 @worth(i64 %work)
  %several = icmp sgt i64 %count, 1
  %parallel = and i1 %worth, %several
  br i1 %parallel, label %many, label %head
many:
  call void @chunks(ptr %kernel, ptr %f, i64 %n, i64 %chunk, i64 %count, ptr null)
  br label %done
head:
  %back = icmp ne i32 %backward, 0
  br label %loop
loop:
  %c = phi i64 [0, %head], [%c1, %loop]
  %c1 = add i64 %c, 1
  %from.last = sub i64 %count, %c1
  %which = select i1 %back, i64 %from.last, i64 %c
  %low = mul i64 %which, %chunk
  %next = add i64 %low, %chunk
  %high = call i64 @llvm.smin.i64(i64 %next, i64 %n)
  call void %kernel(ptr %f, i64 %low, i64 %high, i64 %which)
  %more = icmp slt i64 %c1, %count
  br i1 %more, label %loop, label %done
done:
  call void %end(ptr %f, i64 0, i64 %count, i64 0)
  ret void
}
"""

_EXPORTED = r"""
define i32 @tb_NAME(PARAMETERS, i32 %release) {
entry:
  %some = icmp ne i32 %release, 0
  br i1 %some, label %free, label %keep
free:
  %state = call ptr @tb_PyEval_SaveThread()
  CALL
  call void @tb_PyEval_RestoreThread(ptr %state)
  %signal = call i32 @tb_PyErr_CheckSignals()
  ret i32 %signal
keep:
  CALL
  ret i32 0
}
"""

_MAP = "ptr %kernel, ptr %f, i64 %n, i64 %work, i64 %step"
_FOLD = "ptr %kernel, ptr %end, ptr %f, i64 %n, i64 %work, i64 %chunk, i64 %count, i32 %backward"
_FORMS = {
    "step": ("ptr %fn, ptr %f", "call void %fn(ptr %f)"),
    "map": (_MAP, f"call void @map({_MAP})"),
    "fold": (_FOLD, f"call void @fold({_FOLD})"),
}


def ir() -> str:
    """The text, to be compiled with that of the pool."""
    exported = (
        _EXPORTED.replace("NAME", name).replace("PARAMETERS", parameters).replace("CALL", call)
        for name, (parameters, call) in _FORMS.items()
    )
    return _TEXT.replace("PARALLEL", str(PARALLEL)) + "".join(exported)
