"""The Secrets of one proxy: what it is to mount, and the token of its admin port.

A pod starts from them without the operator, and goes on serving while there is none.
"""

from __future__ import annotations

import base64
import gzip
import secrets
import zlib
from typing import Any

from mcp_connections.api.proxy import McpProxy
from mcp_connections.mounts.spec import DesiredMounts
from mcp_connections.operator.labels import object_annotations, object_labels, owner_reference, workload_name

MOUNTS_KEY = "mounts.json.gz"
"""Key, and so file name, of the first part. Further parts end in .1, .2 and so on: the file is their concatenation."""
TOKEN_KEY = "token"  # noqa: S105  (the name of a key)
PART_SIZE = 900 * 1024
"""Bytes of one part. The API server takes at most 1 MiB of data in a Secret."""
MAX_PARTS = 8
"""Parts that the pods look for. A fixed number, so that growth does not replace the pods."""


class TooLarge(Exception):
    """The desired mounts do not fit into their Secrets. The text says how large they are and what to do."""


def part_key(part: int) -> str:
    """Key that a part is stored under."""
    return f"{MOUNTS_KEY}.{part}" if part else MOUNTS_KEY


def part_name(proxy: str, part: int) -> str:
    """Name of the Secret that holds a part."""
    return f"{workload_name(proxy)}-mounts" + (f"-{part}" if part else "")


def admin_secret_name(proxy: str) -> str:
    """Name of the Secret that holds the token of the admin port."""
    return f"{workload_name(proxy)}-admin"


def mount_secrets(proxy: McpProxy, desired: DesiredMounts, *, existing: int = 0) -> list[dict[str, Any]]:
    """The Secrets that hold ``desired``. Equal mounts make equal bodies.

    ``existing`` is how many parts there were before: those no longer needed are emptied. Raises TooLarge.
    """
    # Without a time stamp the same mounts are the same bytes.
    packed = gzip.compress(desired.model_dump_json(by_alias=True).encode(), mtime=0)
    parts = [packed[start : start + PART_SIZE] for start in range(0, len(packed), PART_SIZE)]
    if len(parts) > MAX_PARTS:
        raise TooLarge(
            f"The {len(desired.mounts)} connections take {len(packed)} bytes compressed, and the Secrets of a proxy "
            f"hold {MAX_PARTS * PART_SIZE}: spread them over several McpProxies"
        )
    parts += [b""] * (existing - len(parts))
    return [
        _secret(proxy, part_name(proxy.metadata.name, number), {part_key(number): part} if part else {})
        for number, part in enumerate(parts)
    ]


def unpack(parts: list[bytes]) -> DesiredMounts:
    """What ``mount_secrets`` packed. Raises ValueError where the parts do not belong together."""
    try:
        text = gzip.decompress(b"".join(parts))
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"the parts of the mounts do not belong together: {error}") from error
    return DesiredMounts.model_validate_json(text)


def admin_secret(proxy: McpProxy, token: str) -> dict[str, Any]:
    """The Secret that holds the token of the admin port."""
    return _secret(proxy, admin_secret_name(proxy.metadata.name), {TOKEN_KEY: token.encode()})


def token_of(secret: dict[str, Any] | None) -> str | None:
    """The token in an existing admin Secret, or None where there is none to go on with."""
    encoded = ((secret or {}).get("data") or {}).get(TOKEN_KEY)
    try:
        return base64.b64decode(encoded, validate=True).decode("ascii").strip() or None if encoded else None
    except ValueError:
        return None


def new_token() -> str:
    """A bearer token of 256 random bits."""
    return secrets.token_urlsafe(32)


def _secret(proxy: McpProxy, name: str, data: dict[str, bytes]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": proxy.metadata.namespace,
            "labels": object_labels(proxy),
            "annotations": object_annotations(proxy),
            "ownerReferences": [owner_reference(proxy)],
        },
        "type": "Opaque",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
