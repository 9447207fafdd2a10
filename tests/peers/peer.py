"""A kazoo lock that is told what to do, a line at a time, and answers each line with one.

Arguments: servers, path, what it is (`mutex`, `read`, `write`), and the patterns of other contenders that it honours. Lines: see
Peer.java; `try MILLISECONDS` answers `acquired` or `busy`; `persist` acquires by a node that is not ephemeral.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

TIMEOUT = int(os.environ.get("PEER_TIMEOUT_MS", "6000")) / 1000


def say(line):
    print(line, flush=True)


def contender(number, servers, path, what, *patterns):
    servers = servers.split(",")
    client = KazooClient(servers[number % len(servers)], timeout=TIMEOUT)
    client.start()
    kind = {"mutex": client.Lock, "read": client.ReadLock, "write": client.WriteLock}[what]
    return client, kind(path, "kazoo", extra_lock_patterns=patterns) if patterns else kind(path, "kazoo")


def run(lock, start, seconds):
    laps = " |"
    while (begin := time.monotonic()) - start <= seconds:
        with lock:
            pass
        end = time.monotonic()
        laps += f" {(end - start) * 1e6:.0f}/{(end - begin) * 1e6:.0f}"
    return laps


def main(*arguments):
    contenders = [contender(0, *arguments)]
    client, lock = contenders[0]
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
        elif word == "tell":
            client.add_listener(lambda state: say(f"told {state}"))
            say("telling")
        elif word == "laps":
            count, milliseconds = map(int, words)
            while len(contenders) < count:
                contenders.append(contender(len(contenders), *arguments))
            with ThreadPoolExecutor(count) as threads:
                start = time.monotonic()
                each = lambda contender: run(contender[1], start, milliseconds / 1000)
                say("laps" + "".join(threads.map(each, contenders[:count])))
        else:
            raise ValueError(line)
    for client, _ in contenders:
        client.stop()


main(*sys.argv[1:])
