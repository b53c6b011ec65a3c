"""Writes container images of one program each as an OCI image layout in a tar file (image-spec v1.1, image-layout.md).

Runs with the plain Python of the node image while that is built: ``pack_images.py IMAGES PROGRAMS TARGET``. IMAGES is
JSON, a list of ``{name, program, path, entrypoint, tools}``: the image's name, its program in the folder PROGRAMS,
where it has it, what it starts (may be nothing), and programs of this system that it wants with their libraries.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

MEDIA = "application/vnd.oci.image"
SEARCHED = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class Layout:
    """An image layout that grows blob by blob."""

    def __init__(self, target: tarfile.TarFile, architecture: str) -> None:
        self._target = target
        self._architecture = architecture
        self._manifests: list[dict[str, Any]] = []

    def add(self, name: str, layer: bytes, entrypoint: list[str]) -> None:
        """An image of one layer, given as an uncompressed tar file."""
        config = {
            "architecture": self._architecture,
            "os": "linux",
            "config": {"Env": [f"PATH={SEARCHED}"], "Entrypoint": entrypoint},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA}.manifest.v1+json",
            "config": self._blob(json.dumps(config).encode(), f"{MEDIA}.config.v1+json"),
            "layers": [self._blob(gzip.compress(layer, 1, mtime=0), f"{MEDIA}.layer.v1.tar+gzip")],
        }
        entry = self._blob(json.dumps(manifest).encode(), f"{MEDIA}.manifest.v1+json")
        self._manifests.append(entry | {"annotations": {"io.containerd.image.name": name}})

    def close(self) -> None:
        """Write what makes it a layout."""
        self._file("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        self._file("index.json", json.dumps({"schemaVersion": 2, "manifests": self._manifests}).encode())

    def _blob(self, content: bytes, media_type: str) -> dict[str, Any]:
        digest = _digest(content)
        self._file(f"blobs/{digest.replace(':', '/')}", content)
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def _file(self, name: str, content: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        self._target.addfile(member, io.BytesIO(content))


def layer_of(program: Path, path: str, tools: list[str]) -> bytes:
    """A tar file with ``program`` at ``path``, and ``tools`` with the libraries they load, where this system has
    them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for source, place in [(program, path), *((Path(file), file) for file in _with_libraries(tools))]:
            member = tarfile.TarInfo(place.lstrip("/"))
            member.size, member.mode = source.stat().st_size, 0o755
            with source.open("rb") as content:
                layer.addfile(member, content)
    return buffer.getvalue()


def _with_libraries(tools: list[str]) -> list[str]:
    files = set(tools)
    for tool in tools:
        loaded = subprocess.run(["ldd", tool], capture_output=True, text=True, timeout=30, check=True).stdout
        files.update(re.findall(r"(/\S+) \(0x", loaded))
    return sorted(files)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def main(images: Path, programs: Path, target: Path) -> None:
    machine = subprocess.run(["uname", "-m"], capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    with tarfile.open(target, "w") as archive:
        layout = Layout(archive, MACHINES.get(machine, machine))
        for image in json.loads(images.read_text()):
            layer = layer_of(programs / image["program"], image["path"], image["tools"])
            layout.add(image["name"], layer, image["entrypoint"])
        layout.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
