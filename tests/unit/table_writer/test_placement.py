import pytest

from spark_writer.blocks import murmur3_int, placements

# spark.sql("select hash(v)") of Spark 3.5.0 and 4.3.0
SPARK_HASHES = {0: 933211791, 1: -559580957, 2: 1765031574, -1: -1604776387}


@pytest.mark.parametrize(("value", "expected"), SPARK_HASHES.items())
def test_hash_is_sparks(value: int, expected: int) -> None:
    assert murmur3_int(value) == expected


@pytest.mark.parametrize("count", [1, 2, 7, 8, 64, 256])
def test_each_slot_gets_its_own_task(count: int) -> None:
    numbers = placements(count)
    assert [murmur3_int(int(number)) % count for number in numbers] == list(range(count))


@pytest.mark.parametrize(("count", "tasks"), [(256, 200), (7, 3), (3, 8), (1, 2)])
def test_slots_spread_evenly_over_fewer_tasks(count: int, tasks: int) -> None:
    numbers = placements(count, tasks).tolist()
    assert len(set(numbers)) == count
    assert [murmur3_int(number) % tasks for number in numbers] == [slot % tasks for slot in range(count)]
