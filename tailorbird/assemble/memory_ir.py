"""Result memory, in LLVM IR: large blocks on huge pages, recycled.

Exports: a NumPy data handler (NEP 49) in `tb_mem_handler`, `tb_new_large` which creates an array
under it, and `tb_scratch` / `tb_scratch_free` for temporaries, callable without the GIL from any
thread.

Invariants:
- Every block begins with 24 bytes of header right before the pointer that is handed out: {usable
  bytes, mapped bytes or 0, base}. So freeing needs nothing but the pointer, and mapped 0 means
  `malloc`.
- Blocks of at least LARGE bytes are private anonymous mappings at a multiple of 2 MiB; from HUGE
  bytes on they ask for huge pages. Their pointers are three quarters into a page: NumPy's own large
  arrays lie 16 bytes into one, and a result a little further on than its operand, or than the next
  row of it, would make each load wait for a store that only looks like the same address. Others are
  64-byte aligned.
- Freed blocks go to the list of `memory_list_ir.py`. A request that no kept block fits unmaps all
  of them before it maps its own, so that kept blocks never add to the peak.
"""

from __future__ import annotations

from tailorbird.assemble.memory_list_ir import LIST_IR, SLOTS

LARGE = 1 << 20
HUGE = 4 << 20
KEEP = 512 << 20
START = 3072  # bytes from the start of a mapping to what is handed out
HANDLER_NAME = b"tailorbird"

EXPORTS = (
    "tb_mem_handler",
    "tb_mem_capsule",
    "tb_mem_name",
    "tb_mem_recycle",
    "tb_mem_huge",
    "tb_mem_kept",
    "tb_mem_reset",
    "tb_mem_release",
    "tb_new_large",
    "tb_scratch",
    "tb_scratch_free",
)


def ir() -> str:
    """The module's text."""
    name = HANDLER_NAME.decode() + "\\00" * (127 - len(HANDLER_NAME))
    text = LIST_IR + _BLOCKS + _NUMPY
    sizes = {"LARGE": LARGE, "HUGE": HUGE, "KEEP": KEEP, "START": START}
    constants = {**sizes, "SLOTS": SLOTS, "NAME": name}
    for word, value in constants.items():
        text = text.replace(f"${word}", str(value))
    return text


