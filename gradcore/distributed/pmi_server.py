"""Process manager for MPI processes that were started without a launcher.

MPICH and related libraries use a socket and the text protocol PMI-1 to ask a process manager for their rank and for the
addresses of the other processes. This one is a process that rank 0 starts. It is run as a script and imports only the
standard library, as the start of all processes waits for it.

The argument is JSON with the host on which to listen and an identity for each rank. The server writes its port to
standard output. Connections that do not know the identity of a rank are refused. The server ends when all ranks have
ended MPI, or when its input ends, which means that rank 0 has ended. If a rank ends in another way, the server
notifies all processes that watch.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import sys
import threading


class Server:
    """State shared by the connections of all ranks.

    Parameters
    ----------
    ids : list of int
        The identity of each rank.
    """

    def __init__(self, ids: list[int]) -> None:
        self.ranks = {number: rank for rank, number in enumerate(ids)}
        #: The name differs between runs, because MPICH derives names of shared memory from it.
        self.name = f"gradcore-{os.urandom(8).hex()}"
        self.values: dict[str, str] = {}
        self.hosts: dict[int, str] = {}
        self.waiting: list[Connection] = []
        self.watchers: list[Connection] = []
        self.ended: set[int] = set()
        self.changed = threading.Condition()

    def mapping(self) -> str:
        """Return which ranks share a machine, in MPICH's format, once all ranks are connected.

        Each block ``(first machine, machines, ranks)`` stands for consecutive ranks of consecutive machines.
        """
        with self.changed:
            self.changed.wait_for(lambda: len(self.hosts) == len(self.ranks))
        hosts = [self.hosts[rank] for rank in range(len(self.ranks))]
        machines = list(dict.fromkeys(hosts))
        runs = [(machines.index(host), len(list(ranks))) for host, ranks in itertools.groupby(hosts)]
        return f"(vector,{','.join(f'({machine},1,{count})' for machine, count in runs)})"

    def arrive(self, connection: Connection) -> None:
        """Register a rank at the barrier, and release all ranks when the last one has arrived."""
        with self.changed:
            self.waiting.append(connection)
            if len(self.waiting) == len(self.ranks):
                for connection in self.waiting:
                    connection.say("cmd=barrier_out rc=0")
                self.waiting.clear()

    def fail(self, text: str, code: int) -> None:
        """Tell all processes that one has failed, and stop the server."""
        with self.changed:
            for connection in self.watchers:
                connection.say(f"{code} {text}")
            os._exit(1)

    def finish(self, rank: int) -> None:
        """Record that a rank has ended MPI. Stop the server after the last one."""
        with self.changed:
            self.ended.add(rank)
            if len(self.ended) == len(self.ranks):
                os._exit(0)


class Connection:
    """The connection of one process.

    Parameters
    ----------
    server : Server
    peer : socket
    """

    def __init__(self, server: Server, peer: socket.socket) -> None:
        self.server, self.peer, self.host = server, peer, peer.getpeername()[0]
        self.rank: int | None = None

    def say(self, line: str) -> None:
        """Send a line, unless the other end is closed."""
        with contextlib.suppress(OSError):
            self.peer.sendall(f"{line}\n".encode())

    def run(self) -> None:
        """Answer requests until the process ends."""
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            # The process has ended, or is no client of PMI.
            for line in self.peer.makefile(encoding="utf-8", newline="\n"):
                if not self.answer(line.rstrip("\n")):
                    break
        if self.rank is not None and self.rank not in self.server.ended:
            self.server.fail(f"rank {self.rank} has ended", 1)
        self.peer.close()

    def answer(self, line: str) -> bool:
        """Answer a request line. Return whether to continue."""
        words = dict(word.split("=", 1) for word in line.split(" ") if "=" in word)
        command, server = words.get("cmd"), self.server
        if self.rank is None:
            rank = server.ranks.get(int(words.get("pmiid", "-1")))
            if rank is None or command not in ("initack", "watch"):
                return False  # It does not belong to this run.
            if command == "watch":
                server.watchers.append(self)
                return True
            self.rank = rank
            with server.changed:
                server.hosts[rank] = self.host
                server.changed.notify_all()
            self.say(f"cmd=initack rc=0\ncmd=set size={len(server.ranks)}\ncmd=set rank={rank}\ncmd=set debug=0")
        elif command == "put":
            server.values[words["key"]] = line.split("value=", 1)[1]
            self.say("cmd=put_result rc=0 msg=success")
        elif command == "get":
            key = words["key"]
            value = server.mapping() if key == "PMI_process_mapping" else server.values.get(key)
            status = "rc=0 msg=success" if value is not None else "rc=-1 msg=key_not_found"
            self.say(f"cmd=get_result {status} value={value or 'unknown'}")
        elif command == "barrier_in":
            server.arrive(self)
        elif command == "abort":
            server.fail(f"rank {self.rank} has called abort", int(words.get("exitcode", "1")) or 1)
        elif command == "finalize":
            self.say("cmd=finalize_ack rc=0")
            server.finish(self.rank)
        else:
            self.say(
                _ANSWERS.get(command or "", f"cmd={command} rc=-1").format(size=len(server.ranks), name=server.name)
            )
        return True


#: Answers that are the same for all.
_ANSWERS = {
    "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    "get_maxes": "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024",
    "get_appnum": "cmd=appnum rc=0 appnum=0",
    "get_universe_size": "cmd=universe_size rc=0 size={size}",
    "get_my_kvsname": "cmd=my_kvsname rc=0 kvsname={name}",
}


def main() -> None:
    """Serve the ranks that the argument describes."""
    settings = json.loads(sys.argv[1])
    server = Server(settings["ids"])
    host = settings["host"]
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        print(listener.getsockname()[1], flush=True)
        threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=Connection(server, peer).run, daemon=True).start()


def _end_with_parent(server: Server) -> None:
    sys.stdin.read()
    if 0 not in server.ended:
        # If rank 0 has ended MPI normally, the other ranks may still be ending.
        server.fail("rank 0 has ended", 1)


if __name__ == "__main__":
    main()
