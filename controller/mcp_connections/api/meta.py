"""The parts of Kubernetes' own types that the resources use: ObjectMeta (a subset) and metav1.Condition."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from mcp_connections.api.bounds import Clip
from mcp_connections.api.lists import ListMap
from mcp_connections.api.model import ApiModel, Time
from mcp_connections.api.strings import NamespaceName, ObjectName

GROUP = "mcp-connections.io"
VERSION = "v1alpha1"
ApiVersion = Literal["mcp-connections.io/v1alpha1"]
API_VERSION: ApiVersion = "mcp-connections.io/v1alpha1"

MAX_MESSAGE = 32768
"""Longest condition message the API server accepts, in characters."""


class ObjectMeta(ApiModel):
    """What is read of an object's metadata. In a folder only the name is needed."""

    name: ObjectName
    namespace: NamespaceName = "default"
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class Condition(ApiModel):
    """One aspect of the object's state, as metav1.Condition."""

    type: Annotated[
        str,
        StringConstraints(
            max_length=316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
    ]
    """Type of the condition in CamelCase."""
    status: Literal["True", "False", "Unknown"]
    """Whether the condition holds."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """metadata.generation of the spec that the condition was set upon. Smaller than the present one: out of date."""
    last_transition_time: Time
    """When the status of the condition last changed."""
    reason: Annotated[
        str,
        StringConstraints(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    ]
    """The cause of the last change as one CamelCase word for programs."""
    message: Annotated[str, Clip(MAX_MESSAGE)]
    """What happened, to what, and what to do next, for people. May be empty."""


Conditions = Annotated[tuple[Condition, ...], Field(max_length=8), ListMap("type")]
