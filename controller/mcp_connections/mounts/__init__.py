"""The core: resources become desired mounts, desired and observed become a plan. Pure: no I/O, no clock."""
