"""What a release finds in a table's timeline and folders; runs in the session (see `session.py`)."""

from py4j.protocol import Py4JError


def timeline(spark, path: str, partitions: list[str]) -> dict:
    """The properties, instants and latest file slices of a table.

    Returns:
        `properties`; `instants`, each with time, action and state, `pending` actions by their own name; `archived`,
        completion time by instant, where the release records one; `slices`, each with partition, file id, instant,
        name of the base file or None, and names of the log files, oldest first.
    """
    client = _client(spark, path)
    properties = client.getTableConfig().getProps()
    instants = [
        [_time(one), str(one.getAction()), str(one.getState().name())]
        for one in client.getActiveTimeline().getInstants()
    ]
    return {
        "properties": {str(key): str(properties[key]) for key in properties},
        "instants": instants,
        "archived": _archived(client),
        "slices": _slices(spark, client, partitions),
    }


def _client(spark, path: str):
    jvm = spark._jvm
    conf = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    return jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder().setConf(conf).setBasePath(path).build()


def _time(instant) -> str:
    try:
        return str(instant.requestedTime())
    except Py4JError:  # of 0.15.0
        return str(instant.getTimestamp())


def _archived(client) -> dict[str, str]:
    if client.getTableConfig().getTableVersion().versionCode() < 8:
        return {}
    return {_time(one): str(one.getCompletionTime()) for one in client.getArchivedTimeline().getInstants()}


def _slices(spark, client, partitions: list[str]) -> list:
    jvm = spark._jvm
    last = client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants().lastInstant()
    if not last.isPresent():
        return []
    engine = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(spark.sparkContext._jsc)
    config = jvm.org.apache.hudi.common.config.HoodieMetadataConfig.newBuilder().enable(False).build()
    # pending compactions are among them, whose logs belong to the slice before
    instants = client.getActiveTimeline().filterCompletedAndCompactionInstants()
    view = jvm.org.apache.hudi.common.table.view.FileSystemViewManager.createInMemoryFileSystemViewWithTimeline(
        engine, client, config, instants
    )
    listed = jvm.java.util.stream.Collectors
    slices = []
    for partition in partitions:
        stream = view.getLatestMergedFileSlicesBeforeOrOn(partition, _time(last.get()))
        for one in stream.collect(listed.toList()):
            base = one.getBaseFile()
            logs = [str(log.getFileName()) for log in one.getLogFiles().collect(listed.toList())]
            slices.append(
                [
                    partition,
                    str(one.getFileId()),
                    str(one.getBaseInstantTime()),
                    str(base.get().getFileName()) if base.isPresent() else None,
                    logs[::-1],
                ]
            )
    return slices
