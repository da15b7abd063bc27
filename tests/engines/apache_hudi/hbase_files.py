"""HFiles by HBase's own classes, which Apache Hudi 0.15.0 ships; runs in its Spark environment."""

from pyspark.sql import SparkSession


def write_hfile(
    spark: SparkSession, path: str, entries: list, block_size: int, index_size: int | None, codec: str
) -> int:
    """Write a file as Apache Hudi 0.15.0 configures HBase's writer.

    Args:
        spark: of Apache Hudi 0.15.0.
        path: of the file.
        entries: ascending keys with their values, texts.
        block_size: of data blocks.
        index_size: `hfile.index.block.max.size`; None leaves HBase's default.
        codec: a name of `Compression.Algorithm`.

    Returns:
        The number of index levels, as HBase reads the file back.
    """
    jvm = spark._jvm
    hbase = jvm.org.apache.hudi.org.apache.hadoop.hbase
    conf = jvm.org.apache.hadoop.conf.Configuration()
    if index_size is not None:
        conf.setInt("hfile.index.block.max.size", index_size)
        conf.setInt("hfile.index.block.min.entries", 2)
    files = jvm.org.apache.hadoop.fs.FileSystem.getLocal(conf).getRaw()
    place = jvm.org.apache.hadoop.fs.Path(path)
    context = (
        hbase.io.hfile.HFileContextBuilder()
        .withBlockSize(block_size)
        .withCompression(getattr(hbase.io.compress.Compression.Algorithm, codec))
        .withCellComparator(jvm.org.apache.hudi.io.storage.HoodieHBaseKVComparator())
        .build()
    )
    cache = hbase.io.hfile.CacheConfig(conf)
    writer = hbase.io.hfile.HFile.getWriterFactory(conf, cache)
    writer = writer.withPath(files, place).withFileContext(context).create()
    newest = hbase.HConstants.LATEST_TIMESTAMP
    for key, value in entries:
        writer.append(hbase.KeyValue(key.encode(), b"", b"", newest, value.encode()))
    writer.appendFileInfo(b"schema", b'{"type": "string"}')
    writer.close()
    reader = hbase.io.hfile.HFile.createReader(files, place, conf)
    try:
        return int(reader.getTrailer().getNumDataIndexLevels())
    finally:
        reader.close()
