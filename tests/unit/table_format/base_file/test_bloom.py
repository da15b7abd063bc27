import gzip
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.base_file.bloom import dynamic_bloom, filter_size, fitting_size, murmur, parse_bloom, simple_bloom
from table_format.errors import CorruptFileError
from tests.golden.packing import read_archive
from tests.support.golden_base_files import DATA_FILES, FILES
from tests.support.paths import GOLDEN

KEYS = pa.array(["k1", "k2", "日本"])
SIMPLE_TEXT = "/////wAAAAcBAAAAYJqIAMBgIEASACKAWA=="
DYNAMIC_TEXT = "/////wAAAAcBAAAAYAAAAAoAAAADAAAAAf////8AAAAHAQAAAGCaiADAYCBAEgAigFg="
GROWN_TEXT = "/////wAAAAQBAAAACgAAAAIAAAAHAAAAAv////8AAAAEAQAAAAp/AP////8AAAAEAQAAAArrAQ=="


def test_filters_equal_javas():
    size = filter_size(10, 0.01)
    assert simple_bloom(KEYS, *size).to_text() == SIMPLE_TEXT
    assert dynamic_bloom(KEYS, *size, 10, 20).to_text() == DYNAMIC_TEXT


def test_a_full_dynamic_filter_goes_round():
    keys = pa.array([f"x{number}" for number in range(9)])
    assert dynamic_bloom(keys, *filter_size(2, 0.1), 2, 4).to_text() == GROWN_TEXT


def test_filters_of_apaches_files_are_made_again_from_their_keys():
    seen = 0
    for name in DATA_FILES:
        file = pq.ParquetFile(io.BytesIO(FILES[name].data))
        text = (file.metadata.metadata or {}).get(b"org.apache.hudi.bloomfilter")
        keys = file.read(columns=["_hoodie_record_key"]).column(0).combine_chunks()
        if text is None:
            continue
        bloom = parse_bloom(text, None, name)
        assert simple_bloom(keys, bloom.bits, bloom.hashes).to_text() == text.decode()
        assert bloom.may_contain(keys).all()
        seen += 1
    assert seen > 60


def test_the_default_filter_of_apache():
    members = read_archive(GOLDEN / "tables/row_groups.tar.xz")
    files = [data for name, data in members.items() if name.endswith(".parquet") and "/.hoodie/" not in name]
    assert files
    for data in files:
        file = pq.ParquetFile(io.BytesIO(data))
        texts = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
        text, kind = texts["org.apache.hudi.bloomfilter"], texts["hoodie_bloom_filter_type_code"]
        keys = file.read(columns=["_hoodie_record_key"]).column(0).combine_chunks()
        bloom = parse_bloom(text, kind, "f")
        assert (bloom.bits, bloom.hashes) == filter_size(60_000, 1e-9)
        assert dynamic_bloom(keys, bloom.bits, bloom.hashes, 60_000, 100_000).to_text() == text
        assert len(gzip.compress(text.encode())) < len(text)


def test_false_positives_are_as_rare_as_asked():
    keys = pa.array([f"key-{number}" for number in range(20_000)])
    bits, hashes = fitting_size(len(keys), 0.01, 1 << 20)
    bloom = simple_bloom(keys, bits, hashes)
    assert bloom.may_contain(keys).all()
    others = pa.array([f"other-{number}" for number in range(20_000)])
    assert bloom.may_contain(others).mean() < 0.02


def test_the_size_is_bounded():
    bits, hashes = fitting_size(10_000_000, 0.01, 1 << 20)
    assert (bits, hashes) == (1 << 20, 1)
    assert fitting_size(0, 0.01, 1 << 20)[0] > 0


def test_no_keys_and_the_empty_key():
    empty = simple_bloom(pa.array([], pa.string()), 64, 3)
    assert not empty.may_contain(KEYS).any()
    assert parse_bloom(empty.to_text(), "SIMPLE", "f").bits == 64
    assert dynamic_bloom(pa.array([], pa.string()), 64, 3, 10, 20).records_in_last == 0
    assert simple_bloom(pa.array([""]), 64, 3).may_contain(pa.array([""])).all()


@pytest.mark.parametrize("text", ["?", "", "AAAA", SIMPLE_TEXT[:20], DYNAMIC_TEXT[:-8]])
def test_broken_filters(text):
    with pytest.raises(CorruptFileError, match="bloom"):
        parse_bloom(text, "DYNAMIC_V0", "some.parquet")


def test_keys_of_many_lengths_and_blocks_set_the_bits_of_each_of_them():
    texts = [f"{'é' * (number % 23)}{number}" for number in range(40_000)]
    whole = simple_bloom(pa.array(texts), 1 << 19, 4)
    seeds, expected = np.zeros(len(texts), np.uint32), np.zeros(1 << 19, np.uint8)
    for _ in range(4):
        seeds = murmur(pa.array(texts, pa.large_string()), seeds)
        expected[np.abs(seeds.view(np.int32).astype(np.int64)) % (1 << 19)] = 1
    assert (np.unpackbits(whole.vectors[0], bitorder="little") == expected).all()
    assert simple_bloom(pa.array([*texts, "x"]).slice(0, len(texts)), 1 << 19, 4).to_text() == whole.to_text()
    assert not simple_bloom(pa.nulls(0, pa.string()), 64, 4).vectors[0].any()
