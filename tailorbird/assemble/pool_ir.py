"""The thread pool, in LLVM IR: no Python, no OpenMP, nothing to install.

`tb_parfor(fn, arg, n)` runs `fn(arg, i)` for every i below n, on the caller and on the workers;
`tb_watched(fn, arg, n, watch, what)` does too, and calls `watch(what)` now and then while it waits.

Invariants:
- A job is published by opening `ticket` = generation << 32 | next chunk. A chunk is claimed by
  adding one to the ticket with compare-and-swap. The job's fields are read between loading the
  ticket and swapping it, so a swap that succeeds proves that they belonged to that generation.
- The caller waits for chunks, not for workers: a worker that never wakes costs nothing, and after
  `tb_parfor` returned nobody touches `arg` again.
- Who finds the pool taken (a nested call, a second Python thread) runs its chunks itself.
- Workers are started by the first job that wants them and never end. They block every signal, so
  that SIGINT goes to the thread that Python listens on.
- A forked child has no workers: `tb_pool_reset` makes it forget them, and its next job starts new
  ones.
- `tb_threads` is how many threads may work, the caller included; workers beyond it leave the job
  alone.
"""

from __future__ import annotations

EXPORTS = ("tb_parfor", "tb_watched", "tb_threads", "tb_pool_reset", "tb_pool_started")

