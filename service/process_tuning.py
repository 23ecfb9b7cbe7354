"""What the service asks of its process before it serves: files, memory, and short turns for whoever computes."""

import ctypes
import os
import sys

OWN_FILES = 512  # that are no connections of clients: the database, the store, scratch, libraries
KERNELS = 256  # about six for each number of rows
KEPT_BYTES = 256 * 2**20
TURN_SECONDS = 0.001
SPINS = 8000  # about 0.1 ms, which is more than the pass does between two steps that threads share

# As malloc.h has them.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_PAD_BYTES = 16 * 2**20
_MOST_MMAP_BYTES = 32 * 2**20  # the largest that glibc takes


def prepare_process(max_connections: int) -> None:
    """To be called once, before torch is imported."""
    raise_file_limit(max_connections)
    rest_soon()
    keep_few_kernels()
    keep_freed_memory()
    # A pass gives the interpreter back and wants it again hundreds of times: whoever has it meanwhile shall not keep a
    # core waiting for the usual five milliseconds.
    sys.setswitchinterval(TURN_SECONDS)


def raise_file_limit(max_connections: int) -> None:
    """Lets this process have as many open files as the connections take, or as many as the system allows it."""
    if sys.platform == "win32":  # which has no such limit
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max_connections + OWN_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def rest_soon() -> None:
    """Lets the threads that shared a lone picture's pass sleep after it, unless the operator says how they wait.

    They would keep a core for some milliseconds, in which its answer is composed, looked at again and sent.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))


def keep_few_kernels() -> None:
    """Lets oneDNN keep its kernels for as many shapes of batches as come often, unless the operator says otherwise.

    It makes some for every number of rows that it meets, and would keep a thousand.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNELS))


def keep_freed_memory() -> bool:
    """Lets what a pass frees serve the next one: the system would clear each of its pages again. False if it cannot be.

    Only glibc gives memory back so eagerly, and only it is asked.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    wanted = {_M_MMAP_THRESHOLD: _MOST_MMAP_BYTES, _M_TRIM_THRESHOLD: KEPT_BYTES, _M_TOP_PAD: _PAD_BYTES}
    taken = [mallopt(name, value) for name, value in wanted.items()]
    return all(one == 1 for one in taken)
