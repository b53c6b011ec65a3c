"""From a connection's transport and credentials to the server a mount talks to, with every reference resolved."""

from __future__ import annotations

from typing import Literal, cast

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.secret_refs import CaBundleRef, ConfigMapKeyRef, SecretKeyRef
from mcp_connections.api.transport import HttpTransport, SseTransport, StdioTransport, WebSocketTransport
from mcp_connections.mounts.secrets import FieldRef, SecretData, SecretRef
from mcp_connections.mounts.spec import ClientCredentials, HttpServer, StdioServer
from mcp_connections.mounts.values import bearer_token, certificates, env_value, header_value

_Remote = HttpTransport | SseTransport | WebSocketTransport


def resolve_server(connection: McpConnection, data: SecretData) -> HttpServer | StdioServer:
    """The backend of ``connection`` with the values behind its references. Raises UnusableValue."""
    transport = connection.spec.transport
    if transport.stdio:
        return _stdio(transport.stdio, connection.metadata.namespace, data)
    remote = transport.remote
    assert remote is not None, "the model holds exactly one transport"
    return _remote(connection, remote, data)


def _stdio(stdio: StdioTransport, namespace: str, data: SecretData) -> StdioServer:
    env = {}
    for index, variable in enumerate(stdio.env):
        if variable.value_from is None:
            env[variable.name] = variable.value or ""
        else:
            field = f"spec.transport.stdio.env[{index}].valueFrom.secretKeyRef"
            env[variable.name] = env_value(_use(field, namespace, variable.value_from.secret_key_ref), data)
    return StdioServer(command=stdio.command, env=env, working_dir=stdio.working_dir)


def _remote(connection: McpConnection, remote: _Remote, data: SecretData) -> HttpServer:
    namespace, kind = connection.metadata.namespace, connection.spec.transport.kind
    headers = {}
    for index, header in enumerate(remote.headers):
        if header.value_from is None:
            headers[header.name] = header.value or ""
        else:
            field = f"spec.transport.{kind}.headers[{index}].valueFrom.secretKeyRef"
            headers[header.name] = header_value(_use(field, namespace, header.value_from.secret_key_ref), data)
    if bearer := connection.spec.auth.bearer:
        token = bearer_token(_use("spec.auth.bearer.secretKeyRef", namespace, bearer.secret_key_ref), data)
        headers["Authorization"] = f"Bearer {token}"
    return HttpServer(
        kind=cast("Literal['http', 'sse', 'webSocket']", kind),
        url=remote.url,
        headers=headers,
        ca_bundle=_ca_bundle(remote.ca_bundle_ref, f"spec.transport.{kind}.caBundleRef", namespace, data),
        forward_headers=tuple(sorted(name.lower() for name in connection.spec.auth.forward_headers)),
        client_credentials=_client_credentials(connection, remote.url, data),
    )


def _client_credentials(connection: McpConnection, url: str, data: SecretData) -> ClientCredentials | None:
    source = connection.spec.auth.oauth_client_credentials
    if source is None:
        return None
    field = "spec.auth.oauthClientCredentials.clientSecret.secretKeyRef"
    use = _use(field, connection.metadata.namespace, source.client_secret.secret_key_ref)
    return ClientCredentials(
        token_url=source.token_url,
        client_id=source.client_id,
        client_secret=header_value(use, data),
        client_authentication=source.client_authentication,
        scopes=source.scopes,
        # A query may hold a credential, and is none of what tells one resource from another (RFC 8707, section 2).
        resource=source.resource or url.partition("?")[0],
    )


def _ca_bundle(source: CaBundleRef | None, field: str, namespace: str, data: SecretData) -> str | None:
    if source is None:
        return None
    if source.config_map_key_ref:
        return certificates(_use(f"{field}.configMapKeyRef", namespace, source.config_map_key_ref), data)
    assert source.secret_key_ref is not None, "the model holds exactly one of the two"
    return certificates(_use(f"{field}.secretKeyRef", namespace, source.secret_key_ref), data)


def _use(field: str, namespace: str, ref: SecretKeyRef | ConfigMapKeyRef) -> FieldRef:
    kind: Literal["Secret", "ConfigMap"] = "Secret" if isinstance(ref, SecretKeyRef) else "ConfigMap"
    return FieldRef(field=field, ref=SecretRef(kind=kind, namespace=namespace, name=ref.name, key=ref.key))
