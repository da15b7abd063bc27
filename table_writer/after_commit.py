"""What follows a commit, such as the sync to a metastore: packages register it as entry points.

The writer knows none of them. A tool is named by the class that Apache's options name, so that
`hoodie.meta.sync.client.tool.class` chooses among what is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Final

from table_format.errors import AfterCommitError, OptionError
from table_format.table.client import TableClient
from table_writer.plan import option_registry as registry
from table_writer.plan.options import WriteOptions

GROUP: Final = "hudi_catalog.after_commit"
HIVE_SYNC: Final = "org.apache.hudi.hive.HiveSyncTool"

Settings = Callable[[str], str | None]
"""A setting of the executor's Hadoop configuration by its name, such as `hive.metastore.uris`; None without one."""
Follow = Callable[[str], str]
"""Called with the instant of a commit; returns a few words on what it did."""
Prepare = Callable[[TableClient, Mapping[str, str], Settings], Follow]
"""Called before a write with the table, the job's options and the settings; refuses options that it cannot follow."""


@dataclass(frozen=True)
class AfterCommit:
    """The steps that a write's options ask for after its commit.

    Attributes:
        follows: what to call, by the tools' names.
    """

    follows: Mapping[str, Follow]

    @classmethod
    def prepare(cls, settings: Settings, client: TableClient, options: WriteOptions) -> AfterCommit:
        """Find the tools that the options name, and let each check the options.

        Raises:
            OptionError: a tool is not installed, or refuses an option; nothing was written yet.
        """
        follows: dict[str, Follow] = {}
        for name in _wanted(options):
            tool = next(iter(entry_points(group=GROUP, name=name)), None)
            if tool is None:
                known = ", ".join(sorted(entry_points(group=GROUP).names)) or "none"
                raise OptionError(
                    f"{registry.SYNC_TOOLS.key}: no {name} is installed; entry points of {GROUP} are {known}. "
                    "hudi-catalog's own is there once it is installed by pip"
                )
            prepare: Prepare = tool.load()
            follows[name] = prepare(client, options.texts, settings)
        return cls(follows)

    def run(self, instant: str) -> list[str]:
        """Run all steps, each whether or not others failed.

        Args:
            instant: of the commit.

        Returns:
            What was done, one line per step.

        Raises:
            AfterCommitError: one or more failed; the commit is complete.
        """
        done: list[str] = []
        problems: list[tuple[str, Exception]] = []
        for name, follow in self.follows.items():
            try:
                done.append(follow(instant))
            except Exception as error:  # noqa: BLE001  # whatever it is, the commit stands, and the message must say so
                problems.append((name, error))
        if problems:
            causes = "; ".join(f"{name}: {error}" for name, error in problems)
            raise AfterCommitError(instant, causes) from problems[0][1]
        return done


def _wanted(options: WriteOptions) -> tuple[str, ...]:
    """Names of the tools to run after the commit."""
    tools = options.names(registry.SYNC_TOOLS) if options.flag(registry.META_SYNC) else ()
    hive = (HIVE_SYNC,) if options.flag(registry.HIVE_SYNC) else ()
    return tuple(dict.fromkeys((*tools, *hive)))
