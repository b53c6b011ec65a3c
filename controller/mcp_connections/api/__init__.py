"""The two resources as pydantic models, their condition types and reasons, and the CRDs made from them. No I/O."""
