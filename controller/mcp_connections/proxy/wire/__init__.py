"""Messages as they travel: JSON-RPC envelopes, event streams, and what the two eras of the protocol call things."""
