"""A base image out of Debian's packages, for a machine that reaches no registry: of the node and of the product.

It trusts what this machine trusts: behind a proxy that looks into TLS, a package index is reached in a build only so.
"""

from __future__ import annotations

import hashlib
import platform
import tempfile
from pathlib import Path

from tests.cluster.cache import Say, cache_root, exclusive
from tests.cluster.kind.commands import run, succeeds
from tests.cluster.kind.debian import require, system_path
from tests.cluster.kind.engine import Engine

SUITE = "bookworm"
"""Its python3 is 3.11."""
PACKAGES = ("ca-certificates", "python3", "python3-venv")
BUILD_SECONDS = 20 * 60.0
IMPORT_SECONDS = 300.0
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")


def base_image(engine: Engine, say: Say) -> str:
    """The tag of the image, made first where ``engine`` lacks it. Raises Unavailable."""
    trusted = TRUSTED.read_bytes() if TRUSTED.exists() else b""
    key = hashlib.sha256(b"\0".join([*map(str.encode, (SUITE, *PACKAGES, platform.machine())), trusted])).hexdigest()
    tag = f"localhost/mcp-connections/debian-python:{SUITE}-{key[:12]}"
    if not engine.has_image(tag):
        archive = _archive(key[:12], trusted, say)
        engine.docker("import", str(archive), tag, seconds=IMPORT_SECONDS)
    return tag


def _archive(key: str, trusted: bytes, say: Say) -> Path:
    archive = cache_root() / f"debian-{SUITE}-{key}.tar"
    if archive.exists():
        return archive
    require({"debootstrap": "debootstrap", "unshare": "util-linux", "tar": "tar"}, say)
    with (
        exclusive(archive.with_name(f".debian-{SUITE}-{key}.lock")),
        tempfile.TemporaryDirectory(prefix=f".debian-{SUITE}-{key}-", dir=archive.parent) as scratch,
    ):
        if not archive.exists():
            say(f"Making a Debian {SUITE} base image, once for this machine ...")
            root = Path(scratch) / "root"
            _bootstrap(root)
            if trusted:
                (root / TRUSTED.relative_to("/")).write_bytes(trusted)
            whole = Path(scratch) / archive.name
            run(["tar", "-C", root, "--numeric-owner", "-cf", whole, "."], seconds=IMPORT_SECONDS)
            whole.rename(archive)
    return archive


def _bootstrap(root: Path) -> None:
    """In namespaces of its own: what it mounts and starts is gone when it ends, also when it is killed."""
    alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    if not succeeds([*alone, "true"]):
        alone = []
    run(
        [*alone, "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, root],
        seconds=BUILD_SECONDS,
        environment={"PATH": system_path()},
    )
    for pattern in ("var/cache/apt/archives/*.deb", "var/lib/apt/lists/*", "var/cache/apt/*.bin", "var/log/*.log"):
        for path in root.glob(pattern):
            if path.is_file():
                path.unlink()
