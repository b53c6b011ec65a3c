"""One conversation with one backend, of either era, and how it is opened."""
