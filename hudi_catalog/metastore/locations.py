"""Mapping between our URIs of folders and the engine's.

One folder may be `file:/data/t` for us and `local:///t` for a Trino whose native file system has `/data` as its root.
Engines compare such URIs literally, so paths are never percent-encoded or decoded here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

from table_format.errors import OptionError

_PAIR = re.compile(r"(.+?)=([a-zA-Z][a-zA-Z0-9+.-]*:/.*)", re.DOTALL)
_URI = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://([^/]*)(/.*)?", re.DOTALL)


@dataclass(frozen=True)
class Locations:
    """A mapping of URI prefixes.

    Attributes:
        prefixes: pairs of our prefix and the engine's, both without a trailing slash; the longest match applies.
    """

    prefixes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Locations:
        """Parse comma-separated pairs `ours=theirs`.

        Raises:
            OptionError: a malformed pair, or its second half is not a URI.
        """
        pairs = []
        for part in filter(None, map(str.strip, text.split(","))):
            match = _PAIR.fullmatch(part)
            if match is None:
                raise OptionError(f"location {part!r}: write ours=theirs, such as file:///data=local:///")
            pairs.append((_without_trailing_slash(normal_uri(match[1])), _without_trailing_slash(match[2])))
        return cls(tuple(pairs))

    def to_text(self) -> str:
        """The pairs as `parse` takes them."""
        return ",".join(f"{ours}/={theirs}/" for ours, theirs in self.prefixes)

    def to_engine(self, uri: str) -> str:
        """The engine's URI of a folder, without a trailing slash.

        >>> Locations.parse("file:///data=local:///").to_engine("file:/data/a b/t%25")
        'local:///a b/t%25'
        >>> Locations().to_engine("file:/data/t")
        'file:///data/t'
        """
        return _rebased(normal_uri(uri), self.prefixes)

    def from_engine(self, uri: str) -> str:
        """Our URI of a folder given by the engine's, without a trailing slash.

        >>> Locations.parse("file:///data=local:///").from_engine("local:///a b/t%25")
        'file:///data/a b/t%25'
        >>> Locations().from_engine("file:/data/t")
        'file:///data/t'
        """
        back = [
            (_without_trailing_slash(normal_uri(theirs)) if theirs.startswith("file:") else theirs, ours)
            for ours, theirs in self.prefixes
        ]
        return normal_uri(_rebased(normal_uri(uri), back))


def _rebased(place: str, prefixes: Iterable[tuple[str, str]]) -> str:
    """A URI with the longest matching prefix replaced."""
    fitting = [pair for pair in prefixes if f"{place}/".startswith(f"{pair[0]}/")]
    if not fitting:
        return place
    old, new = max(fitting, key=lambda pair: len(pair[0]))
    return new + place[len(old) :]


def _without_trailing_slash(uri: str) -> str:
    """Without trailing slashes; for a file system's root, `file:///`, the last one is dropped too."""
    scheme, slashes, rest = uri.partition("://")
    return scheme + slashes + rest.rstrip("/")


def normal_uri(uri: str) -> str:
    """A folder's URI with a scheme and without a trailing slash; local ones as `file:///…`.

    >>> normal_uri("/data//t/"), normal_uri("file:/data/t"), normal_uri("s3://b/t/")
    ('file:///data/t', 'file:///data/t', 's3://b/t')
    """
    match = _URI.fullmatch(uri)
    if match is not None and match[1].lower() != "file":
        return uri.rstrip("/")
    path = match[3] or "/" if match is not None else uri.removeprefix("file:")
    return "file://" + posixpath.normpath("/" + path.lstrip("/"))
