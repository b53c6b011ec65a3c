"""The pure core: what is to be mounted, what is mounted, and what follows from the difference.

No module of this package does I/O or reads a clock: resources, Secret data, reports and the time come in as
arguments. That is what lets an operator, a folder and a test go through the same decisions.
"""
