"""Memory that a run has freed goes back to the system."""

import ctypes
import functools
import gc
import sys

M_ARENA_MAX, ARENAS = -8, 2  # glibc's number of that setting; and as many heaps, not eight for each core


@functools.cache
def _glibc() -> ctypes.CDLL | None:
    """Elsewhere there is none, and nothing to mend."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "malloc_trim") else None


def settle() -> None:
    """Once, before any run: each run computes in a thread of its own, and glibc would give many a heap of their own."""
    glibc = _glibc()
    if glibc is not None:
        glibc.mallopt(M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """After a run. What refers to itself stays until Python looks for it, and it cannot see how large tensors are; and
    glibc keeps what is freed. Without this, a server grew by half in two thousand runs."""
    gc.collect()
    glibc = _glibc()
    if glibc is not None:
        glibc.malloc_trim(0)
