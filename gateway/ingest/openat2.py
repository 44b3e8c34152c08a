"""Linux's `openat2`: one call that opens a path below a directory and follows no link on the way.

Python has no function for it. `is_available` says whether the kernel, and a filter before it, knows it.
"""

import ctypes
import errno
import functools
import os
import platform
import sys
from typing import Final

_NUMBER: Final = 437
_MACHINES: Final = frozenset({"x86_64", "aarch64"})
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_RESOLVE: Final = _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS | _NO_XDEV


class _How(ctypes.Structure):
    """`struct open_how` of linux/openat2.h."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@functools.cache
def is_available() -> bool:
    """Whether the kernel has the call, and it opens a path below the directory and refuses one above it."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    try:
        directory = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.close(open_below(directory, ".", os.O_RDONLY | os.O_CLOEXEC))
        os.close(open_below(directory, "..", os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.EXDEV
    finally:
        os.close(directory)
    return False


def open_below(directory: int, path: str, flags: int) -> int:
    """A descriptor of the path below the directory, on the same mount, with no link on the way.

    Raises:
        OSError: ELOOP for a link, EXDEV for a path that leads out or to another mount, and all that `os.open` raises.
    """
    how = _How(flags=flags, resolve=_RESOLVE)
    descriptor = _syscall()(_NUMBER, directory, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(descriptor)


@functools.cache
def _syscall() -> "ctypes._NamedFuncPointer":
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    call.restype = ctypes.c_long
    return call
