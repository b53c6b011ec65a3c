"""The Helm chart: what it renders, what it refuses, and what becomes of it on a real API server."""
