"""What clients see of a backend: selection, new names, pins and grace, from patterns to the endpoint."""
