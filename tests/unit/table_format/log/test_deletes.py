import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from table_format.log.blocks import BlockType, read_log_blocks
from table_format.log.deletes import DeletedRecord, read_deleted_keys, read_deletes
from table_writer.encoding.log_blocks import write_deletes, write_key_deletes, write_log_block

END = "\x02\x18record_index\x04\x00"
KEYS = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["k" * size for size in (62, 63, 64, 65, 8190, 8191, 8192, 8193)]),
    st.sampled_from([END, "a" + END, END + "\x02\x02a"]),
)


def block_of(content):
    [block] = read_log_blocks(write_log_block(BlockType.DELETE, {0: "1"}, content), "f")
    return block


@given(st.lists(KEYS))
@example([END])
@example(["a", END * 3])
@example(["", "\x02"])
@example(["", "a", "ü" * 100, "k" * 20_000])
def test_keys_are_read_and_written_by_whole_columns_as_by_single_records(keys):
    content = write_deletes([DeletedRecord(key, "record_index") for key in keys])
    assert write_key_deletes(pa.array(keys, pa.string()).cast(pa.binary()), "record_index") == content
    assert read_deleted_keys(block_of(content)) == [key.encode() for key in keys]


@given(st.lists(st.tuples(st.none() | st.text(max_size=3), st.none() | st.sampled_from(["", "p", "record_index"]))))
def test_deletes_of_several_partitions_are_read_one_by_one(records):
    content = write_deletes([DeletedRecord(key, partition) for key, partition in records])
    block = block_of(content)
    assert read_deleted_keys(block) == [record.key.encode() for record in read_deletes(block) if record.key is not None]
