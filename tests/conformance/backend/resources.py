"""Resources and their template."""

from __future__ import annotations

import json
import re

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from tests.conformance.backend.media import PNG
from tests.conformance.backend.state import Context

WATCHED = "test://watched-resource"
_CONTENTS: dict[str, TextResourceContents | BlobResourceContents] = {
    "test://static-text": TextResourceContents(
        uri="test://static-text", mime_type="text/plain", text="This is the content of the static text resource."
    ),
    "test://static-binary": BlobResourceContents(uri="test://static-binary", mime_type="image/png", blob=PNG),
    WATCHED: TextResourceContents(uri=WATCHED, mime_type="text/plain", text="Watched resource content"),
}
_TEMPLATED = re.compile(r"test://template/([^/]+)/data")


async def list_resources(ctx: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
    return ListResourcesResult(
        resources=[
            Resource(uri=uri, name=uri.removeprefix("test://"), mime_type=contents.mime_type)
            for uri, contents in _CONTENTS.items()
        ]
    )


async def list_templates(ctx: Context, params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
    template = ResourceTemplate(uri_template="test://template/{id}/data", name="template", mime_type="application/json")
    return ListResourceTemplatesResult(resource_templates=[template])


async def read(ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    """Raises MCPError (-32602) for an unknown resource (2026-07-28, server/resources, Error Handling)."""
    uri = str(params.uri)
    if (contents := _CONTENTS.get(uri)) is not None:
        return ReadResourceResult(contents=[contents])
    if (match := _TEMPLATED.fullmatch(uri)) is not None:
        text = json.dumps({"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"})
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type="application/json", text=text)])
    raise MCPError(INVALID_PARAMS, f"Resource not found: {uri}", {"uri": uri})
