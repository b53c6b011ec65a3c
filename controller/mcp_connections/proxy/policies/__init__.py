"""What a request passes on its way to a backend, and what it is refused with."""
