"""The whole proxy under load, faults and reloads, for as long as one likes."""
