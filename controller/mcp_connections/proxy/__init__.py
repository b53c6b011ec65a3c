"""The serving shell: registry, mounts, sessions, relay, endpoint and admin surface. Knows nothing of Kubernetes."""
