"""The one client of the Kubernetes API: plain JSON objects in and out, every request bounded in time.

Objects stay the dictionaries they are on the wire. The generated model classes would drop members that they do not
know, and server-side apply is about exactly the members that are sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl

import aiohttp
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, ApiException, Configuration

from mcp_connections import __version__
from mcp_connections.api import connection, meta, proxy

FIELD_MANAGER = "mcp-connections-operator"
PAGE = 500
"""Objects per page of a LIST."""
TIMEOUT = 15.0
"""Seconds for one request."""
CONFLICT_PAUSES = (0.1, 0.3, 1.0)
"""Seconds until an object that somebody else wrote at the same moment (409) is applied again."""
MAX_RESTARTS = 3
"""Times a LIST whose continuation expired begins anew before it is given up."""

Object = dict[str, Any]
"""A Kubernetes object as JSON data."""

# At DEBUG this logger writes response bodies, the data of Secrets among them.
logging.getLogger("kubernetes_asyncio.client.rest").setLevel(logging.INFO)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A resource type of the API."""

    api_version: str
    kind: str
    plural: str

    @property
    def root(self) -> str:
        """The path under which the API serves this group and version."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"


CONNECTION = Kind(api_version=meta.API_VERSION, kind=connection.KIND, plural=connection.PLURAL)
PROXY = Kind(api_version=meta.API_VERSION, kind=proxy.KIND, plural=proxy.PLURAL)
DEPLOYMENT = Kind(api_version="apps/v1", kind="Deployment", plural="deployments")
SERVICE = Kind(api_version="v1", kind="Service", plural="services")
SERVICE_ACCOUNT = Kind(api_version="v1", kind="ServiceAccount", plural="serviceaccounts")
SECRET = Kind(api_version="v1", kind="Secret", plural="secrets")
CONFIG_MAP = Kind(api_version="v1", kind="ConfigMap", plural="configmaps")
POD = Kind(api_version="v1", kind="Pod", plural="pods")
NETWORK_POLICY = Kind(api_version="networking.k8s.io/v1", kind="NetworkPolicy", plural="networkpolicies")
EVENT = Kind(api_version="v1", kind="Event", plural="events")


class ClusterError(Exception):
    """The API server refused a request or could not be reached. The text says what was asked and what it answered.

    ``status`` is the HTTP status, 0 where there was no answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_refusal(self) -> bool:
        """The API server understood the request and will refuse it again until somebody changes the object."""
        # A body that does not fit the schema at all makes server-side apply answer 500.
        return self.status in (400, 403, 413, 422) or (self.status == 500 and "typed patch object" in str(self))


