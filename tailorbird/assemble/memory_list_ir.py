"""The list of freed blocks that wait to be used again, in LLVM IR.

`reuse(need)` takes a block out, `keep(base, bytes)` puts one in, `shrink(bytes, blocks)` unmaps.

Invariants:
- At most SLOTS blocks, and KEEP bytes, are kept; the oldest go first. A kept block is reused for a
  request that fills at least four fifths of it.
- The list is under a spin lock; system calls are made outside it. A child forked while another
  thread held the lock forgets the list.
"""

from __future__ import annotations

SLOTS = 8

LIST_IR = r"""
%Kept = type {ptr, i64}                         ; base, mapped bytes; the newest is last
@tb_mem_recycle = global i32 1
@tb_mem_huge    = global i32 1
@tb_mem_kept    = global i64 0                  ; bytes in the list
@count = internal global i64 0
@lock  = internal global i32 0, align 64
@list  = internal global [$SLOTS x %Kept] zeroinitializer

declare i32 @sched_yield()
declare i32 @munmap(ptr, i64)
declare void @llvm.x86.sse2.pause()
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)

define internal void @acquire() {
entry:
  br label %try
try:
  %k = phi i64 [0, %entry], [%k1, %wait], [0, %yield]
  %swap = cmpxchg ptr @lock, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {i32, i1} %swap, 1
  br i1 %mine, label %end, label %wait
wait:
  call void @llvm.x86.sse2.pause()
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, 100
  br i1 %more, label %try, label %yield
yield:
  %y = call i32 @sched_yield()
  br label %try
end:
  ret void
}

define internal void @release() {
  store atomic i32 0, ptr @lock release, align 4
  ret void
}

; Take entry %i out of the list (under the lock).
define internal %Kept @remove(i64 %i) {
  %p = getelementptr %Kept, ptr @list, i64 %i
  %entry = load %Kept, ptr %p
  %i1 = add i64 %i, 1
  %after = getelementptr %Kept, ptr @list, i64 %i1
  %n = load i64, ptr @count
  %n1 = sub i64 %n, 1
  %rest = sub i64 %n1, %i
  %bytes = mul i64 %rest, 16
  call void @llvm.memmove.p0.p0.i64(ptr %p, ptr %after, i64 %bytes, i1 false)
  store i64 %n1, ptr @count
  %size = extractvalue %Kept %entry, 1
  %kept = load i64, ptr @tb_mem_kept
  %kept1 = sub i64 %kept, %size
  store i64 %kept1, ptr @tb_mem_kept
  ret %Kept %entry
}

; The newest kept block that holds %need bytes and is filled by it to four fifths, or {null, 0}.
define internal %Kept @reuse(i64 %need) {
entry:
  %quarter = lshr i64 %need, 2
  %most = add i64 %need, %quarter
  call void @acquire()
  %n = load i64, ptr @count
  br label %next
next:
  %i = phi i64 [%n, %entry], [%j, %look]
  %more = icmp ne i64 %i, 0
  br i1 %more, label %look, label %none
look:
  %j = sub i64 %i, 1
  %p = getelementptr %Kept, ptr @list, i64 %j, i32 1
  %size = load i64, ptr %p
  %enough = icmp uge i64 %size, %need
  %close = icmp ule i64 %size, %most
  %fits = and i1 %enough, %close
  br i1 %fits, label %found, label %next
found:
  %entry.found = call %Kept @remove(i64 %j)
  call void @release()
  ret %Kept %entry.found
none:
  call void @release()
  ret %Kept zeroinitializer
}

; Unmap the oldest kept blocks until at most %bytes and %blocks are kept.
define internal void @shrink(i64 %bytes, i64 %blocks) {
entry:
  br label %next
next:
  call void @acquire()
  %n = load i64, ptr @count
  %kept = load i64, ptr @tb_mem_kept
  %over0 = icmp ugt i64 %n, %blocks
  %over1 = icmp ugt i64 %kept, %bytes
  %over = or i1 %over0, %over1
  br i1 %over, label %drop, label %end
drop:
  %oldest = call %Kept @remove(i64 0)
  call void @release()
  %base = extractvalue %Kept %oldest, 0
  %size = extractvalue %Kept %oldest, 1
  %rc = call i32 @munmap(ptr %base, i64 %size)
  br label %next
end:
  call void @release()
  ret void
}

; Keep a freed block if it may be kept; whether it was.
define internal i1 @keep(ptr %base, i64 %size) {
entry:
  %on = load atomic i32, ptr @tb_mem_recycle monotonic, align 4
  %wanted = icmp ne i32 %on, 0
  %small = icmp ule i64 %size, $KEEP
  %may = and i1 %wanted, %small
  br i1 %may, label %room, label %no
room:
  %left = sub i64 $KEEP, %size
  call void @shrink(i64 %left, i64 SLOTS_LESS_ONE)
  call void @acquire()
  %n = load i64, ptr @count
  %free = icmp ult i64 %n, $SLOTS
  br i1 %free, label %store, label %full
full:
  call void @release()
  br label %no
store:
  %p = getelementptr %Kept, ptr @list, i64 %n
  store ptr %base, ptr %p
  %ps = getelementptr %Kept, ptr @list, i64 %n, i32 1
  store i64 %size, ptr %ps
  %n1 = add i64 %n, 1
  store i64 %n1, ptr @count
  %kept = load i64, ptr @tb_mem_kept
  %kept1 = add i64 %kept, %size
  store i64 %kept1, ptr @tb_mem_kept
  call void @release()
  ret i1 true
no:
  ret i1 false
}

define void @tb_mem_release() {
  call void @shrink(i64 0, i64 0)
  ret void
}

; In a forked child: a list that was being changed cannot be trusted.
define void @tb_mem_reset() {
  %held = load i32, ptr @lock
  %torn = icmp ne i32 %held, 0
  br i1 %torn, label %forget, label %end
forget:
  store i64 0, ptr @count
  store i64 0, ptr @tb_mem_kept
  store i32 0, ptr @lock
  br label %end
end:
  ret void
}
""".replace("SLOTS_LESS_ONE", str(SLOTS - 1))
