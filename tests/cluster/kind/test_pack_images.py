"""The image layout holds together: every digest and size is true, and programs come with what they load."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.kind.node import pack_images

Blobs = dict[str, bytes]


@pytest.fixture
def packed(tmp_path: Path) -> tuple[list[dict[str, Any]], Blobs]:
    """The manifests' descriptors and all files of a layout of two images."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "pause").write_bytes(b"waits")
    (tmp_path / "programs" / "proxy").write_bytes(b"forwards")
    images = [
        {
            "name": "registry.example/pause:1",
            "program": "pause",
            "path": "/pause",
            "entrypoint": ["/pause"],
            "tools": [],
        },
        {
            "name": "registry.example/proxy:2",
            "program": "proxy",
            "path": "/usr/local/bin/proxy",
            "entrypoint": [],
            "tools": [shutil.which("env")],
        },
    ]
    (tmp_path / "images.json").write_text(json.dumps(images))

    pack_images.main(tmp_path / "images.json", tmp_path / "programs", tmp_path / "images.tar")

    with tarfile.open(tmp_path / "images.tar") as archive:
        files = {member.name: archive.extractfile(member) for member in archive}
        content = {name: file.read() for name, file in files.items() if file is not None}
    index = json.loads(content["index.json"])
    return index["manifests"], content


def blob(blobs: Blobs, descriptor: dict[str, Any]) -> bytes:
    """The content of a descriptor, which says the truth about it."""
    content = blobs[f"blobs/{descriptor['digest'].replace(':', '/')}"]
    assert descriptor["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert descriptor["size"] == len(content)
    return content


def test_every_image_is_named_and_whole(packed: tuple[list[dict[str, Any]], Blobs]) -> None:
    manifests, blobs = packed

    for descriptor in manifests:
        manifest = json.loads(blob(blobs, descriptor))
        config = json.loads(blob(blobs, manifest["config"]))
        layers = [gzip.decompress(blob(blobs, layer)) for layer in manifest["layers"]]
        assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    assert [each["annotations"]["io.containerd.image.name"] for each in manifests] == [
        "registry.example/pause:1",
        "registry.example/proxy:2",
    ]
    assert json.loads(blobs["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}


def test_a_program_is_executable_and_alone(packed: tuple[list[dict[str, Any]], Blobs]) -> None:
    with layer_of(packed, 0) as layer:
        (member,) = layer.getmembers()
        assert (member.name, member.mode) == ("pause", 0o755)


def test_a_tool_comes_with_its_libraries(packed: tuple[list[dict[str, Any]], Blobs]) -> None:
    with layer_of(packed, 1) as layer:
        names = layer.getnames()

    assert "usr/local/bin/proxy" in names
    assert str(shutil.which("env")).lstrip("/") in names
    assert any("libc.so" in name or "libc.musl" in name for name in names)


def layer_of(packed: tuple[list[dict[str, Any]], Blobs], number: int) -> tarfile.TarFile:
    manifests, blobs = packed
    (layer,) = json.loads(blob(blobs, manifests[number]))["layers"]
    return tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob(blobs, layer))))
