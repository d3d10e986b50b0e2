"""What is kept for the next run, and what is let go: a server's memory must not grow with what its visitors try.

models = Kept(room=5e7, size=lambda model: model.parameters)
models.get("minilm", lambda: load("minilm"))  # made once, and kept while it is used or others leave it room
"""

import functools
import gc
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from demo.turns import tick

PATIENCE = 0.1  # seconds between two looks at the clock, while another run loads
Thing = TypeVar("Thing")
Result = TypeVar("Result")


class Kept(Generic[Thing]):
    """The thing in use, however large, and of the others those used last, as far as there is room."""

    def __init__(self, room: float, size: Callable[[Thing], float]) -> None:
        self.room, self.size = room, size
        self.things: dict[Hashable, Thing] = {}  # the one used last is the last
        self.ordering, self.making = threading.Lock(), threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Thing]) -> Thing:
        found = self.things.get(key)
        if found is not None:
            return self.put(key, found)
        while not self.making.acquire(timeout=PATIENCE):  # once, where two visitors ask for the same
            tick("waiting for a model that another run loads")
        try:
            found = self.things.get(key)
            if found is None:
                self._make_room()  # first, so that two large ones are not there at once
                found = make()
            return self.put(key, found)
        finally:
            self.making.release()

    def put(self, key: Hashable, thing: Thing) -> Thing:
        """It is the one in use now."""
        self._make_room(key)
        with self.ordering:
            self.things.pop(key, None)
            self.things[key] = thing
        return thing

    def _make_room(self, used: Hashable = None) -> None:
        """Beside the one in use, the large ones go, and small ones that were not used for longest."""
        left, before = self.room, len(self.things)
        with self.ordering:
            for key in [key for key in reversed(self.things) if key != used]:
                size = self.size(self.things[key])
                if size > left:
                    del self.things[key]
                else:
                    left -= size
            gone = before - len(self.things)
        if gone:
            gc.collect()  # what refers to itself stays until Python looks for it, and it cannot see how large it is


def kept_with_first(most: int) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Results are kept as long as the function's first argument is: for each at most so many, those used last.

    They must not refer to it, or it would stay.
    """

    def decorate(make: Callable[..., Result]) -> Callable[..., Result]:
        kept: weakref.WeakKeyDictionary[Any, Callable[..., Result]] = weakref.WeakKeyDictionary()

        @functools.wraps(make)
        def found(first: Any, *rest: Any, **named: Any) -> Result:
            if first not in kept:
                itself = weakref.ref(first)
                kept[first] = functools.lru_cache(most)(lambda *rest, **named: make(itself(), *rest, **named))
            return kept[first](*rest, **named)

        return found

    return decorate
