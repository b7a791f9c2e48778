"""A web server that forks after import: run as a process of its own, it exits 0 if all of it could send.

While it forks, other threads are there, and one of them holds every lock of the library: a child in which
one is still locked can't go on, and is ended after a while. The others rest between two sends, because
redis-py itself does not survive a fork in the middle of one.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from tests.support.apps.application import Application
from tests.support.threads import our_threads

CHILDREN = 4
SENDERS = 2
SENDS = 5
PATIENCE_S = 20


def _our_locks() -> Iterator[Any]:
    """The locks that objects of the library hold."""
    kinds = type(threading.Lock()), type(threading.RLock())
    for each in gc.get_objects():
        if not type(each).__module__.startswith("dramatiq_handshake"):
            continue
        names = [*getattr(each, "__dict__", {}), *getattr(type(each), "__slots__", ())]
        for name in names:
            value = getattr(each, name, None)
            if isinstance(value, kinds):
                yield value


def _use_everything(application: Application, who: str) -> None:
    for _ in range(SENDS):
        application["greet"].send(who)
        application["train"].send(who)  # nobody has a GPU: it is planned, listed and brought to its lane
    application.handshake.engine.fleet()
    application.handshake.engine.blocked()
    application.handshake.add_capability("paint")
    if our_threads():
        raise AssertionError(f"a producer has threads of ours: {our_threads()}")


def _child(application: Application, number: int) -> None:
    # Tells where it stands still, and ends it.
    faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
    code = 1
    try:
        _use_everything(application, f"child {number}")
        code = 0
    except BaseException as error:  # whatever it is, a forked child must not go on as its parent
        print(f"child {number}: {error!r}", flush=True)
    finally:
        os._exit(code)


def main() -> int:
    """Send, fork in the middle of it, send on; answer the exit code."""
    # It reads the environment of the process, which whoever imports the constants does not have.
    from tests.support.apps.fleet import application

    _use_everything(application, "parent before")
    stop, held, forked, sending = threading.Event(), threading.Event(), threading.Event(), threading.Lock()

    def send_on() -> None:
        while not stop.is_set():
            with sending:
                application["greet"].send("thread")

    def hold_locks() -> None:
        sending.acquire()
        locks = list(_our_locks())
        for lock in locks:
            lock.acquire()
        print(f"holding {len(locks)} locks", flush=True)
        held.set()
        forked.wait()
        for lock in locks:
            lock.release()
        sending.release()

    senders = [threading.Thread(target=send_on, name=f"sender-{n}") for n in range(SENDERS)]
    holder = threading.Thread(target=hold_locks, name="holder")
    for thread in (*senders, holder):
        thread.start()
    held.wait()
    children = []
    for number in range(CHILDREN):
        child = os.fork()
        if child == 0:
            _child(application, number)
        children.append(child)
    forked.set()
    _use_everything(application, "parent after")
    stop.set()
    for thread in (*senders, holder):
        thread.join()
    failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
    print("threads:", sorted(thread.name for thread in threading.enumerate()), flush=True)
    return len(failed)


if __name__ == "__main__":
    # Forking beside threads is what gunicorn and uwsgi do; Python 3.12 warns of it.
    warnings.simplefilter("ignore", DeprecationWarning)
    sys.exit(main())
