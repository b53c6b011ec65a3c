"""The commands, one module each: they wire the other packages together and speak to the person at the terminal."""
