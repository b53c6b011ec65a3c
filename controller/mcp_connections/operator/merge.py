"""Merges a user's pod template over the generated one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(base: Any, over: Any) -> Any:
    """``over`` merged over ``base``: objects member by member, lists of named items by name, all else replaced.

    New items of a list of named items follow the present ones. Neither argument is changed.
    """
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        result = dict(base)
        for key, value in over.items():
            result[key] = merged(base[key], value) if key in base else value
        return result
    if _are_named(base) and _are_named(over):
        items = {item["name"]: item for item in base}
        for item in over:
            items[item["name"]] = merged(items.get(item["name"], {}), item)
        return list(items.values())
    return over


def _are_named(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) and "name" in item for item in value)
