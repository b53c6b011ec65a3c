"""A watched folder: every change shows, nothing shows without one."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_connections.folder import watcher
from mcp_connections.folder.reader import Folder, FolderState
from mcp_connections.folder.watcher import watch_folder
from tests.folder.manifests import connection, write

PATIENCE = 20.0
"""Seconds until a change that does not show is a failure, on however slow a machine."""


class CountingFolder(Folder):
    """A folder that knows how often and in which threads it was read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reads = 0
        self.threads: set[int] = set()

    def read(self) -> FolderState:
        self.reads += 1
        self.threads.add(threading.get_ident())
        return super().read()


class Watch:
    """The states of a watched folder, one by one."""

    def __init__(self, states: AsyncGenerator[FolderState, None]) -> None:
        self._states = states

    async def next(self) -> list[str]:
        """Names of the connections in the next state."""
        async with asyncio.timeout(PATIENCE):
            self.state = await anext(self._states)
        return [str(spec.connection.name) for spec in self.state.desired.mounts]

    def faults(self) -> list[str]:
        """What is wrong in the state taken last."""
        return [str(error) for error in self.state.errors]

    async def until(self, names: list[str]) -> None:
        """Take states up to the one with these connections: a change of several files may show in two steps."""
        while await self.next() != names:
            pass


@asynccontextmanager
async def watching(folder: Folder) -> AsyncIterator[Watch]:
    async with aclosing(watch_folder(folder)) as states:
        yield Watch(states)


async def test_files_added_edited_broken_mended_and_deleted(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", connection("a"))
    async with watching(Folder(tmp_path)) as watch:
        assert await watch.next() == ["a"]

        write(tmp_path / "b.yaml", connection("b", 1))
        assert await watch.next() == ["a", "b"]
        before = watch.state.desired.mounts

        (tmp_path / "b.yaml").write_text(connection("b", 2))
        assert await watch.next() == ["a", "b"]
        assert watch.state.desired.mounts[0] == before[0]
        assert watch.state.desired.mounts[1].fingerprint != before[1].fingerprint

        write(tmp_path / "b.yaml", "kind: [")
        assert await watch.next() == ["a", "b"]
        assert len(watch.faults()) == 1

        write(tmp_path / "b.yaml", connection("c"))
        assert await watch.next() == ["a", "c"]
        assert watch.faults() == []

        (tmp_path / "a.yaml").unlink()
        assert await watch.next() == ["c"]


async def test_a_mounted_volume_that_is_swapped_by_its_link(tmp_path: Path) -> None:
    """As the kubelet's atomic writer does it: files are links into ``..data``, which is itself a link."""
    for version in ("1", "2"):
        (tmp_path / f"..v{version}").mkdir()
        write(tmp_path / f"..v{version}" / "a.yaml", connection(f"a{version}"))
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    async with watching(Folder(tmp_path)) as watch:
        assert await watch.next() == ["a1"]

        (tmp_path / "..data_tmp").symlink_to("..v2")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

        assert await watch.next() == ["a2"]


async def test_a_linked_directory_that_is_swapped(tmp_path: Path) -> None:
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        write(tmp_path / version / "a.yaml", connection(f"a{version}"))
    (tmp_path / "current").symlink_to("1")
    async with watching(Folder(tmp_path / "current")) as watch:
        assert await watch.next() == ["a1"]

        (tmp_path / "next").symlink_to("2")
        (tmp_path / "next").rename(tmp_path / "current")

        assert await watch.next() == ["a2"]


async def test_a_link_to_a_file_elsewhere_that_is_edited(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    write(tmp_path / "elsewhere.yaml", connection("a"))
    (tmp_path / "folder" / "a.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    async with watching(Folder(tmp_path / "folder")) as watch:
        assert await watch.next() == ["a"]

        (tmp_path / "elsewhere.yaml").write_text(connection("b"))

        assert await watch.next() == ["b"]


async def test_a_directory_that_goes_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    write(path / "a.yaml", connection("a"))
    async with watching(Folder(path)) as watch:
        assert await watch.next() == ["a"]

        path.rename(tmp_path / "away")
        assert await watch.next() == ["a"]
        assert "cannot be read" in watch.faults()[0]

        path.mkdir()
        write(path / "b.yaml", connection("b"))
        await watch.until(["b"])


@pytest.mark.parametrize(
    "fault",
    [
        OSError(28, "inotify watch limit reached"),
        RuntimeError("no notifications here"),
        ExceptionGroup("as watchfiles raises it", [RuntimeError("no notifications here")]),
    ],
)
async def test_without_notifications_the_folder_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr(watcher, "awatch", failing)
    async with watching(Folder(tmp_path)) as watch:
        assert await watch.next() == []

        write(tmp_path / "a.yaml", connection("a"))

        assert await watch.next() == ["a"]
    assert re.search(r"\((\[Errno 28\] inotify watch limit reached|no notifications here)\)", caplog.text)


async def test_a_burst_of_writes_is_read_few_times_and_the_last_one_shows(tmp_path: Path) -> None:
    folder = CountingFolder(tmp_path)
    async with watching(folder) as watch:
        await watch.next()
        for number in range(200):
            write(tmp_path / "a.yaml", connection(f"a{number}"))

        await watch.until(["a199"])

    assert folder.reads < 100


async def test_reading_is_done_in_threads_and_not_for_what_changes_nothing(tmp_path: Path) -> None:
    folder = CountingFolder(tmp_path)
    write(tmp_path / "a.yaml", connection("a"))
    async with watching(folder) as watch:
        await watch.next()
        upcoming = asyncio.create_task(watch.next())
        await asyncio.sleep(3 * watcher.LOOK_SECONDS)
        assert folder.reads == 1
        assert not upcoming.done()

        (tmp_path / "notes.txt").write_text("not a manifest")
        (tmp_path / "a.yaml").write_text(connection("a"))
        await asyncio.sleep(3 * watcher.LOOK_SECONDS)
        assert not upcoming.done()

        write(tmp_path / "b.yaml", connection("b"))
        assert await upcoming == ["a", "b"]

    assert threading.get_ident() not in folder.threads


async def test_it_ends_when_told_to(tmp_path: Path) -> None:
    stop = asyncio.Event()
    states = watch_folder(Folder(tmp_path), stop=stop)
    async with asyncio.timeout(PATIENCE):
        await anext(states)
        upcoming = asyncio.create_task(anext(states, None))
        await asyncio.sleep(0)
        stop.set()
        assert await upcoming is None


async def test_cancelling_does_not_set_the_callers_event(tmp_path: Path) -> None:
    stop = asyncio.Event()
    states = watch_folder(Folder(tmp_path), stop=stop)
    async with asyncio.timeout(PATIENCE):
        await anext(states)
        upcoming = asyncio.create_task(anext(states, None))
        await asyncio.sleep(2 * watcher.LOOK_SECONDS)
        upcoming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upcoming

    assert not stop.is_set()
