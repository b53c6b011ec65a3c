"""The resource API over HTTP, for what kubectl's text output does not show: structured causes and query options."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import yaml

from mcp_connections.api.meta import GROUP, VERSION
from tests.cluster.control_plane import ControlPlane

TIMEOUT = 60.0
PLURALS = {"McpConnection": "mcpconnections", "McpProxy": "mcpproxies"}


class Refused(Exception):
    """The API server answered with a Status of failure."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status["message"])
        self.causes = [
            (cause.get("field", ""), cause["message"]) for cause in status.get("details", {}).get("causes", ())
        ]


class ResourceApi:
    """Creates and changes resources in one namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        config = yaml.safe_load(plane.kubeconfig.read_text())
        self._token = config["users"][0]["user"]["token"]
        self._base = f"{plane.url}/apis/{GROUP}/{VERSION}/namespaces/{namespace}"
        self._context = ssl.create_default_context(cafile=str(plane.ca_file))

    def create(self, manifest: dict[str, Any], **options: str) -> dict[str, Any]:
        """POST. Raises Refused."""
        return self._send("POST", self._url(manifest["kind"], "", options), manifest, "application/json")

    def apply_status(self, manifest: dict[str, Any], **options: str) -> dict[str, Any]:
        """Server-side apply of the status subresource. Raises Refused."""
        options = {"fieldManager": "test", "force": "true", **options}
        url = self._url(manifest["kind"], f"/{manifest['metadata']['name']}/status", options)
        return self._send("PATCH", url, manifest, "application/apply-patch+yaml")

    def _url(self, kind: str, path: str, options: dict[str, str]) -> str:
        return f"{self._base}/{PLURALS[kind]}{path}?{urllib.parse.urlencode(options)}"

    def _send(self, method: str, url: str, body: dict[str, Any], content_type: str) -> dict[str, Any]:
        request = urllib.request.Request(
            url,
            method=method,
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": content_type},
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT, context=self._context) as response:
                answer: dict[str, Any] = json.load(response)
                return answer
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(json.load(error)) from None
