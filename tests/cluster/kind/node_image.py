"""The image that kind makes a node of: kind's own, or one built here of Go modules and Debian packages."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.cache import Say, cache_root
from tests.cluster.kind.base_image import base_image
from tests.cluster.kind.commands import run
from tests.cluster.kind.engine import Engine
from tests.cluster.kind.programs import kind_files, kubernetes_programs, node_tools
from tests.cluster.kind.registry import pulled
from tests.cluster.kind.versions import CRICTL, KIND, STOCK_NODE
from tests.cluster.version import VERSION, Unavailable

HERE = Path(__file__).parent
BUILD_SECONDS = 30 * 60.0
"""Two minutes on 2 busy cores, Debian's packages included."""

REPOSITORY = "localhost/mcp-connections/kind-node"
NODE_PROGRAMS = ("kubeadm", "kubelet", "kubectl", "crictl")
"""On the node itself; everything else runs in a pod."""


@dataclass(frozen=True)
class NodeImage:
    """An image and the kind configuration that suits it."""

    tag: str
    config: Path


def node_image(engine: Engine, say: Say) -> NodeImage:
    """kind's own image where it is here or can be pulled, else the built one, built first where it is missing. Raises
    Unavailable."""
    tag = f"{REPOSITORY}:{VERSION}-{_key()}"
    if not engine.has_image(tag):
        if pulled(engine, STOCK_NODE):
            return NodeImage(STOCK_NODE, HERE / "stock.yaml")
        _build(engine, tag, say)
        engine.forget_others(REPOSITORY, tag)
    return NodeImage(tag, HERE / "built.yaml")


def _key() -> str:
    seen = hashlib.sha256(f"{VERSION} {KIND} {CRICTL}".encode())
    for source in (*_sources("node"), *_sources("coredns")):
        seen.update(source.read_bytes())
    return seen.hexdigest()[:12]


def _sources(folder: str) -> list[Path]:
    return sorted(path for path in (HERE / folder).iterdir() if path.is_file())


def _build(engine: Engine, tag: str, say: Say) -> None:
    programs = kubernetes_programs(say) | node_tools(say)
    base = base_image(engine, say)
    say(f"Building a node image for Kubernetes {VERSION}, once for this machine ...")
    images = _images(programs["kubeadm"])
    (pause,) = (image["name"] for image in images if image["program"] == "pause")
    with tempfile.TemporaryFile(dir=cache_root()) as context:
        # docker takes for a tar file only what starts with an ordinary member, which Python's default format does not.
        with tarfile.open(fileobj=context, mode="w", format=tarfile.GNU_FORMAT) as archive:
            archive.add(kind_files(), "files")
            for path in _sources("node"):
                archive.add(path, path.name)
            for image in images:
                archive.add(programs[image["program"]], f"programs/{image['program']}")
            for program in NODE_PROGRAMS:
                archive.add(programs[program], f"node-programs/{program}")
            _add_text(archive, "images.json", json.dumps(images))
        context.seek(0)
        arguments = {"BASE": base, "PAUSE": pause, "VERSION": VERSION}
        flags = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        engine.build("--quiet", "--tag", tag, *flags, context=context, seconds=BUILD_SECONDS)


def _images(kubeadm: Path) -> list[dict[str, Any]]:
    """What pack_images.py is to pack, under the names that this kubeadm will ask for. Raises Unavailable."""
    entrypoints = {"coredns": ["/coredns"], "pause": ["/pause"]}
    tools = {"kube-proxy": ["/usr/sbin/nft"]}
    names = run([kubeadm, "config", "images", "list", "--kubernetes-version", VERSION], seconds=60).split()
    images = []
    for name in names:
        program = name.rpartition("/")[2].partition(":")[0]
        images.append(
            {
                "name": name,
                "program": program,
                "path": f"/{program}" if program in entrypoints else f"/usr/local/bin/{program}",
                "entrypoint": entrypoints.get(program, []),
                "tools": tools.get(program, []),
            }
        )
    if not {"pause", "coredns", "etcd"} <= {image["program"] for image in images}:
        raise Unavailable(f"{kubeadm} names images that are not those expected: {', '.join(names)}")
    return images


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
