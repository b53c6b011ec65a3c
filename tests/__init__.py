"""A regular package, so that no distribution's stray top-level ``tests`` can stand in front of this one."""
