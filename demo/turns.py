"""Long computations take turns with whoever watches them.

A generator can only yield where it stands, and an attack spends its seconds far below: in the layers of a network, in
the singular vectors of a matrix. So whatever computes for long says `tick()`, and there, however deep, a run can be
looked at, told that its time is up, and stopped. `in_turns` makes that a generator: the work has a thread of its own,
and either it runs or its watcher does, never both.

    for item in in_turns(lambda: attack.run(leak, budget, seed), budget.spent):
        ...  # what the attack yields; and a Pause, wherever nothing came for a moment

A thread of its own also means that a mode of torch, such as no_grad, which holds for a thread, never gets out.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from demo.machine import rest

Item = TypeVar("Item")
LOOK = 0.25  # seconds without news, after which the watcher may look
_here = threading.local()  # .clock: what ticks in this thread, if anything does


class Over(BaseException):
    """There is no time left, or nobody waits for the rest. No Exception, so that nothing on the way up swallows it."""


@dataclass(frozen=True)
class Pause:
    """Nothing new yet; what the work said last, since it had something, that it was doing."""

    doing: str


def tick(doing: str = "") -> None:
    """Said by whatever computes for long, several times a second. Without a watcher it does nothing."""
    clock = getattr(_here, "clock", None)
    if clock is not None:
        clock(doing)


def ticking(items: Iterable[Item], doing: str = "") -> Iterator[Item]:
    """The same items, with a tick before each."""
    for item in items:
        tick(doing)
        yield item


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Whatever ticks in here raises `Over` after so many seconds; for questions that are worth only a moment."""
    ends, outer = time.perf_counter() + seconds, getattr(_here, "clock", None)

    def clock(doing: str) -> None:
        if outer is not None:
            outer(doing)
        if time.perf_counter() >= ends:
            raise Over

    _here.clock = clock
    try:
        yield
    finally:
        _here.clock = outer


def in_turns(work: Callable[[], Iterable[Item]], over: Callable[[], bool] = lambda: False) -> Iterator[Item | Pause]:
    """What the work yields, and a `Pause` wherever nothing came for a moment.

    The work ends by itself, or at its first tick after `over()`; closing this generator ends it at its next tick.
    """
    worker = _Worker(work, over)
    worker.thread.start()
    try:
        while worker.next():
            yield worker.item  # type: ignore[misc]
    finally:
        worker.end()
    if worker.problem is not None:
        raise worker.problem


class _Worker(Generic[Item]):
    """The thread in which the work is done, one turn at a time."""

    def __init__(self, work: Callable[[], Iterable[Item]], over: Callable[[], bool]) -> None:
        self.work, self.over = work, over
        self.item: Item | Pause | None = None
        self.doing = ""
        self.stopped = self.done = False
        self.problem: BaseException | None = None
        self.since = 0.0  # when this turn began
        self.mine, self.theirs = threading.Semaphore(0), threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run, daemon=True)

    def next(self) -> bool:
        """Lets the work go on until it has something to show; whether it has."""
        rest()
        self.mine.release()
        self.theirs.acquire()
        return not self.done

    def end(self) -> None:
        self.stopped = True
        self.mine.release()
        self.thread.join()

    def _run(self) -> None:
        _here.clock = self._tick
        self.mine.acquire()
        self.since = time.perf_counter()
        try:
            with closing(self._steps()) as steps:
                for item in steps:
                    self.doing = ""
                    self._show(item)
        except Over:
            pass
        except BaseException as problem:
            self.problem = problem
        self.done = True
        self.theirs.release()

    def _steps(self) -> Generator[Item, None, None]:
        yield from self.work()

    def _tick(self, doing: str) -> None:
        self.doing = doing or self.doing
        if self.stopped or self.over():
            raise Over
        if time.perf_counter() - self.since >= LOOK:
            self._show(Pause(self.doing))

    def _show(self, item: Item | Pause) -> None:
        if self.stopped:
            raise Over
        self.item = item
        self.theirs.release()
        self.mine.acquire()
        if self.stopped:
            raise Over
        self.since = time.perf_counter()
