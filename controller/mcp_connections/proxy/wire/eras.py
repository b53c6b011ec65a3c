"""The two eras of the protocol, and the names the stateless one gave to what used to be a session's.

Up to 2025-11-25 a client shakes hands (``initialize``) and holds a session; from 2026-07-28 on every request carries
its version, client and capabilities in ``_meta`` (basic/versioning). Each leg of a relayed request has its own era.
"""

from __future__ import annotations

from typing import Final, Literal

Era = Literal["handshake", "stateless"]
ERAS: Final[tuple[Era, ...]] = ("handshake", "stateless")

HANDSHAKE_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Newest first. The first is what is offered to backends, any of them is accepted."""
STATELESS_VERSION: Final = "2026-07-28"
SUPPORTED_VERSIONS: Final = (STATELESS_VERSION, *HANDSHAKE_VERSIONS)

# Members of a request's _meta (basic/index, Per-request protocol fields).
META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
# Of a result's, and of a notification's on a subscriptions/listen stream.
META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

# Error codes the specification reserves (basic/index, Error Codes).
HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
# Of 2025-11-25 (client/elicitation, URL Elicitation Required Error); not to be used in the stateless era.
URL_ELICITATION_REQUIRED: Final = -32042
