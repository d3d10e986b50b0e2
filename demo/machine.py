"""What the C libraries below torch have to be told: to give memory back, and not to get in each other's way.

Where such a library is not the one in use (macOS, Windows, other builds of torch), there is nothing to mend.
"""

import ctypes
import functools
import gc
import os
import sys
from pathlib import Path

import torch

M_ARENA_MAX, ARENAS = -8, 2  # glibc's number of that setting; and as many heaps, not eight for each core
PRIMITIVES = "32"  # that oneDNN keeps; each is compiled for one shape, and searches compare guesses in many shapes
SOFT = 1  # OpenMP's word for: end the threads, forget nothing else


def settle() -> None:
    """Once, before any run. Each run computes in a thread of its own, and glibc would give many a heap of their own;
    oneDNN would keep a thousand shapes: a server grew by a quarter in five hundred runs. Neither costs speed."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", PRIMITIVES)
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


def rest() -> None:
    """Said by a thread that lets another compute: its helpers end, until it computes again (0.1 ms).

    Each thread that computes has helpers of its own, and once there are more than cores, all of them sleep between two
    sums instead of looking out for the next: waking them made every attack slower by a quarter.
    """
    openmp = _openmp()
    if openmp is not None:
        openmp.omp_pause_resource_all(SOFT)


@functools.cache
def _glibc() -> ctypes.CDLL | None:
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "malloc_trim") else None


@functools.cache
def _openmp() -> ctypes.CDLL | None:
    """GNU's, as torch brings it along on Linux."""
    files = list(Path(torch.__file__).parent.glob("lib/libgomp*.so*"))
    library = ctypes.CDLL(str(files[0])) if sys.platform == "linux" and files else None
    return library if hasattr(library, "omp_pause_resource_all") else None
