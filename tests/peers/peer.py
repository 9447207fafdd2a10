"""A kazoo lock that is told what to do, a line at a time, and answers each line with one.

Arguments: servers, path, what it is (`mutex`, `read`, `write`), and the patterns of other contenders that it honours; or `election`
and its id. Lines: see Peer.java; `persist` acquires by a node that is not ephemeral.
"""

import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout


def say(line):
    print(line, flush=True)


class Election:
    """An election that leads until it is told to release."""

    def __init__(self, election):
        self.election, self.thread, self.done = election, None, threading.Event()

    def lead(self):
        say("acquired")
        self.done.wait()

    def begin(self):
        self.done.clear()
        self.thread = threading.Thread(target=self.election.run, args=[self.lead], daemon=True)
        self.thread.start()

    def release(self):
        self.done.set()
        self.thread.join()


def main(servers, path, what, *patterns):
    client = KazooClient(servers, timeout=6)
    client.start()
    if what == "election":
        return elect(client, Election(client.Election(path, patterns[0])))
    kind = {"mutex": client.Lock, "read": client.ReadLock, "write": client.WriteLock}[what]
    lock = kind(path, "kazoo", extra_lock_patterns=patterns) if patterns else kind(path, "kazoo")
    say(f"session {client.client_id[0]:#x}")
    for line in sys.stdin:
        word, *words = line.split()
        if word == "acquire":
            say("waiting")
            lock.acquire()
            say("acquired")
        elif word == "persist":
            lock.acquire(ephemeral=False)
            say("acquired")
        elif word == "try":
            try:
                acquired = lock.acquire(timeout=int(words[0]) / 1000)
            except LockTimeout:
                acquired = False
            say("acquired" if acquired else "busy")
        elif word == "release":
            lock.release()
            say("released")
        elif word == "add":
            times, node = words
            for _ in range(int(times)):
                with lock:
                    number, _ = client.get(node)
                    client.set(node, str(int(number) + 1).encode())
            say("added")
        else:
            raise ValueError(line)
    client.stop()


def elect(client, election):
    say(f"session {client.client_id[0]:#x}")
    for line in sys.stdin:
        if line == "acquire\n":
            say("waiting")
            election.begin()
        elif line == "release\n":
            election.release()
            say("released")
        elif line == "leader\n":
            contenders = election.election.contenders()
            say("leader " + (contenders[0].split("\n")[0] if contenders else ""))
        else:
            raise ValueError(line)
    client.stop()


main(*sys.argv[1:])
