"""A kind cluster for the end-to-end tests: stock where a registry is in reach, else of what is built here.

``python -m tests.cluster.kind`` runs a command against one; ``__main__`` has the flow.
"""
