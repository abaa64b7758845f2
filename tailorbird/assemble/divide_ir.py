"""How a nest inside of loops runs, or a loop whose turns are independent, in LLVM IR: on one
thread, or divided over the pool.

`tb_divide(kernel, env, n, work, step, pace, watch)` runs a kernel over n points; the caller calls
`watch(env)`, if that is not null, now and then while it waits for others. Where there is enough to
do for several threads, it takes the time of both ways, work by work, and goes the faster of them;
the other is tried again now and then, more seldom each time that it loses. So threads help where
they do, and a machine whose cores are busy with something else costs no more than a trial.

Invariants: `pace` belongs to one nest: ticks for some work alone and divided, the turns left until
the next trial, and how many they were. Two Python threads may write it at once; a number that is
lost does no harm, for both ways come to the same. At a threshold of no work all is divided.
"""

from __future__ import annotations

from tailorbird.lower.divide import AWAKE

EXPORTS = ("tb_divide",)
SOON, LATE = 8, 4096  # turns between trials, at first and at most

_TEXT = r"""
declare i64 @llvm.readcyclecounter()

define void @tb_divide(ptr %kernel, ptr %env, i64 %n, i64 %work, i64 %step,
                       ptr %pace, ptr %watch) {
entry:
  %more = shl i64 %work, AWAKE
  %parallel = call i1 @worth(i64 %more)
  br i1 %parallel, label %several, label %alone
alone:
  call void %kernel(ptr %env, i64 0, i64 %n, i64 0)
  ret void
several:
  %least = load atomic i64, ptr @tb_parallel monotonic, align 8
  %always = icmp eq i64 %least, 1
  br i1 %always, label %divide, label %paced
divide:
  call void @divided(ptr %kernel, ptr %env, i64 %n, i64 %step, ptr %watch)
  ret void
paced:
  %p.divided = getelementptr i64, ptr %pace, i64 1
  %p.left = getelementptr i64, ptr %pace, i64 2
  %p.pause = getelementptr i64, ptr %pace, i64 3
  %t.alone = load atomic i64, ptr %pace monotonic, align 8
  %t.divided = load atomic i64, ptr %p.divided monotonic, align 8
  %left = load atomic i64, ptr %p.left monotonic, align 8
  %better = icmp ule i64 %t.divided, %t.alone
  %due = icmp eq i64 %left, 0
  %turned = xor i1 %better, %due
  %new.d = icmp eq i64 %t.divided, 0
  %new.a = icmp eq i64 %t.alone, 0
  %try.d = or i1 %turned, %new.d
  %not.a = xor i1 %new.a, true
  %divides = and i1 %try.d, %not.a             ; the first turn is alone
  %start = call i64 @llvm.readcyclecounter()
  br i1 %divides, label %many, label %one
many:
  call void @divided(ptr %kernel, ptr %env, i64 %n, i64 %step, ptr %watch)
  br label %ran
one:
  call void %kernel(ptr %env, i64 0, i64 %n, i64 0)
  br label %ran
ran:
  %end = call i64 @llvm.readcyclecounter()
  %ticks = sub i64 %end, %start
  %scaled = shl i64 %ticks, 16
  %share = lshr i64 %work, 4
  %some = or i64 %share, 1
  %rate0 = udiv i64 %scaled, %some
  %rate = or i64 %rate0, 1
  %p.mine = select i1 %divides, ptr %p.divided, ptr %pace
  %before = select i1 %divides, i64 %t.divided, i64 %t.alone
  %other = select i1 %divides, i64 %t.alone, i64 %t.divided
  %unknown = icmp eq i64 %before, 0
  %fresh = or i1 %unknown, %due
  %change = sub i64 %rate, %before
  %quarter = ashr i64 %change, 2
  %mean = add i64 %before, %quarter
  %now = select i1 %fresh, i64 %rate, i64 %mean
  store atomic i64 %now, ptr %p.mine monotonic, align 8
  br i1 %due, label %trial, label %turn
turn:
  %less = sub i64 %left, 1
  store atomic i64 %less, ptr %p.left monotonic, align 8
  ret void
trial:
  %pause = load atomic i64, ptr %p.pause monotonic, align 8
  %won = icmp ult i64 %now, %other
  %twice = shl i64 %pause, 1
  %late = call i64 @llvm.smin.i64(i64 %twice, i64 LATE)
  %longer = call i64 @llvm.smax.i64(i64 %late, i64 SOON)
  %next = select i1 %won, i64 SOON, i64 %longer
  store atomic i64 %next, ptr %p.pause monotonic, align 8
  store atomic i64 %next, ptr %p.left monotonic, align 8
  ret void
}
"""


def ir() -> str:
    """The text, to be compiled with that of the pool and of steps."""
    text = _TEXT
    for name, value in (("AWAKE", AWAKE), ("SOON", SOON), ("LATE", LATE)):
        text = text.replace(name, str(value))
    return text
