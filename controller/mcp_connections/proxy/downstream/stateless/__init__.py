"""Clients of the stateless era (MCP 2026-07-28)."""
