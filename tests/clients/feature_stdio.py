"""The feature backend over stdio: ``python -m tests.clients.feature_stdio handshake|stateless STATE_FILE``."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import cast

from tests.clients.features import Conversation, Era, Exchange, Features, Message


class FeatureStdio:
    """One process, one client."""

    def __init__(self, era: Era, state: Path) -> None:
        self._features = Features(era, state)
        self._conversation = Conversation(self.send)
        self._listening: dict[str, Conversation] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        if era == "handshake":
            self._features.open(self._conversation)

    def send(self, message: Message) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    async def run(self) -> None:
        reader = asyncio.StreamReader(limit=2**24)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self._received(json.loads(line))

    def _received(self, message: Message) -> None:
        if "method" not in message:
            self._conversation.answered(message)
        elif "id" not in message:
            self._features.notified(message, self._conversation)
            if message["method"] == "notifications/cancelled":
                ended = self._listening.pop(str(message["params"]["requestId"]), None)
                if ended is not None:
                    self._features.close(ended)
        elif message["method"] == "subscriptions/listen" and self._features.era == "stateless":
            self._listening[str(message["id"])] = self._features.listen(message, self.send)
        else:
            task = asyncio.create_task(self._answer(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: Message) -> None:
        exchange = Exchange(self._features.era, message, self._conversation, self.send, {})
        self.send(await self._features.answer(exchange))


if __name__ == "__main__":
    asyncio.run(FeatureStdio(cast("Era", sys.argv[1]), Path(sys.argv[2])).run())
