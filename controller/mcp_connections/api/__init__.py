"""The declared interface: pydantic models of McpConnection and McpProxy, and the CRDs generated from them.

Everything else in the product depends on this package and it depends on nothing of the product. No I/O.
"""