_BLOCKS = r"""
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @madvise(ptr, i64, i32)
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)

; Write the header before %p; gives %p.
define internal ptr @stamp(ptr %p, ptr %base, i64 %mapped, i64 %usable) {
  %pb = getelementptr i8, ptr %p, i64 -8
  store ptr %base, ptr %pb
  %pm = getelementptr i8, ptr %p, i64 -16
  store i64 %mapped, ptr %pm
  %pu = getelementptr i8, ptr %p, i64 -24
  store i64 %usable, ptr %pu
  ret ptr %p
}

; A new mapping of %size bytes (whole pages) at a multiple of 2 MiB, or null.
define internal ptr @map(i64 %size) {
entry:
  %padded = add i64 %size, 2097152
  %raw = call ptr @mmap(ptr null, i64 %padded, i32 3, i32 34, i32 -1, i64 0)
  %r = ptrtoint ptr %raw to i64
  %failed = icmp eq i64 %r, -1
  br i1 %failed, label %no, label %trim
trim:
  %up = add i64 %r, 2097151
  %a = and i64 %up, -2097152
  %base = inttoptr i64 %a to ptr
  %front = sub i64 %a, %r
  %some = icmp ne i64 %front, 0
  br i1 %some, label %cut, label %tail
cut:
  %rc0 = call i32 @munmap(ptr %raw, i64 %front)
  br label %tail
tail:
  %end = add i64 %a, %size
  %endp = inttoptr i64 %end to ptr
  %back = sub i64 2097152, %front
  %some1 = icmp ne i64 %back, 0
  br i1 %some1, label %cut1, label %advise
cut1:
  %rc1 = call i32 @munmap(ptr %endp, i64 %back)
  br label %advise
advise:
  %big = icmp uge i64 %size, $HUGE
  %on = load atomic i32, ptr @tb_mem_huge monotonic, align 4
  %want = icmp ne i32 %on, 0
  %both = and i1 %big, %want
  br i1 %both, label %huge, label %yes
huge:                                           ; MADV_HUGEPAGE
  %rc2 = call i32 @madvise(ptr %base, i64 %size, i32 14)
  br label %yes
yes:
  ret ptr %base
no:
  ret ptr null
}

; %size bytes; %fresh tells whether they are known to be zero.
define internal ptr @obtain(i64 %size, ptr %fresh) {
entry:
  store i1 false, ptr %fresh
  %large = icmp uge i64 %size, $LARGE
  br i1 %large, label %mapped, label %small
small:
  %more = add i64 %size, 128
  %raw = call ptr @malloc(i64 %more)
  %null = icmp eq ptr %raw, null
  br i1 %null, label %fail, label %place
place:
  %r = ptrtoint ptr %raw to i64
  %up = add i64 %r, 95                          ; room for the header, then a multiple of 64
  %a = and i64 %up, -64
  %p = inttoptr i64 %a to ptr
  %q = call ptr @stamp(ptr %p, ptr %raw, i64 0, i64 %size)
  ret ptr %q
mapped:
  %more1 = add i64 %size, $START                ; the header is in front of it
  %padded = add i64 %more1, 4095
  %wraps = icmp ult i64 %padded, %size
  %need = and i64 %padded, -4096
  br i1 %wraps, label %fail, label %look
look:
  %old = call %Kept @reuse(i64 %need)
  %base0 = extractvalue %Kept %old, 0
  %have = extractvalue %Kept %old, 1
  %none = icmp eq ptr %base0, null
  br i1 %none, label %new, label %got
new:
  call void @shrink(i64 0, i64 0)
  %base1 = call ptr @map(i64 %need)
  %failed = icmp eq ptr %base1, null
  br i1 %failed, label %fail, label %clean
clean:
  store i1 true, ptr %fresh
  br label %got
got:
  %base = phi ptr [%base0, %look], [%base1, %clean]
  %length = phi i64 [%have, %look], [%need, %clean]
  %data = getelementptr i8, ptr %base, i64 $START
  %usable = sub i64 %length, $START
  %done = call ptr @stamp(ptr %data, ptr %base, i64 %length, i64 %usable)
  ret ptr %done
fail:
  ret ptr null
}

define ptr @tb_scratch(i64 %size) {
  %fresh = alloca i1
  %p = call ptr @obtain(i64 %size, ptr %fresh)
  ret ptr %p
}

define void @tb_scratch_free(ptr %p, i64 %size) {
entry:
  %null = icmp eq ptr %p, null
  br i1 %null, label %end, label %read
read:
  %pb = getelementptr i8, ptr %p, i64 -8
  %base = load ptr, ptr %pb
  %pm = getelementptr i8, ptr %p, i64 -16
  %mapped = load i64, ptr %pm
  %heap = icmp eq i64 %mapped, 0
  br i1 %heap, label %give, label %large
give:
  call void @free(ptr %base)
  ret void
large:
  %kept = call i1 @keep(ptr %base, i64 %mapped)
  br i1 %kept, label %end, label %unmap
unmap:
  %rc = call i32 @munmap(ptr %base, i64 %mapped)
  br label %end
end:
  ret void
}
"""

