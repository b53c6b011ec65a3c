"""Manifests that are valid and manifests that are not, and what is said about them.

One table for both places that judge manifests: the models (tests/api) and a real API server (tests/crd). Where the
API server words a plain schema violation in its own way, ``server`` says how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

API_VERSION = "mcp-connections.io/v1alpha1"

SECRET = {"name": "token", "key": "value"}
FROM_SECRET = {"secretKeyRef": SECRET}
HTTP: dict[str, Any] = {"http": {"url": "https://backend.example/mcp"}}
STDIO: dict[str, Any] = {"stdio": {"command": ["server"]}}


def manifest(spec: Any, kind: str = "McpConnection", name: str = "example") -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


@dataclass(frozen=True)
class Valid:
    id: str
    spec: dict[str, Any]
    kind: str = "McpConnection"

    @property
    def manifest(self) -> dict[str, Any]:
        return manifest(self.spec, self.kind)


@dataclass(frozen=True)
class Invalid:
    id: str
    spec: dict[str, Any]
    errors: tuple[str, ...]
    """``field: message``, all of them, as the models say it."""
    server: tuple[str, ...] | None = None
    """``field: part of the message``, as the API server says it. None: the same as the models."""
    kind: str = "McpConnection"

    @property
    def manifest(self) -> dict[str, Any]:
        return manifest(self.spec, self.kind)

    @property
    def server_errors(self) -> tuple[str, ...]:
        return self.errors if self.server is None else self.server


def http(url: str = "https://backend.example/mcp", **members: Any) -> dict[str, Any]:
    return {"transport": {"http": {"url": url, **members}}}


def headers(*items: dict[str, Any]) -> dict[str, Any]:
    return http(headers=list(items))


def stdio(*command: str, **members: Any) -> dict[str, Any]:
    return {"transport": {"stdio": {"command": list(command), **members}}}


def with_http(**members: Any) -> dict[str, Any]:
    return {"transport": HTTP, **members}


_COMMON: dict[str, Any] = {
    "allow": [{"scopes": ["team-a"], "claims": {"groups": ["admins", "dev"]}}],
    "proxyRef": {"name": "edge"},
    "enabled": False,
    "prefix": "github",
    "account": "acme",
    "metadata": {"team": "search", "tags": ["a", None], "nested": {"n": 1.5}},
    "tools": {"include": ["read_*"], "exclude": ["*_all"], "rename": {"read_file": "read"}},
    "resources": {"include": ["file://*"], "exclude": ["*secret*"]},
    "prompts": {"include": ["*"], "exclude": ["x"]},
    "policy": {
        "timeouts": {"connect": "300ms", "request": "2m30s", "max": "1h"},
        "retry": {"maxAttempts": 3, "backoff": "1s", "maxBackoff": "10s"},
        "rateLimit": {"requests": 10, "per": "1m", "burst": 20},
        "maxConcurrency": 8,
        "circuitBreaker": {"consecutiveFailures": 3, "openFor": "10s"},
    },
    "session": {"mode": "Shared", "idleTimeout": "10m", "maxSessions": 4},
    "catalog": {"refreshInterval": "5m", "removalGrace": "0s", "pin": "sha256:00"},
}
_HEADERS = [{"name": "X-Team", "value": "search"}, {"name": "X-Key", "valueFrom": FROM_SECRET}]
_OAUTH = {
    "tokenUrl": "https://issuer.example/token",
    "clientId": "client",
    "clientSecret": FROM_SECRET,
    "clientAuthentication": "Post",
    "scopes": ["read"],
    "resource": "https://backend.example/mcp",
}

NEVER_FORWARDED = (
    "must not be a header that is never passed on: credentials and cookies of clients, Host, Origin, "
    "Forwarded, X-Forwarded-*, Sec-*, Accept*, Content-*, Mcp-*, Proxy-*, those of one hop, and those that the proxy "
    "sets itself"
)
NO_HEADERS = (
    "must not be set for a webSocket or stdio transport: its messages have no headers; use transport.http or "
    "transport.sse"
)

EVERYTHING = (
    Valid(
        "everything-http",
        {
            **_COMMON,
            **http(headers=_HEADERS, caBundleRef={"configMapKeyRef": {"name": "ca", "key": "ca.crt"}}),
            "auth": {"bearer": FROM_SECRET, "forwardHeaders": ["X-Request-Id"]},
        },
    ),
    Valid(
        "everything-sse",
        {
            **_COMMON,
            "transport": {
                "sse": {
                    "url": "http://backend.example/sse",
                    "headers": _HEADERS,
                    "caBundleRef": {"secretKeyRef": {"name": "ca", "key": "ca.crt"}},
                }
            },
            "auth": {"oauthClientCredentials": _OAUTH},
        },
    ),
    Valid(
        "everything-web-socket",
        {
            **_COMMON,
            "transport": {
                "webSocket": {
                    "url": "wss://backend.example/ws",
                    "headers": _HEADERS,
                    "caBundleRef": {"secretKeyRef": {"name": "ca", "key": "ca.crt"}},
                }
            },
        },
    ),
    Valid(
        "everything-stdio",
        {
            **_COMMON,
            **stdio(
                "npx",
                "-y",
                "",
                env=[{"name": "LEVEL", "value": "debug"}, {"name": "TOKEN", "valueFrom": FROM_SECRET}],
                workingDir="/srv",
                image="registry.example/server:1",
                resources={"requests": {"cpu": "100m"}, "limits": {"memory": "256Mi", "cpu": 1}},
            ),
        },
    ),
    Valid(
        "everything-proxy",
        {
            "replicas": 3,
            "image": "registry.example/proxy:1",
            "separator": "__",
            "startPolicy": "Strict",
            "auth": {
                "jwt": {
                    "issuer": "https://issuer.example",
                    "audience": "mcp",
                    "jwksUri": "https://issuer.example/jwks",
                    "requiredScopes": ["mcp"],
                }
            },
            "allowedHosts": ["mcp.example", "*.mcp.example:8443", "[::1]:*"],
            "rateLimit": {"requests": 10, "per": "1m", "burst": 20},
            "audit": {"calls": True},
            "limits": {
                "requestBodyMib": 1,
                "backendMessageMib": 2,
                "listPages": 3,
                "listItems": 4,
                "sessions": 5,
            },
            "drainTimeout": "0s",
            "service": {"type": "LoadBalancer", "port": 80, "annotations": {"a.example/b": "c"}},
            "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
            "podTemplate": {
                "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                "spec": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}], "priority": 1},
            },
            "stdio": {"allowed": True},
        },
        kind="McpProxy",
    ),
    *(
        Valid(
            f"ca-bundle-{kind}-{source}",
            {"transport": {kind: {"url": url, "caBundleRef": {source: {"name": "ca", "key": "ca.crt"}}}}},
        )
        for kind, url in {"http": "https://h", "sse": "https://h", "webSocket": "wss://h"}.items()
        for source in ("configMapKeyRef", "secretKeyRef")
    ),
    Valid("everything-proxy-bearer", {"auth": {"bearerTokenRef": SECRET}}, kind="McpProxy"),
    Valid("everything-proxy-none", {"auth": {"none": {}}}, kind="McpProxy"),
)

VALID = (
    *EVERYTHING,
    Valid("minimal-http", {"transport": HTTP}),
    Valid("minimal-stdio", {"transport": STDIO}),
    Valid("minimal-sse", {"transport": {"sse": {"url": "http://h/sse"}}}),
    Valid("minimal-web-socket", {"transport": {"webSocket": {"url": "ws://h"}}}),
    Valid("minimal-proxy", {}, kind="McpProxy"),
    Valid("null-is-absent", {"transport": {**HTTP, "sse": None}, "prefix": None, "policy": {"retry": None}}),
    Valid("null-is-the-default", with_http(enabled=None, policy={"timeouts": {"max": None}})),
    Valid("url-with-port-and-query", http("http://127.0.0.1:65535/a/b?c=d%20e&f=@")),
    Valid("url-ipv6", http("https://[2001:db8::1]:443/mcp")),
    Valid("url-root", http("https://h")),
    Valid("url-query-only", http("https://h?key=1")),
    Valid("prefix-empty", with_http(prefix="")),
    Valid("prefix-one", with_http(prefix="7")),
    Valid("prefix-longest", with_http(prefix="a" * 64)),
    Valid("prefix-inner", with_http(prefix="a-b_c.D")),
    Valid("header-empty-value", headers({"name": "A", "value": ""})),
    Valid("header-tab-and-unicode", headers({"name": "A", "value": "a\tü"})),
    Valid("header-all-token-characters", headers({"name": "!#$%&'*+-.^_`|~09aZ", "value": "v"})),
    Valid("authorization-header", headers({"name": "Authorization", "valueFrom": FROM_SECRET})),
    Valid("auth-empty", with_http(auth={})),
    Valid("stdio-forwards-nothing", {"transport": STDIO, "auth": {"forwardHeaders": []}}),
    Valid(
        "sse-forward-headers",
        {"transport": {"sse": {"url": "http://h"}}, "auth": {"forwardHeaders": ["X-A", "Traced-By", "X-Forward"]}},
    ),
    Valid("env-empty-value", stdio("a", env=[{"name": "A", "value": ""}])),
    Valid("env-odd-name", stdio("a", env=[{"name": "-a.b", "value": "c"}])),
    Valid("request-as-long-as-max", with_http(policy={"timeouts": {"request": "10m", "max": "600s"}})),
    Valid("longest-timeout", with_http(policy={"timeouts": {"max": "24h"}})),
    Valid("quantity-forms", stdio("a", resources={"limits": {"cpu": "0.5", "memory": "1e3", "x.example/gpu": 2}})),
    Valid("secret-name-with-dots", with_http(auth={"bearer": {"secretKeyRef": {"name": "a.b-c.d", "key": "A_b.c-"}}})),
    *(
        Valid(f"separator-{index}", {"separator": separator}, kind="McpProxy")
        for index, separator in enumerate(("_", "__", ".", "-", ":", "/", "_.:/"))
    ),
    Valid("no-replicas", {"replicas": 0}, kind="McpProxy"),
)

EXACTLY_ONE_TRANSPORT = "spec.transport: must have exactly one of http, sse, webSocket and stdio"
HTTP_URL = (
    "must be an absolute http:// or https:// URL without credentials or fragment, such as https://host.example/mcp"
)
WS_URL = "must be an absolute ws:// or wss:// URL without credentials or fragment, such as wss://host.example/mcp"
PREFIX = "spec.prefix: must be empty or 1 to 64 letters, digits, ., _ and -, starting and ending with a letter or digit"
VALUE_XOR = "must have exactly one of value and valueFrom"
OWN_HEADER = (
    "spec.transport.http.headers[0].name: must not be a header that HTTP or MCP itself sets, such as Host or "
    "Mcp-Session-Id"
)
DURATION = "must be a duration such as 300ms, 5s, 2m30s or 1h"
OBJECT_NAME = "must be an object name: lower case letters, digits, - and ., starting and ending with a letter or digit"
SEPARATOR = "spec.separator: must be 1 to 4 of the characters _ . : / and -"
CONNECT = "spec.policy.timeouts.connect"
ON_HTTP = "spec.transport.http"
ON_STDIO = "spec.transport.stdio"

INVALID = (
    Invalid("no-transport", {}, ("spec.transport: must be set",), ("spec.transport: Required value",)),
    Invalid("empty-transport", {"transport": {}}, (EXACTLY_ONE_TRANSPORT,)),
    Invalid("two-transports", {"transport": {**HTTP, **STDIO}}, (EXACTLY_ONE_TRANSPORT,)),
    Invalid("null-transport", {"transport": {"http": None}}, (EXACTLY_ONE_TRANSPORT,)),
    Invalid(
        "no-url", {"transport": {"http": {}}}, (f"{ON_HTTP}.url: must be set",), (f"{ON_HTTP}.url: Required value",)
    ),
    *(
        Invalid(f"url-{name}", http(url), (f"{ON_HTTP}.url: {HTTP_URL}",))
        for name, url in {
            "empty": "",
            "relative": "/mcp",
            "no-scheme": "backend.example/mcp",
            "scheme": "ftp://backend.example",
            "web-socket": "ws://backend.example",
            "upper-case-scheme": "HTTP://backend.example",
            "no-host": "http:///mcp",
            "credentials": "http://user:password@backend.example/mcp",
            "fragment": "http://backend.example/mcp#part",
            "port": "http://backend.example:65536/mcp",
            "port-zero": "http://backend.example:0/mcp",
            "space": "http://backend.example/m cp",
            "line-break": "http://backend.example/mcp\n",
            "unicode": "http://bäckend.example/mcp",
        }.items()
    ),
    Invalid(
        "url-too-long",
        http(f"https://h/{'a' * 2048}"),
        (f"{ON_HTTP}.url: must be at most 2048 characters long",),
        (f"{ON_HTTP}.url: may not be more than 2048",),
    ),
    Invalid("sse-url", {"transport": {"sse": {"url": "wss://h"}}}, (f"spec.transport.sse.url: {HTTP_URL}",)),
    Invalid(
        "web-socket-url",
        {"transport": {"webSocket": {"url": "http://h"}}},
        (f"spec.transport.webSocket.url: {WS_URL}",),
    ),
    Invalid(
        "header-name",
        headers({"name": "A b", "value": "v"}),
        (f"{ON_HTTP}.headers[0].name: must be an HTTP header name (RFC 9110 token)",),
    ),
    Invalid(
        "header-without-name",
        headers({"value": "v"}),
        (f"{ON_HTTP}.headers[0].name: must be set",),
        (f"{ON_HTTP}.headers[0].name: Required value",),
    ),
    Invalid("header-without-value", headers({"name": "A"}), (f"{ON_HTTP}.headers[0]: {VALUE_XOR}",)),
    Invalid(
        "header-with-two-values",
        headers({"name": "A", "value": "v", "valueFrom": FROM_SECRET}),
        (f"{ON_HTTP}.headers[0]: {VALUE_XOR}",),
    ),
    *(
        Invalid(
            f"header-value-{name}",
            headers({"name": "A", "value": value}),
            (f"{ON_HTTP}.headers[0].value: must not hold line breaks or other control characters",),
        )
        for name, value in {"line-feed": "a\nb", "carriage-return": "a\r", "nul": "\0", "delete": "\x7f"}.items()
    ),
    *(
        Invalid(f"own-header-{name}", headers({"name": name, "value": "v"}), (OWN_HEADER,))
        for name in ("Host", "content-length", "MCP-Session-Id", "Sec-WebSocket-Key")
    ),
    Invalid(
        "header-twice",
        headers({"name": "A", "value": "1"}, {"name": "A", "value": "2"}),
        (f"{ON_HTTP}.headers[1]: must have another name than the items before it: 'A' is there twice",),
        (
            f"{ON_HTTP}.headers[1]: Duplicate value",
            f"{ON_HTTP}.headers: must not name a header twice, whatever its case",
        ),
    ),
    Invalid(
        "header-twice-in-another-case",
        headers({"name": "A", "value": "1"}, {"name": "a", "value": "2"}),
        (f"{ON_HTTP}.headers: must not name a header twice, whatever its case",),
    ),
    Invalid(
        "too-many-headers",
        headers(*({"name": f"A{index}", "value": "v"} for index in range(33))),
        (f"{ON_HTTP}.headers: must have at most 32 entries",),
        (f"{ON_HTTP}.headers: must have at most 32 items",),
    ),
    Invalid(
        "several-errors-at-once",
        {**headers({"name": "A b", "value": "v"}, {"name": "Host"}), "prefix": "-"},
        (
            PREFIX,
            f"{ON_HTTP}.headers[0].name: must be an HTTP header name (RFC 9110 token)",
            f"{ON_HTTP}.headers[1]: {VALUE_XOR}",
            OWN_HEADER.replace("[0]", "[1]"),
        ),
    ),
    Invalid(
        "secret-without-key",
        headers({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}),
        (f"{ON_HTTP}.headers[0].valueFrom.secretKeyRef.key: must be set",),
        (f"{ON_HTTP}.headers[0].valueFrom.secretKeyRef.key: Required value",),
    ),
    Invalid(
        "secret-name",
        headers({"name": "A", "valueFrom": {"secretKeyRef": {"name": "S", "key": "k"}}}),
        (f"{ON_HTTP}.headers[0].valueFrom.secretKeyRef.name: {OBJECT_NAME}",),
    ),
    Invalid(
        "secret-key",
        with_http(auth={"bearer": {"secretKeyRef": {"name": "s", "key": "a/b"}}}),
        ("spec.auth.bearer.secretKeyRef.key: must be a key of a Secret or ConfigMap: letters, digits, -, _ and .",),
    ),
    Invalid(
        "ca-bundle-without-source",
        http(caBundleRef={}),
        (f"{ON_HTTP}.caBundleRef: must have exactly one of configMapKeyRef and secretKeyRef",),
    ),
    Invalid(
        "ca-bundle-with-two-sources",
        http(caBundleRef={"configMapKeyRef": SECRET, "secretKeyRef": SECRET}),
        (f"{ON_HTTP}.caBundleRef: must have exactly one of configMapKeyRef and secretKeyRef",),
    ),
    Invalid(
        "no-command",
        stdio(),
        (f"{ON_STDIO}.command: must not be empty",),
        (f"{ON_STDIO}.command: should have at least 1 items",),
    ),
    Invalid("empty-program", stdio("", "a"), (f"{ON_STDIO}.command: must begin with the program to run",)),
    Invalid("nul-in-argument", stdio("a", "b\0"), (f"{ON_STDIO}.command[1]: must not hold a NUL character",)),
    Invalid(
        "command-is-text",
        {"transport": {"stdio": {"command": "npx server"}}},
        (f"{ON_STDIO}.command: must be a list, is a string",),
        (f"{ON_STDIO}.command: must be of type array",),
    ),
    Invalid(
        "env-name",
        stdio("a", env=[{"name": "1A", "value": "b"}]),
        (f"{ON_STDIO}.env[0].name: must be the name of an environment variable",),
    ),
    Invalid("env-without-value", stdio("a", env=[{"name": "A"}]), (f"{ON_STDIO}.env[0]: {VALUE_XOR}",)),
    Invalid(
        "nul-in-env",
        stdio("a", env=[{"name": "A", "value": "\0"}]),
        (f"{ON_STDIO}.env[0].value: must not hold a NUL character",),
    ),
    Invalid(
        "env-twice",
        stdio("a", env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        (f"{ON_STDIO}.env[1]: must have another name than the items before it: 'A' is there twice",),
        (f"{ON_STDIO}.env[1]: Duplicate value",),
    ),
    Invalid(
        "empty-working-dir",
        stdio("a", workingDir=""),
        (f"{ON_STDIO}.workingDir: must not be empty",),
        (f"{ON_STDIO}.workingDir: should be at least 1 chars long",),
    ),
    Invalid(
        "quantity",
        stdio("a", resources={"limits": {"cpu": "much"}}),
        (f"{ON_STDIO}.resources.limits.cpu: must be a quantity such as 500m, 2 or 1Gi",),
        (f"{ON_STDIO}.resources.limits.cpu: should match",),
    ),
    Invalid(
        "quantity-as-fraction",
        stdio("a", resources={"limits": {"cpu": 0.5}}),
        (f"{ON_STDIO}.resources.limits.cpu: must be a quantity such as 500m, 2 or 1Gi",),
        (
            f"{ON_STDIO}.resources.limits.cpu: must be of type integer,string",
            f'{ON_STDIO}.resources.limits.cpu: must be of type integer: "number"',
        ),
    ),
    *(
        Invalid(f"prefix-{name}", with_http(prefix=prefix), (PREFIX,))
        for name, prefix in {
            "leading": "-a",
            "trailing": "a_",
            "space": "a b",
            "colon": "a:b",
            "slash": "a/b",
            "unicode": "ü",
            "line-break": "a\n",
        }.items()
    ),
    Invalid(
        "prefix-too-long",
        with_http(prefix="a" * 65),
        ("spec.prefix: must be at most 64 characters long",),
        ("spec.prefix: may not be more than 64",),
    ),
    Invalid(
        "prefix-number",
        with_http(prefix=1),
        ("spec.prefix: must be a string, is a number (put it in quotes)",),
        ("spec.prefix: must be of type string",),
    ),
    Invalid(
        "enabled-text",
        with_http(enabled="yes"),
        ("spec.enabled: must be true or false, is a string",),
        ("spec.enabled: must be of type boolean",),
    ),
    Invalid("proxy-name", with_http(proxyRef={"name": "A"}), (f"spec.proxyRef.name: {OBJECT_NAME}",)),
    Invalid(
        "metadata-list",
        with_http(metadata=[]),
        ("spec.metadata: must be an object, is a list",),
        ("spec.metadata: must be of type object",),
    ),
    Invalid(
        "two-credentials",
        with_http(
            auth={
                "bearer": FROM_SECRET,
                "oauthClientCredentials": {
                    "tokenUrl": "https://i/token",
                    "clientId": "c",
                    "clientSecret": FROM_SECRET,
                },
            }
        ),
        ("spec.auth: must have at most one of bearer and oauthClientCredentials",),
    ),
    Invalid(
        "credential-for-stdio",
        {"transport": STDIO, "auth": {"bearer": FROM_SECRET}},
        ("spec.auth: must not be set for a stdio transport: pass the credential in transport.stdio.env",),
    ),
    *(
        Invalid(
            f"two-authorizations-{kind}",
            {
                "transport": {kind: {"url": url, "headers": [{"name": "authorization", "value": "v"}]}},
                "auth": {"bearer": FROM_SECRET},
            },
            ("spec.auth: must not be set together with an Authorization header of the transport",),
        )
        for kind, url in {"http": "http://h", "sse": "http://h", "webSocket": "ws://h"}.items()
    ),
    Invalid(
        "forwarded-header-twice",
        with_http(auth={"forwardHeaders": ["A", "A"]}),
        ("spec.auth.forwardHeaders[1]: must differ from the items before it: 'A' is there twice",),
        (
            "spec.auth.forwardHeaders[1]: Duplicate value",
            "spec.auth.forwardHeaders: must not name a header twice, whatever its case",
        ),
    ),
    Invalid(
        "forwarded-header-twice-in-other-case",
        with_http(auth={"forwardHeaders": ["X-A", "x-a"]}),
        ("spec.auth.forwardHeaders: must not name a header twice, whatever its case",),
    ),
    *(
        Invalid(
            f"never-forwarded-{name}",
            with_http(auth={"forwardHeaders": ["X-Fine", name]}),
            (f"spec.auth.forwardHeaders[1]: {NEVER_FORWARDED}",),
        )
        for name in (
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "Set-Cookie",
            "Host",
            "Content-Type",
            "Content-Anything",
            "Mcp-Session-Id",
            "MCP-Param-Region",
            "Connection",
            "Keep-Alive",
            "TE",
            "Trailer",
            "Transfer-Encoding",
            "Upgrade",
            "Proxy-Connection",
            "Accept",
            "Accept-Language",
            "Origin",
            "Forwarded",
            "X-Forwarded-For",
            "Sec-Fetch-Site",
            "User-Agent",
            "traceparent",
        )
    ),
    *(
        Invalid(
            f"forwarded-where-there-are-no-headers-{kind}",
            {"transport": {kind: member}, "auth": {"forwardHeaders": ["X-A"]}},
            (f"spec.auth.forwardHeaders: {NO_HEADERS}",),
        )
        for kind, member in {"webSocket": {"url": "ws://h"}, "stdio": STDIO["stdio"]}.items()
    ),
    Invalid(
        "oauth-for-stdio",
        {"transport": STDIO, "auth": {"oauthClientCredentials": _OAUTH}},
        ("spec.auth: must not be set for a stdio transport: pass the credential in transport.stdio.env",),
    ),
    Invalid(
        "rename-to-what-is-no-tool-name",
        with_http(tools={"rename": {"a": "b c"}}),
        ("spec.tools.rename.a: must be a tool name: 1 to 128 letters, digits, _, - and .",),
        ("spec.tools.rename[a]: must be a tool name: 1 to 128 letters, digits, _, - and .",),
    ),
    Invalid(
        "rename-two-to-one",
        with_http(tools={"rename": {"a": "c", "b": "c"}}),
        ("spec.tools.rename: must not give two tools the same name",),
    ),
    Invalid(
        "rename-nothing",
        with_http(tools={"rename": {"": "c"}}),
        ("spec.tools.rename: must have keys of 1 to 128 characters, the backend's names of the tools",),
    ),
    *(
        Invalid(f"duration-{name}", with_http(policy={"timeouts": {"connect": value}}), (f"{CONNECT}: {DURATION}",))
        for name, value in {
            "empty": "",
            "no-unit": "5",
            "unknown-unit": "5d",
            "fraction": "1.5s",
            "negative": "-5s",
            "spaces": "5 s",
            "iso": "PT5S",
            "line-break": "5s\n",
            "five-parts": "1s1s1s1s1s",
        }.items()
    ),
    Invalid(
        "duration-number",
        with_http(policy={"timeouts": {"connect": 5}}),
        (f"{CONNECT}: must be a string, is a number (put it in quotes)",),
        (f"{CONNECT}: must be of type string",),
    ),
    Invalid("no-time", with_http(policy={"timeouts": {"connect": "0s"}}), (f"{CONNECT}: must be from 1ms to 5m",)),
    Invalid("long-time", with_http(policy={"timeouts": {"connect": "301s"}}), (f"{CONNECT}: must be from 1ms to 5m",)),
    *(
        Invalid(
            f"request-longer-than-{name}",
            with_http(policy={"timeouts": timeouts}),
            ("spec.policy.timeouts.request: must not be longer than max, which is 10m unless set",),
        )
        for name, timeouts in {
            "max": {"request": "2s", "max": "1s"},
            "default-max": {"request": "601s"},
            "max-by-default": {"max": "59s"},
        }.items()
    ),
    Invalid(
        "session-mode",
        with_http(session={"mode": "shared"}),
        ("spec.session.mode: must be Isolated or Shared",),
        ('spec.session.mode: supported values: "Isolated", "Shared"',),
    ),
    Invalid(
        "attempts",
        with_http(policy={"retry": {"maxAttempts": 0}}),
        ("spec.policy.retry.maxAttempts: must be at least 1",),
        ("spec.policy.retry.maxAttempts: should be greater than or equal to 1",),
    ),
    Invalid(
        "refresh-interval",
        with_http(catalog={"refreshInterval": "0s"}),
        ("spec.catalog.refreshInterval: must be from 1s to 168h",),
    ),
    *(
        Invalid(f"separator-{name}", {"separator": separator}, (SEPARATOR,), kind="McpProxy")
        for name, separator in {"empty": "", "letter": "x", "space": " ", "comma": ",", "line-break": "_\n"}.items()
    ),
    Invalid(
        "separator-too-long",
        {"separator": "_____"},
        ("spec.separator: must be at most 4 characters long",),
        ("spec.separator: may not be more than 4",),
        kind="McpProxy",
    ),
    Invalid(
        "negative-replicas",
        {"replicas": -1},
        ("spec.replicas: must be at least 0",),
        ("spec.replicas: should be greater than or equal to 0",),
        kind="McpProxy",
    ),
    Invalid(
        "replicas-as-text",
        {"replicas": "2"},
        ("spec.replicas: must be a whole number, is a string",),
        ("spec.replicas: must be of type integer",),
        kind="McpProxy",
    ),
    Invalid(
        "too-many-replicas",
        {"replicas": 101},
        ("spec.replicas: must be at most 100",),
        ("spec.replicas: should be less than or equal to 100",),
        kind="McpProxy",
    ),
    Invalid(
        "start-policy",
        {"startPolicy": "Loose"},
        ("spec.startPolicy: must be Lenient or Strict",),
        ('spec.startPolicy: supported values: "Lenient", "Strict"',),
        kind="McpProxy",
    ),
    Invalid(
        "two-client-auths",
        {"auth": {"none": {}, "bearerTokenRef": SECRET}},
        ("spec.auth: must have exactly one of none, bearerTokenRef and jwt",),
        kind="McpProxy",
    ),
    Invalid(
        "empty-client-auth",
        {"auth": {}},
        ("spec.auth: must have exactly one of none, bearerTokenRef and jwt",),
        kind="McpProxy",
    ),
    Invalid(
        "jwt-without-audience",
        {"auth": {"jwt": {"issuer": "i", "jwksUri": "https://i/jwks"}}},
        ("spec.auth.jwt.audience: must be set",),
        ("spec.auth.jwt.audience: Required value",),
        kind="McpProxy",
    ),
    Invalid(
        "allowed-host",
        {"allowedHosts": ["https://mcp.example"]},
        ("spec.allowedHosts[0]: must be a host name, optionally with a leading *. and a port",),
        kind="McpProxy",
    ),
    Invalid(
        "service-port",
        {"service": {"port": 0}},
        ("spec.service.port: must be at least 1",),
        ("spec.service.port: should be greater than or equal to 1",),
        kind="McpProxy",
    ),
    Invalid(
        "drain-timeout",
        {"drainTimeout": "61m"},
        ("spec.drainTimeout: must be from 0s to 1h",),
        kind="McpProxy",
    ),
)
