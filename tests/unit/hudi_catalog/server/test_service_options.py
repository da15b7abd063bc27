"""Options of the network side, and what they need to be installed."""

import importlib.util
from dataclasses import fields

import pytest

from hudi_catalog.cli.serve_commands import SERVICES
from hudi_catalog.server.options import KEYS, OUTSIDE_LINKS, TABLE_TIMEOUT, ServiceOptions
from table_format.errors import MissingPackageError, OptionError, require


def test_every_option_has_a_key_that_its_description_names() -> None:
    assert len(KEYS) == len(fields(ServiceOptions))
    assert all(f"`{key}`" in (ServiceOptions.__doc__ or "") for key in KEYS)


def test_a_time_and_a_flag() -> None:
    changed = ServiceOptions.parse({TABLE_TIMEOUT: "1.5", OUTSIDE_LINKS: "true"})
    assert (changed.table_timeout, changed.outside_links) == (1.5, True)
    for wrong in ({TABLE_TIMEOUT: "0"}, {TABLE_TIMEOUT: "soon"}, {OUTSIDE_LINKS: "1"}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            ServiceOptions.parse(wrong)


@pytest.mark.parametrize("key", [key for key in KEYS if key not in {TABLE_TIMEOUT, OUTSIDE_LINKS}])
def test_an_option_is_set_by_its_key_and_must_be_a_number(key: str) -> None:
    assert ServiceOptions.parse({}) == ServiceOptions.parse(None) == ServiceOptions()
    changed = ServiceOptions.parse({key: "987654"})
    differing = [one.name for one in fields(changed) if getattr(changed, one.name) != one.default]
    assert len(differing) == 1
    assert getattr(changed, differing[0]) == 987_654
    for wrong in ("-1", "many", "1.5", ""):
        with pytest.raises(OptionError, match=key):
            ServiceOptions.parse({key: wrong})


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(OptionError, match=r"hoodie\.catalog\.service\.thread: no such option of a service"):
        ServiceOptions.parse({"hoodie.catalog.service.thread": "1"})


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require("this test", "services", *SERVICES)
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in SERVICES[1:] else real(name))
    message = r"serve needs prometheus_client, thriftpy2: pip install 'hudi-catalog\[services\]'"
    with pytest.raises(MissingPackageError, match=message):
        require("serve", "services", *SERVICES)
