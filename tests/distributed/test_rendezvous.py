"""Processes without MPI find each other, whoever else comes to their door."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable

import pytest

from gradcore.distributed import rendezvous
from gradcore.distributed.errors import DistNetworkError
from gradcore.distributed.rendezvous import find_free_port

DATA = bytes(range(128))


def meet(port: int, size: int, strangers: Callable[[int], None], seconds: float = 30.0) -> dict[int, object]:
    """Run each rank in a thread while strangers connect; return the data that each rank received."""
    found: dict[int, object] = {}

    def rank(number: int) -> None:
        try:
            found[number] = rendezvous.share(lambda: DATA, number, size, f"tcp://127.0.0.1:{port}", seconds)
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(size)]
    threads[0].start()
    strangers(port)
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def _connect(port: int, seconds: float = 30.0) -> socket.socket:
    """Return a connection to rank 0, which may not listen yet."""
    end = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def visit(*messages: bytes, wait: bool = False) -> Callable[[int], None]:
    """Return a function that connects once for each message, and stays or leaves."""

    def strangers(port: int) -> None:
        for message in messages:
            peer = _connect(port)
            peer.sendall(message)
            if not wait:
                peer.close()
            else:
                staying.append(peer)

    return strangers


staying: list[socket.socket] = []
NOISE = random.Random(0).randbytes(100)
STRANGERS: dict[str, Callable[[int], None]] = {
    "none": lambda port: None,
    "port scans": visit(b"", b"", b"", b""),
    "a browser": visit(b"GET / HTTP/1.1\r\n\r\n" * 3),
    "noise": visit(NOISE, NOISE[:36], NOISE[:3]),
    "a rank without a proof": visit((1).to_bytes(4, "little") + bytes(32)),
    "a rank that there is not": visit((7).to_bytes(4, "little") + bytes(32)),
    "guests that stay": visit(b"", b"abc", wait=True),
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_ranks_meet_in_spite_of_strangers(kind: str) -> None:
    found = meet(find_free_port("127.0.0.1"), 3, STRANGERS[kind])
    assert found == dict.fromkeys(range(3), DATA)
    while staying:
        staying.pop().close()


def test_a_rank_of_another_run_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens differ; one that asks twice counts once."""
    port = find_free_port("127.0.0.1")
    monkeypatch.setenv(rendezvous.TOKEN, "of one run")
    number = (1).to_bytes(4, "little")
    proof = rendezvous._prove(b"rank", number)
    monkeypatch.setenv(rendezvous.TOKEN, "of another run")
    found = meet(port, 2, visit(number + proof, number + proof), 5.0)
    assert found == {0: DATA, 1: DATA}


def test_ranks_that_do_not_come_are_named() -> None:
    with pytest.raises(DistNetworkError, match="rank 1, 2 did not ask"):
        rendezvous.share(lambda: DATA, 0, 3, f"tcp://127.0.0.1:{find_free_port('127.0.0.1')}", 0.3)
    with pytest.raises(DistNetworkError, match="did not find each other"):
        rendezvous.share(lambda: DATA, 1, 3, f"tcp://127.0.0.1:{find_free_port('127.0.0.1')}", 0.3)


def test_rank_0_listens_where_the_others_were_told() -> None:
    port = find_free_port("127.0.0.1")
    with rendezvous._listen(("127.0.0.1", port), 2) as server:
        assert server.getsockname() == ("127.0.0.1", port)
