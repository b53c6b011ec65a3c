"""What a backend says, compared with what a client of the proxy hears, over random catalogues and results."""
