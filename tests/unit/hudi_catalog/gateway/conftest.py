"""What tests of the gateway share."""

import pytest

from tests.support.rewritten_place import Place, make_place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Registered tables, for one module: some tests commit."""
    return make_place(tmp_path_factory.mktemp("rewrite"))
