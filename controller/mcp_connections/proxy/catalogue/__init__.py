"""What backends have: read, selected, pinned, and put together under public names."""
