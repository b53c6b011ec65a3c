"""The transports to backends, one module each, behind ``proxy.channel.Channel``."""
