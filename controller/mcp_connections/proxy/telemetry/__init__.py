"""What a proxy process counts, for Prometheus."""
