"""Which releases of kind and of its parts are used. A node that is built here is of the tests' own Kubernetes."""

from __future__ import annotations

KIND = "v0.33.0"
CRICTL = "v1.36.0"
STOCK_NODE = "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5"
"""The node image that this kind release creates clusters of when it is told none (pkg/apis/config/defaults)."""
STOCK_BASE = "python:3.11-slim-bookworm"
"""What the product's Dockerfile builds on when it is told nothing."""
