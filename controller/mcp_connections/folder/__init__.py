"""A directory of manifests as desired mounts: reading, watching, errors with file, line and field."""
