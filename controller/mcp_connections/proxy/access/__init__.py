"""Who may use the endpoint: names, origins, credentials."""