IR = r"""
@tb_threads      = global i64 1, align 64       ; how many threads may work on a job
@tb_pool_started = global i64 0, align 64       ; workers started so far
@generation      = internal global i32 0, align 64
@ticket          = internal global i64 0, align 64
@done            = internal global i64 0, align 64
@sleepers        = internal global i32 0, align 64
@busy            = internal global i32 0, align 64
@job_fn          = internal global ptr null, align 64
@job_arg         = internal global ptr null
@job_n           = internal global i64 0
@job_threads     = internal global i64 0

declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_yield()
declare void @llvm.x86.sse2.pause()

define internal void @futex(i32 %what, i32 %value) {
  %rc = call i64 (i64, ...) @syscall(i64 202, ptr @generation, i32 %what, i32 %value, i64 0)
  ret void
}

; Claim and run chunks of one generation until there are none left.
define internal void @run_chunks(i32 %generation) {
entry:
  %first = load atomic i64, ptr @ticket acquire, align 8
  br label %look
look:
  %t = phi i64 [%first, %entry], [%next, %run], [%seen, %claim]
  %high = lshr i64 %t, 32
  %of = trunc i64 %high to i32
  %current = icmp eq i32 %of, %generation
  br i1 %current, label %read, label %out
read:
  %n = load atomic i64, ptr @job_n acquire, align 8
  %fn = load atomic ptr, ptr @job_fn acquire, align 8
  %arg = load atomic ptr, ptr @job_arg acquire, align 8
  %chunk = and i64 %t, 4294967295
  %left = icmp ult i64 %chunk, %n
  br i1 %left, label %claim, label %out
claim:
  %bumped = add i64 %t, 1
  %swap = cmpxchg ptr @ticket, i64 %t, i64 %bumped seq_cst seq_cst
  %seen = extractvalue {i64, i1} %swap, 0
  %mine = extractvalue {i64, i1} %swap, 1
  br i1 %mine, label %run, label %look
run:
  call void %fn(ptr %arg, i64 %chunk)
  %counted = atomicrmw add ptr @done, i64 1 seq_cst
  %next = load atomic i64, ptr @ticket acquire, align 8
  br label %look
out:
  ret void
}

; A worker: spin a while for a new generation, then sleep on it; help if it is within the limit.
define internal ptr @worker(ptr %rank.p) {
entry:
  %rank = ptrtoint ptr %rank.p to i64
  br label %idle
idle:
  %last = phi i32 [0, %entry], [%new, %got], [%new, %help]
  br label %spin
spin:
  %k = phi i64 [0, %idle], [%k1, %pause]
  %g = load atomic i32, ptr @generation acquire, align 4
  %changed = icmp ne i32 %g, %last
  br i1 %changed, label %got, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, SPINS
  br i1 %more, label %spin, label %doze
doze:
  %s0 = atomicrmw add ptr @sleepers, i32 1 seq_cst
  br label %check
check:
  %g2 = load atomic i32, ptr @generation seq_cst, align 4
  %changed2 = icmp ne i32 %g2, %last
  br i1 %changed2, label %awake, label %sleep
sleep:
  call void @futex(i32 128, i32 %last)          ; FUTEX_WAIT_PRIVATE
  br label %check
awake:
  %s1 = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %got
got:
  %new = phi i32 [%g, %spin], [%g2, %awake]
  %limit = load atomic i64, ptr @job_threads acquire, align 8
  %within = icmp ult i64 %rank, %limit
  br i1 %within, label %help, label %idle
help:
  call void @run_chunks(i32 %new)
  br label %idle
}

; Start workers until there are %want; called by the thread that holds @busy.
define internal void @start(i64 %want) noinline {
entry:
  %thread = alloca i64
  %all = alloca [16 x i64]
  %old = alloca [16 x i64]
  %filled = call i32 @sigfillset(ptr %all)
  %blocked = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  %have = load i64, ptr @tb_pool_started
  br label %next
next:
  %i = phi i64 [%have, %entry], [%i1, %made]
  %more = icmp ult i64 %i, %want
  br i1 %more, label %make, label %end
make:
  %i1 = add i64 %i, 1
  %rank = inttoptr i64 %i1 to ptr
  %rc = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %rank)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %made, label %end
made:
  %id = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %id)
  store i64 %i1, ptr @tb_pool_started
  br label %next
end:
  %restored = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  ret void
}

define void @tb_pool_reset() {
  %g = load i32, ptr @generation
  %wide = zext i32 %g to i64
  %high = shl i64 %wide, 32
  %closed = or i64 %high, 4294967295            ; nobody takes up what the parent left undone
  store i64 %closed, ptr @ticket
  store i32 0, ptr @sleepers
  store i32 0, ptr @busy
  store i64 0, ptr @tb_pool_started
  ret void
}

define void @tb_parfor(ptr %fn, ptr %arg, i64 %n) {
  call void @tb_watched(ptr %fn, ptr %arg, i64 %n, ptr null, ptr null)
  ret void
}

define void @tb_watched(ptr %fn, ptr %arg, i64 %n, ptr %watch, ptr %what) {
entry:
  %threads = load atomic i64, ptr @tb_threads monotonic, align 8
  %one = icmp ult i64 %threads, 2
  %single = icmp ult i64 %n, 2
  %huge = icmp ugt i64 %n, 2147483647
  %no0 = or i1 %one, %single
  %no = or i1 %no0, %huge
  br i1 %no, label %alone, label %take
take:
  %lock = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %taken = extractvalue {i32, i1} %lock, 1
  br i1 %taken, label %ready, label %alone
alone:
  %i = phi i64 [0, %entry], [0, %take], [%i1, %step]
  %left = icmp ult i64 %i, %n
  br i1 %left, label %step, label %finished
step:
  call void %fn(ptr %arg, i64 %i)
  %i1 = add i64 %i, 1
  br label %alone
finished:
  ret void
ready:
  %want = sub i64 %threads, 1
  %have = load i64, ptr @tb_pool_started
  %few = icmp ult i64 %have, %want
  br i1 %few, label %hire, label %publish
hire:
  call void @start(i64 %want)
  br label %publish
publish:
  %g = load i32, ptr @generation
  %g1 = add i32 %g, 1
  %wide = zext i32 %g1 to i64
  %open = shl i64 %wide, 32
  %closed = or i64 %open, 4294967295
  store atomic i64 %closed, ptr @ticket seq_cst, align 8
  store atomic i64 0, ptr @done release, align 8
  store atomic ptr %fn, ptr @job_fn release, align 8
  store atomic ptr %arg, ptr @job_arg release, align 8
  store atomic i64 %n, ptr @job_n release, align 8
  store atomic i64 %threads, ptr @job_threads release, align 8
  store atomic i64 %open, ptr @ticket seq_cst, align 8
  store atomic i32 %g1, ptr @generation seq_cst, align 4
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %work
wake:
  call void @futex(i32 129, i32 2147483647)     ; FUTEX_WAKE_PRIVATE, everybody
  br label %work
work:
  call void @run_chunks(i32 %g1)
  br label %wait
wait:
  %k = phi i64 [0, %work], [%k1, %pause], [0, %yield], [0, %look]
  %y = phi i64 [0, %work], [%y, %pause], [%y1, %yield], [0, %look]
  %d = load atomic i64, ptr @done acquire, align 8
  %all = icmp eq i64 %d, %n
  br i1 %all, label %end, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  %k1 = add i64 %k, 1
  %again = icmp ult i64 %k1, 1000
  br i1 %again, label %wait, label %yield
yield:
  %yielded = call i32 @sched_yield()
  %y1 = add i64 %y, 1
  %long = icmp ugt i64 %y1, 64
  %someone = icmp ne ptr %watch, null
  %looks = and i1 %long, %someone
  br i1 %looks, label %look, label %wait
look:
  %seen = call i32 %watch(ptr %what)
  br label %wait
end:
  store atomic i32 0, ptr @busy release, align 4
  ret void
}
""".replace("SPINS", "2000")
