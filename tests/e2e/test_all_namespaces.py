"""A release for all namespaces keeps them apart."""

from __future__ import annotations

import pytest

from tests.e2e.apart import assert_apart
from tests.e2e.conftest import NewNamespace, NewRelease
from tests.e2e.pods import mcp_proxy


@pytest.mark.usefixtures("alone")
async def test_nam_07_equal_names_stay_apart_with_one_operator(
    new_namespace: NewNamespace, new_release: NewRelease, image: str
) -> None:
    """It would serve the namespaces of other tests too."""
    red, blue = (new_release(new_namespace()) for _ in range(2))
    new_release(new_namespace()).install(watchAllNamespaces=True, proxy={"create": False})
    for release in (red, blue):
        release.kubectl.apply(mcp_proxy())

    await assert_apart(red, blue, image)
