"""One background thread that builds variants, in the order they were asked for.

Invariants: it starts when first needed, survives a fork by starting anew in the child, and is gone
before the interpreter's teardown. A job that fails never takes the thread with it. A job runs in
the context (knobs, NumPy's error state) of whoever asked for it. What was asked for before a fork
is not built in the child: `generation` tells the two apart.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import queue
import threading
from collections.abc import Callable

from tailorbird import events

Job = Callable[[], None]


class Worker:
    """A queue and the thread that empties it."""

    def __init__(self) -> None:
        self.generation = 0
        self.reset()

    def reset(self) -> None:
        """Starts anew, with an empty queue and no thread."""
        self.generation += 1
        self.jobs: queue.SimpleQueue[tuple[contextvars.Context, Job] | None] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None
        self.lock = threading.Lock()
        self.idle = threading.Event()
        self.idle.set()
        self.waiting = 0
        self.closed = False

    def submit(self, job: Job) -> bool:
        """Runs a job behind the caller; False when no thread can be had."""
        with self.lock:
            if self.closed or not self.started():
                return False
            self.waiting += 1
            self.idle.clear()
        self.jobs.put((contextvars.copy_context(), job))
        return True

    def started(self) -> bool:
        """Whether the thread runs, started now if need be."""
        if self.thread is None:
            name = "tailorbird-compile"
            thread = threading.Thread(target=self.work, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # too many threads, or the interpreter is ending
                return False
            self.thread = thread
        return True

    def work(self) -> None:
        """What the thread does: one job after the other."""
        while True:
            item = self.jobs.get()
            if item is None:
                return
            context, job = item
            try:
                if not self.closed:
                    context.run(job)
            except Exception as error:  # noqa: BLE001 - the thread goes on, whatever it was
                events.record("background_failed", error=repr(error))
            del item, context, job  # nothing of the caller's is kept while waiting
            with self.lock:
                self.waiting -= 1
                if not self.waiting:
                    self.idle.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until everything asked for is built; whether it is."""
        return self.idle.wait(seconds)

    def close(self) -> None:
        """Lets the job at hand finish and drops the rest."""
        self.closed = True
        if self.thread is not None and self.thread.is_alive():
            self.jobs.put(None)
            self.thread.join(2.0)


WORKER = Worker()
os.register_at_fork(after_in_child=WORKER.reset)
# threading's own exit hook would wait for us too late: LLVM must be idle before modules go.
atexit.register(WORKER.close)
