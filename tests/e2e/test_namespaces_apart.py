"""Equal names in two namespaces have nothing to do with one another, with an operator in each."""

from __future__ import annotations

from tests.e2e.apart import assert_apart
from tests.e2e.conftest import NewNamespace, NewRelease


async def test_nam_07_equal_names_stay_apart_with_an_operator_each(
    new_namespace: NewNamespace, new_release: NewRelease, image: str
) -> None:
    red, blue = (new_release(new_namespace()) for _ in range(2))
    for release in (red, blue):
        release.install()

    await assert_apart(red, blue, image)
