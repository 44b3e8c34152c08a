"""What a command needs before it can run, and the error if it is not there."""

import errno
import gc
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# Files that a supervisor passes on come after standard input, output and error.
_FIRST_PASSED: Final = 3


class CannotStart(Exception):
    """Why a command cannot run here, in one sentence with its fix."""

    exit_code = 1


@contextmanager
def fast_import() -> Iterator[None]:
    """Makes imports in the block faster: they leave no garbage, so the collector is off meanwhile."""
    gc.disable()
    try:
        yield
    finally:
        # Otherwise the first collection afterwards would look at all imported objects.
        gc.freeze()
        gc.enable()


def listening_socket(host: str, port: int) -> socket.socket:
    """A bound socket.

    Raises:
        CannotStart: the port is taken, or the address is not one of this machine.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise CannotStart(f"{host} is not an address of this machine: choose another with --host.") from None
    # Named as TCP, unlike what `create_server` makes: only then does asyncio send small answers without delay.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise CannotStart(_reason(error, host, port)) from None
    return listening


def inherited_socket() -> socket.socket | None:
    """The socket that a supervisor has opened for this process, as systemd does; None if it has not.

    Raises:
        CannotStart: it is not one that we can serve on.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    if os.environ.get("LISTEN_FDS") != "1":
        raise CannotStart("systemd passed several sockets: name one ListenStream in the socket unit.")
    # The socket is not for processes that we start.
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)
    passed = socket.socket(fileno=_FIRST_PASSED)
    passed.set_inheritable(False)
    if passed.family not in {socket.AF_INET, socket.AF_INET6} or passed.type != socket.SOCK_STREAM:
        raise CannotStart("systemd passed a socket that is not TCP: name an address and a port in ListenStream.")
    return passed


def _reason(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} is in use: stop what listens there, or choose another with --port (make run: BRAINS_PORT)."
    if error.errno == errno.EACCES:
        return f"Port {port} needs more rights than this user has: choose one above 1023 with --port."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine: choose another with --host."
    why = os.strerror(error.errno or 0)
    return f"Cannot listen on {host}:{port} ({why}): choose another with --host or --port."


def check_data_dir(data_dir: Path) -> None:
    """Make the data directory if need be.

    Raises:
        CannotStart: it cannot be made or written to.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        writable = os.access(data_dir, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    if not writable:
        raise CannotStart(f"The data directory {data_dir} cannot be written to: choose another with BRAINS_DATA_DIR.")


def say(*lines: str) -> None:
    """Tell the person who started us. Never on stdout, which belongs to MCP over stdio."""
    sys.stderr.write("".join(f"{line}\n" for line in lines))