_NUMPY = r"""
; NumPy's PyDataMem_Handler: char name[127], version, then ctx, malloc, calloc, realloc, free.
%Handler = type {[127 x i8], i8, ptr, ptr, ptr, ptr, ptr}
@tb_mem_handler = global %Handler {[127 x i8] c"$NAME", i8 1, ptr null,
  ptr @mem_malloc, ptr @mem_calloc, ptr @mem_realloc, ptr @mem_free}, align 64
@tb_mem_capsule = global ptr null
@tb_mem_name = global [12 x i8] c"mem_handler\00"

declare ptr @tb_PyDataMem_SetHandler(ptr)
declare ptr @tb_PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @tb_Py_DecRef(ptr)

define internal ptr @mem_malloc(ptr %ctx, i64 %size) {
  %p = call ptr @tb_scratch(i64 %size)
  ret ptr %p
}

define internal void @mem_free(ptr %ctx, ptr %p, i64 %size) {
  call void @tb_scratch_free(ptr %p, i64 %size)
  ret void
}

define internal ptr @mem_calloc(ptr %ctx, i64 %n, i64 %item) {
entry:
  %fresh = alloca i1
  %product = call {i64, i1} @llvm.umul.with.overflow.i64(i64 %n, i64 %item)
  %size = extractvalue {i64, i1} %product, 0
  %over = extractvalue {i64, i1} %product, 1
  br i1 %over, label %fail, label %get
get:
  %p = call ptr @obtain(i64 %size, ptr %fresh)
  %null = icmp eq ptr %p, null
  br i1 %null, label %fail, label %look
look:
  %zero = load i1, ptr %fresh
  br i1 %zero, label %end, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %size, i1 false)
  br label %end
end:
  ret ptr %p
fail:
  ret ptr null
}

; Stay where the new size fills at least half of the block; otherwise move.
define internal ptr @mem_realloc(ptr %ctx, ptr %p, i64 %size) {
entry:
  %none = icmp eq ptr %p, null
  br i1 %none, label %new, label %read
new:
  %first = call ptr @tb_scratch(i64 %size)
  ret ptr %first
read:
  %pu = getelementptr i8, ptr %p, i64 -24
  %usable = load i64, ptr %pu
  %half = lshr i64 %usable, 1
  %fits0 = icmp ule i64 %size, %usable
  %fits1 = icmp uge i64 %size, %half
  %fits = and i1 %fits0, %fits1
  br i1 %fits, label %stay, label %move
stay:
  ret ptr %p
move:
  %q = call ptr @tb_scratch(i64 %size)
  %null = icmp eq ptr %q, null
  br i1 %null, label %fail, label %copy
copy:
  %bytes = call i64 @llvm.umin.i64(i64 %size, i64 %usable)
  call void @llvm.memcpy.p0.p0.i64(ptr %q, ptr %p, i64 %bytes, i1 false)
  call void @tb_scratch_free(ptr %p, i64 %usable)
  ret ptr %q
fail:
  ret ptr null
}
declare i64 @llvm.umin.i64(i64, i64)

; PyArray_NewFromDescr with our handler in place while it runs. Steals %descr, needs the GIL.
define ptr @tb_new_large(ptr %type, ptr %descr, i32 %nd, ptr %dims, ptr %strides, i32 %flags) {
entry:
  %ours = load ptr, ptr @tb_mem_capsule
  %before = call ptr @tb_PyDataMem_SetHandler(ptr %ours)
  %failed = icmp eq ptr %before, null
  br i1 %failed, label %fail, label %make
make:
  %array = call ptr @tb_PyArray_NewFromDescr(ptr %type, ptr %descr, i32 %nd, ptr %dims,
                                             ptr %strides, ptr null, i32 %flags, ptr null)
  %was = call ptr @tb_PyDataMem_SetHandler(ptr %before)
  call void @tb_Py_DecRef(ptr %before)
  %ok = icmp ne ptr %was, null
  br i1 %ok, label %end, label %drop
end:
  call void @tb_Py_DecRef(ptr %was)
  ret ptr %array
drop:
  %made = icmp ne ptr %array, null
  br i1 %made, label %discard, label %null
discard:
  call void @tb_Py_DecRef(ptr %array)
  br label %null
null:
  ret ptr null
fail:
  call void @tb_Py_DecRef(ptr %descr)
  ret ptr null
}
"""
