"""One background thread that builds variants, in the order they were asked for.

Invariants: it starts when first needed, survives a fork by starting anew in the child, and is gone before the interpreter's teardown. A job that
fails never takes the thread with it.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable

from tailorbird import events

Job = Callable[[], None]


class Worker:
    """A queue and the thread that empties it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None
        self.lock = threading.Lock()
        self.idle = threading.Event()
        self.idle.set()
        self.waiting = 0
        self.closed = False

    def submit(self, job: Job) -> None:
        """Runs a job behind the caller."""
        with self.lock:
            if self.closed:
                return
            self.waiting += 1
            self.idle.clear()
            if self.thread is None:
                self.thread = threading.Thread(
                    target=self.work, name="tailorbird-compile", daemon=True
                )
                self.thread.start()
        self.jobs.put(job)

    def work(self) -> None:
        while True:
            job = self.jobs.get()
            if job is None:
                return
            try:
                if not self.closed:
                    job()
            except Exception as error:
                events.record("background_failed", error=repr(error))
            finally:
                with self.lock:
                    self.waiting -= 1
                    if not self.waiting:
                        self.idle.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until everything asked for is built."""
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