class Cluster:
    """An open client. Close it, or use it as a context manager."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        api.user_agent = f"mcp-connections-operator/{__version__}"

    @classmethod
    async def connect(cls, kubeconfig: Path | None = None) -> Cluster:
        """Credentials of ``kubeconfig`` if given, else of the pod's service account, else of the KUBECONFIG variable.

        No request is made yet. Raises ClusterError.
        """
        configuration = Configuration()
        try:
            if kubeconfig is not None:
                await config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
            else:
                await _load_as_kopf_does(configuration)
        except (config.ConfigException, OSError) as error:
            raise ClusterError(
                f"No credentials for a cluster: {error}. Run in a pod with a service account, or set KUBECONFIG."
            ) from error
        return cls(ApiClient(configuration))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def check_resources(self) -> None:
        """Raises ClusterError unless the API server serves both of our resources."""
        try:
            listed = await self._request("GET", CONNECTION.root)
        except ClusterError as error:
            if error.status != 404:
                raise
            listed = {}
        served = {resource["name"] for resource in listed.get("resources", ())}
        missing = [kind.plural for kind in (CONNECTION, PROXY) if not {kind.plural, f"{kind.plural}/status"} <= served]
        if missing:
            raise ClusterError(
                f"The cluster does not serve {' and '.join(missing)} of {meta.API_VERSION}: install the CRDs with "
                "'mcp-connections crd | kubectl apply --server-side -f -' and start the operator again."
            )

    async def schema_version(self, api_version: str) -> str:
        """The path of the OpenAPI document (v3) of a group and version, another one whenever the document is; empty
        where there is none. Raises ClusterError."""
        index = await self._request("GET", "/openapi/v3")
        return str(index.get("paths", {}).get(f"apis/{api_version}", {}).get("serverRelativeURL", ""))

    async def schema(self, version: str) -> Object:
        """The document that ``schema_version`` named. Raises ClusterError."""
        path, _, query = version.partition("?")
        return await self._request("GET", path, query=dict(parse_qsl(query)))

    async def list_all(
        self, kind: Kind, namespace: str | None, *, label_selector: str = "", field_selector: str = ""
    ) -> list[Object]:
        """Every object of ``kind`` in ``namespace``, or in all of them, page by page. Raises ClusterError."""
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query = {name: value for name, value in selectors.items() if value}
        for _ in range(MAX_RESTARTS):
            try:
                return await self._list_once(kind, namespace, query)
            except ClusterError as error:
                if error.status != 410:
                    raise
        raise ClusterError(
            f"LIST {kind.plural}: its pages expired {MAX_RESTARTS} times over before the last was read", 410
        )

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """The object, or None where there is none. Raises ClusterError."""
        try:
            return await self._request("GET", _path(kind, namespace, name))
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    async def apply(self, kind: Kind, body: Object) -> Object:
        """Server-side apply: take the fields in ``body`` and give up those applied before and now left out.

        Returns the object. Nothing is written, and its resourceVersion stays, where it already is so. Raises
        ClusterError.
        """
        for pause in CONFLICT_PAUSES:
            try:
                return await self._apply(kind, body, "")
            except ClusterError as error:
                if error.status != 409:
                    raise
            await asyncio.sleep(pause)  # somebody wrote it at the same moment
        return await self._apply(kind, body, "")

    async def apply_status(self, kind: Kind, body: Object) -> Object:
        """As ``apply``, for the status. A body with a resourceVersion in its metadata is refused (409) where the object
        has another one."""
        return await self._apply(kind, body, "/status")

    async def create(self, kind: Kind, body: Object) -> Object:
        """Create an object. Raises ClusterError."""
        return await self._request("POST", _path(kind, body["metadata"]["namespace"]), body=body)

    async def delete(self, kind: Kind, obj: Object) -> None:
        """Delete an object as it was seen, and what it owns in the background. Raises ClusterError: 404 where it is
        gone, 409 where it has changed since, or another one has its name."""
        metadata = obj["metadata"]
        seen = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": seen, "propagationPolicy": "Background"}
        await self._request("DELETE", _path(kind, metadata["namespace"], metadata["name"]), body=body)

    async def merge(self, kind: Kind, namespace: str, name: str, patch: Object) -> Object:
        """Merge ``patch`` into an object (RFC 7386). Raises ClusterError."""
        return await self._request(
            "PATCH", _path(kind, namespace, name), body=patch, content_type="application/merge-patch+json"
        )

    async def may(self, verb: str, group: str, resource: str, namespace: str | None) -> bool:
        """Whether the API server would allow it: in ``namespace``, or with None in all of them. Raises ClusterError."""
        resource, _, subresource = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        question = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**attributes, "namespace": namespace or ""}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await self._request("POST", path, body=question)
        return bool(answer["status"]["allowed"])

    async def _list_once(self, kind: Kind, namespace: str | None, selectors: Mapping[str, str]) -> list[Object]:
        found: list[Object] = []
        query = {"limit": str(PAGE), **selectors}
        while True:
            page = await self._request("GET", _path(kind, namespace), query=query)
            # Items of a list come without their type.
            found += [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in page.get("items") or ()]
            following = page.get("metadata", {}).get("continue")
            if not following:
                return found
            query["continue"] = following

    async def _apply(self, kind: Kind, body: Object, subresource: str) -> Object:
        metadata = body["metadata"]
        return await self._request(
            "PATCH",
            _path(kind, metadata["namespace"], metadata["name"]) + subresource,
            query={"fieldManager": FIELD_MANAGER, "force": "true"},
            body=body,
            content_type="application/apply-patch+yaml",
        )

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
    ) -> Object:
        try:
            answer: Object = await self._api.call_api(
                path,
                method,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", "Content-Type": content_type},
                body=body,
                response_types_map={200: "object", 201: "object", 202: "object"},
                auth_settings=["BearerToken"],
                _return_http_data_only=True,
                _request_timeout=TIMEOUT,
            )
        except ApiException as error:
            raise ClusterError(f"{method} {path}: {_message(error)}", error.status or 0) from error
        except TimeoutError as error:
            raise ClusterError(f"{method} {path}: no answer within {TIMEOUT:.0f} s") from error
        except aiohttp.ClientError as error:
            raise ClusterError(f"{method} {path}: {error}") from error
        return answer


async def _load_as_kopf_does(configuration: Configuration) -> None:
    try:
        config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    except config.ConfigException:
        await config.load_kube_config(client_configuration=configuration)


def _path(kind: Kind, namespace: str | None, name: str = "") -> str:
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{kind.root}{within}/{kind.plural}" + (f"/{name}" if name else "")


def _message(error: ApiException) -> str:
    """The ``message`` of the metav1.Status in the answer: the rest of the error holds headers and the body."""
    try:
        message = json.loads(error.body or "")["message"]
    except (ValueError, TypeError, KeyError):
        message = ""
    return str(message) or f"HTTP {error.status} {error.reason}"
