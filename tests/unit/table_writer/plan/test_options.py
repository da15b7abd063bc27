import re

import pytest

from table_format.errors import OptionError
from table_writer.plan import clustering_options, executor_options
from table_writer.plan import option_registry as registry
from table_writer.plan.option import Kind, Option
from table_writer.plan.option_registry import REGISTRY
from table_writer.plan.options import WriteOptions


def test_names_of_the_rfc_and_of_the_properties_mean_the_same() -> None:
    options = WriteOptions.of(
        {
            "hoodie.index.type": "bucket_hash_index",
            "hoodie.hash.index.bucket.num": 7,
            "hoodie.datasource.write.indexkey.field": "id",
            "hoodie.table.recordkey.fields": ["id", "n"],
        }
    )
    assert options.number(registry.BUCKETS) == 7
    assert options.names(registry.HASH_FIELDS) == ("id",)
    assert options.names(registry.RECORD_KEY) == ("id", "n")
    assert options.text(registry.INDEX_TYPE) == "BUCKET_HASH_INDEX"


def test_two_names_of_one_option_must_agree() -> None:
    both = {"hoodie.bucket.index.num.buckets": 4, "hoodie.hash.index.bucket.num": 8}
    with pytest.raises(OptionError, match=r"num.buckets='4' but hoodie.hash.index.bucket.num='8'"):
        WriteOptions.of(both)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.index.type", "BLOOM"),
        ("hoodie.index.bucket.engine", "CONSISTENT_HASHING"),
        ("hoodie.datasource.write.table.type", "MERGE_ON_READ"),
        ("hoodie.bucket.index.num.buckets", "0"),
        ("hoodie.bucket.index.num.buckets", "-4"),
        ("hoodie.bucket.index.num.buckets", "٤"),
        ("hoodie.combine.before.insert", "yes"),
        ("hoodie.populate.meta.fields", "false"),
        ("hoodie.write.table.version", "9"),
        ("hoodie.datasource.write.operation", "merge"),
    ],
)
def test_values_that_cannot_be_used_are_named(key: str, value: str) -> None:
    with pytest.raises(OptionError, match=re.escape(f"{key}={value!r}")):
        WriteOptions.of({key: value})


def test_numbers_have_a_limit() -> None:
    for key in ("hoodie.bucket.index.num.buckets", "hoodie.hash.index.bucket.num"):
        assert WriteOptions.of({key: 99_999_999}).number(registry.BUCKETS) == 99_999_999
        for text in ("100000000", "1" + "0" * 5000):
            with pytest.raises(OptionError, match="the largest number is 99999999"):
                WriteOptions.of({key: text})


def test_python_values_become_texts() -> None:
    options = WriteOptions.of({"hoodie.datasource.write.hive_style_partitioning": True, "other": 5, "none": None})
    assert options.flag(registry.HIVE_STYLE)
    assert options.texts["other"] == "5"
    assert "none" not in options.texts


def test_the_registry_is_sound() -> None:
    keys = [key for option in REGISTRY for key in (option.key, *option.aliases)]
    assert len(keys) == len(set(keys))
    for option in REGISTRY:
        assert option.meaning.endswith(".")
        assert bool(option.choices) == (option.kind is Kind.CHOICE)
        if option.default is not None:
            assert WriteOptions.of({option.key: option.default}).text(option) == option.default
    modules = (registry, executor_options, clustering_options)
    named = {value for module in modules for value in vars(module).values() if isinstance(value, Option)}
    assert named == set(REGISTRY)
