"""The endpoint towards clients: sessions, relay, and the way back."""
