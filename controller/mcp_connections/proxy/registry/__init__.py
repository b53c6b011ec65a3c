"""The mount table, its mounts with their control sessions, and the clients' sessions with each backend."""
