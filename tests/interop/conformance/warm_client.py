"""Our client as the suite starts it, forked by a process that has imported it: `SOCKET … URL`.

It sends its words, variables and streams to the socket, and ends as what was started with them. It
imports little, since the suite starts two dozen of these at once.
"""

import array
import json
import os
import socket
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

CLIENT = Path(__file__).with_name("client.py")
_LONGEST = 100_000


def forward(path: str) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as there:
        there.connect(path)
        request = json.dumps([sys.argv[2:], dict(os.environ)]).encode()
        streams = array.array("i", [0, 1, 2])
        there.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        return int(there.recv(16) or b"1")


@contextmanager
def warm_clients(folder: Path):
    """Fork a client for each that is forwarded; yield the command that forwards one."""
    from tests.warm_python import server

    server()  # its process starts here, not in a thread
    path = folder / "clients"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(64)
        thread = threading.Thread(target=_accept, args=(listener,))
        thread.start()
        try:
            yield f"{sys.executable} -S -E {__file__} {path}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accept(listener: socket.socket) -> None:
    threads = []
    while True:
        try:
            one, _ = listener.accept()
        except OSError:  # it is shut down
            break
        threads.append(threading.Thread(target=_start, args=(one,)))
        threads[-1].start()
    for each in threads:
        each.join()


_forking = threading.Lock()


def _start(one: socket.socket) -> None:
    from tests.warm_python import fork

    with one:
        request, ancillary, _, _ = one.recvmsg(_LONGEST, socket.CMSG_SPACE(12))
        streams = array.array("i", ancillary[0][2])
        words, env = json.loads(request)
        with _forking:  # the server answers one at a time
            _, status = fork([CLIENT, *words], streams, os.getcwd(), env)
        for each in streams:
            os.close(each)
        with status:
            one.send(status.readline())


if __name__ == "__main__":
    sys.exit(forward(sys.argv[1]))
