"""A process that cannot connect to anything: for code of production that runs on a laptop.

1. Python's sockets raise NetworkBlocked before a connection, a datagram or a look-up of a name, whatever the address:
   a tunnel to production listens on loopback, and a proxy of a database on a Unix socket.
2. Where the kernel allows it (Linux, with user namespaces), the process has a network without interfaces: libraries
   that do not use Python's sockets, and subprocesses, cannot connect either. Unix sockets are files: against those, (1)
   is all there is.
3. Neither can be undone in this process: both are for a process that does nothing else.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any, Final

from penstock.errors import PenstockError

_EVENTS: Final = frozenset(
    {
        "socket.connect",
        "socket.sendto",
        "socket.sendmsg",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.gethostbyaddr",
        "socket.getnameinfo",
    }
)
_NEW_USER: Final = 0x1000_0000
_NEW_NETWORK: Final = 0x4000_0000
_MOST_PLACES: Final = 100


class NetworkBlocked(PenstockError):
    """A connection that was not allowed. No OSError: clients would try again, and hide why."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"A connection to {place} was blocked: a job that is debugged may not reach production. "
            "Give --network to allow connections."
        )
        self.place = place


class NetworkBlock:
    """The block of this process, and what it has refused."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        """How often each place was tried: a task may have caught the error."""
        self.by_kernel = False

    def begin(self) -> None:
        """From now on, and for good (3). Call it before the process has a second thread."""
        self.by_kernel = _leave_network()
        sys.addaudithook(self._check)

    def _check(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _EVENTS:
            return
        place = _place(event, args)
        if place in self.places or len(self.places) < _MOST_PLACES:
            self.places[place] = self.places.get(place, 0) + 1
        raise NetworkBlocked(place)


def _place(event: str, args: tuple[Any, ...]) -> str:
    """`host:port`, the path of a Unix socket, or a name that was looked up."""
    if event == "socket.getaddrinfo":
        host, port = args[0], args[1]
        return f"{_text(host)}:{_text(port)}" if port else _text(host)
    address = args[0] if event in ("socket.gethostbyname", "socket.gethostbyaddr") else args[-1]
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{_text(address[0])}:{_text(address[1])}"
    return _text(address)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _leave_network() -> bool:
    """Moves the process into a network of its own (2). A child tries it first: half of it would be worse than none."""
    if sys.platform != "linux":
        return False
    child = os.fork()
    if child == 0:
        try:
            _unshare()
            os._exit(0)
        except BaseException:
            os._exit(1)
    if os.waitpid(child, 0)[1] != 0:
        return False
    _unshare()
    return True


def _unshare() -> None:
    """With the rights for it, only the network is new; else in a user namespace in which the user is the same one."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK) == 0:
        return
    if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
