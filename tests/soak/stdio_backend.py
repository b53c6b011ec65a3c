"""A soak backend as a child process: ``python -m tests.soak.stdio_backend NAME``."""

from __future__ import annotations

import json
import os
import sys
import threading

from tests.soak.work import Message, Work

LOCK = threading.Lock()


def main() -> None:
    work = Work(sys.argv[1], life=f"{os.getpid()}-")
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        if delay := work.delay(message):
            timer = threading.Timer(delay, respond, (work, message))
            timer.daemon = True
            timer.start()
        else:
            respond(work, message)


def respond(work: Work, message: Message) -> None:
    """Write what there is to say to a request."""
    with LOCK:
        for each in (*work.notices(message), work.answer(message)):
            sys.stdout.write(json.dumps(each) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
