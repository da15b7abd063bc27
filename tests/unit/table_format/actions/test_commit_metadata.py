"""Commit metadata as Apache's releases wrote it: JSON up to table version 7, Avro from version 8 on."""

import json

import pytest

from table_format.actions.commit import CommitMetadata, WriteStat, read_extra_metadata, read_operation_type
from table_format.errors import CorruptFileError
from tests.support.golden_tables import NAMES, NEW_NAMES, timeline_files

WRITES = (".commit", ".deltacommit", ".replacecommit")
FILES = [(path, data) for name in (*NAMES, *NEW_NAMES) for path, data in timeline_files(name, "commit") if data]
COMPLETED = [(path, data) for path, data in FILES if path.endswith(WRITES)]


def test_there_are_both_forms():
    starts = {data[:1] for _, data in COMPLETED}
    assert starts == {b"{", b"O"}


def test_what_apache_wrote():
    for path, data in COMPLETED:
        metadata = CommitMetadata.parse(data, path)
        assert metadata.operation_type != "UNKNOWN"
        for stat in metadata.stats():
            assert stat.file_name
            assert stat.file_size_in_bytes > 0
            assert isinstance(stat.num_writes, int)


def test_extra_metadata_alone_is_what_the_whole_says():
    for path, data in COMPLETED:
        assert read_extra_metadata(data, path) == CommitMetadata.parse(data, path).extra_metadata
        assert read_operation_type(data, path) == CommitMetadata.parse(data, path).operation_type
    metadata = CommitMetadata({"extraMetadata": [WriteStat(path='a"extraMetadata"')]}, extra_metadata={"k": '"x": {'})
    assert read_extra_metadata(metadata.to_json(), "c") == {"k": '"x": {'}
    assert read_extra_metadata(json.dumps({"a": 1}).encode(), "c") == {}
    assert read_extra_metadata(b"", "c") == {}


@pytest.mark.parametrize("read", [CommitMetadata.parse, read_extra_metadata, read_operation_type])
@pytest.mark.parametrize("start", [b"{", b"O"])
def test_a_file_that_is_cut_off_is_named(read, start):
    path, data = next((path, data) for path, data in COMPLETED if data.startswith(start))
    with pytest.raises(CorruptFileError, match=path.rsplit("/", 1)[-1]):
        read(data[: len(data) * 2 // 3], path)
