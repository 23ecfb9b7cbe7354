"""Tune the process before it serves: open files, memory allocation, OpenMP, and the switch interval of threads."""

import ctypes
import os
import sys

RESERVED_FILES = 512  # open files that are not client connections: database, object store, scratch, libraries
ONEDNN_KERNELS = 256  # about six for each number of rows
RETAINED_BYTES = 256 * 2**20
SWITCH_INTERVAL_S = 0.001
SPIN_COUNT = 8000  # about 0.1 ms, which is longer than the gap between two parallel steps of a pass

# Constants of malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_TOP_PAD_BYTES = 16 * 2**20
_MAX_MMAP_THRESHOLD_BYTES = 32 * 2**20  # the largest that glibc accepts


def prepare_process(max_connections: int) -> None:
    """Apply all of it; call once, before torch is imported."""
    raise_file_limit(max_connections)
    limit_openmp_spinning()
    limit_kernel_cache()
    retain_freed_memory()
    # A pass releases and takes the GIL hundreds of times; the default of 5 ms could stall a core each time.
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def raise_file_limit(max_connections: int) -> None:
    """Raise the limit of open files to what the connections need, as far as the system allows."""
    if sys.platform == "win32":  # which has no such limit
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = max_connections + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def limit_openmp_spinning() -> None:
    """Let OpenMP threads sleep soon after a pass, unless the operator sets how they wait.

    Spinning threads would occupy the cores for milliseconds in which the response is composed, rechecked and sent.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPIN_COUNT))


def limit_kernel_cache() -> None:
    """Let oneDNN cache the kernels of the common batch shapes only, unless the operator sets a size.

    It compiles kernels for every number of rows, and would cache a thousand of them.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(ONEDNN_KERNELS))


def retain_freed_memory() -> bool:
    """Let the next pass reuse the memory that a pass frees, instead of returning it to the system; False without glibc.

    The system would clear every page again. Only glibc returns memory so eagerly.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = {
        _M_MMAP_THRESHOLD: _MAX_MMAP_THRESHOLD_BYTES,
        _M_TRIM_THRESHOLD: RETAINED_BYTES,
        _M_TOP_PAD: _TOP_PAD_BYTES,
    }
    results = [mallopt(name, value) for name, value in options.items()]
    return all(result == 1 for result in results)
