"""Fetches the control plane's programs as setup-envtest does: index, archive, SHA-512.

The index lists the archives that kubernetes-sigs/controller-tools publishes. It does not hold every patch release,
so the newest patch of the wanted minor release will do.
"""

from __future__ import annotations

import hashlib
import platform
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from tests.cluster.version import VERSION, Unavailable

INDEX = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
INDEX_TIMEOUT = 8.0
"""Seconds. Short, because a machine without this route goes on to build."""
ARCHIVE_TIMEOUT = 30.0
"""Seconds without a byte after which the download is given up."""
ARCHIVE_LIMIT = 1 << 30
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def fetch(programs: list[str], folder: Path, say: Callable[[str], None]) -> Iterator[Path]:
    """Yield the path of each of ``programs``, unpacked into ``folder``. Raises Unavailable."""
    try:
        with urllib.request.urlopen(INDEX, timeout=INDEX_TIMEOUT) as response:
            index = yaml.safe_load(response.read(ARCHIVE_LIMIT))
        name, url, digest = choose(index, VERSION)
        say(f"Fetching {name} ...")
        archive = folder / name
        _download(url, digest, archive)
        yield from unpack(archive, programs, folder)
    except (OSError, urllib.error.URLError, yaml.YAMLError, tarfile.TarError) as error:
        raise Unavailable(f"Not fetched: {INDEX}: {error}") from error


def choose(index: dict[str, Any], version: str) -> tuple[str, str, str]:
    """Name, URL and SHA-512 of the archive for ``version`` on this platform. Raises Unavailable."""
    machine = platform.machine().lower()
    suffix = f"-{platform.system().lower()}-{_MACHINES.get(machine, machine)}.tar.gz"
    minor = version.rpartition(".")[0] + "."
    releases = {key: value for key, value in index.get("releases", {}).items() if key.startswith(minor)}
    for release in sorted(releases, key=lambda key: (key == version, _patch(key)), reverse=True):
        for name, archive in releases[release].items():
            if name.endswith(suffix):
                return name, archive["selfLink"], archive["hash"]
    raise Unavailable(f"Not fetched: {INDEX} lists no {minor}x archive ending in {suffix}")


def unpack(archive: Path, programs: list[str], folder: Path) -> Iterator[Path]:
    """Yield each of ``programs`` out of ``archive``. Raises Unavailable when it lacks one."""
    with tarfile.open(archive) as content:
        members = {PurePosixPath(member.name).name: member for member in content if member.isfile()}
        for program in programs:
            source = content.extractfile(members[program]) if program in members else None
            if source is None:
                raise Unavailable(f"Not fetched: {archive.name} holds no {program}")
            with source, (folder / program).open("wb") as target:
                while block := source.read(1 << 20):
                    target.write(block)
            yield folder / program


def _patch(version: str) -> tuple[int, ...]:
    patch = version.rpartition(".")[2]
    return (int(patch),) if patch.isdigit() else ()


def _download(url: str, digest: str, target: Path) -> None:
    seen, size = hashlib.sha512(), 0
    with urllib.request.urlopen(url, timeout=ARCHIVE_TIMEOUT) as response, target.open("wb") as file:
        while block := response.read(1 << 20):
            seen.update(block)
            size += len(block)
            if size > ARCHIVE_LIMIT:
                raise Unavailable(f"Not fetched: {url} is larger than {ARCHIVE_LIMIT} bytes")
            file.write(block)
    if seen.hexdigest() != digest.lower():
        raise Unavailable(f"Not fetched: {url} has SHA-512 {seen.hexdigest()}, its index says {digest}")
