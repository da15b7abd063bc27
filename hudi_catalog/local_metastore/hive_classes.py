"""Starts the Thrift server of a Hive Metastore 2.3 inside a Java machine that is there already.

Hive's own main class of these releases listens at all addresses of the machine, and asks nobody who they are. So its
parts are put together here, as that class does it, with a socket of 127.0.0.1.
"""

from __future__ import annotations

from typing import Any, Final

_WORKERS: Final = (4, 200)
_NAME: Final = "hudi-catalog"


def serve(java: Any, host: str, port: int) -> int:
    """Start the server in a thread of its own; it takes connections when this returns.

    Args:
        java: the machine's view for Python (`JavaGateway.jvm`), with Hive's classes and a `hive-site.xml`.
        host: address to listen at.
        port: 0 for a free one.

    Returns:
        The port.

    Raises:
        Py4JJavaError: what Java said, as when the port or the database is in use.
    """
    hive, thrift = java.org.apache.hadoop.hive, java.org.apache.thrift
    metastore = hive.metastore
    socket = thrift.transport.TServerSocket(java.java.net.InetSocketAddress(host, port))
    settings = hive.conf.HiveConf(java.java.lang.Class.forName("org.apache.hadoop.hive.metastore.HiveMetaStore"))
    handler = metastore.HiveMetaStore.HMSHandler(_NAME, settings, False)
    retrying = metastore.RetryingHMSHandler.getProxy(settings, handler, True)
    arguments = thrift.server.TThreadPoolServer.Args(socket)
    arguments.processor(metastore.TUGIBasedProcessor(retrying))
    arguments.transportFactory(hive.thrift.TUGIContainingTransport.Factory())
    arguments.protocolFactory(thrift.protocol.TBinaryProtocol.Factory())
    arguments.minWorkerThreads(_WORKERS[0])
    arguments.maxWorkerThreads(_WORKERS[1])
    _in_a_thread(java, thrift.server.TThreadPoolServer(arguments), "serve")
    return int(socket.getServerSocket().getLocalPort())


def _in_a_thread(java: Any, target: Any, method: str) -> None:
    """Run a method without arguments or result in a thread of Java: a call from here would wait for its end."""
    invoke = java.java.lang.invoke
    kind = invoke.MethodType.methodType(java.java.lang.Void.TYPE)
    handle = invoke.MethodHandles.publicLookup().findVirtual(target.getClass(), method, kind)
    runnable = java.java.lang.Class.forName("java.lang.Runnable")
    bound = invoke.MethodHandleProxies.asInterfaceInstance(runnable, handle.bindTo(target))
    java.java.lang.Thread(bound, f"{_NAME} {method}").start()
