"""How an engine spells the places that we know by other URIs.

The same folder may be `file:/data/t` to us and `local:///t` to a Trino whose native file system has `/data` as its
root. Engines compare such texts as they stand, so paths are never percent-encoded nor decoded here.
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
    """A spelling of places.

    Attributes:
        prefixes: pairs of one of our URIs and the engine's, both without a slash at their end; the longest that fits
            counts.
    """

    prefixes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Locations:
        """Pairs `ours=theirs` with commas between.

        Raises:
            OptionError: a pair is none, or its second half is no URI.
        """
        pairs = []
        for part in filter(None, map(str.strip, text.split(","))):
            match = _PAIR.fullmatch(part)
            if match is None:
                raise OptionError(f"location {part!r}: write ours=theirs, such as file:///data=local:///")
            pairs.append((_bare(normal_uri(match[1])), _bare(match[2])))
        return cls(tuple(pairs))

    def to_text(self) -> str:
        """The pairs as `parse` takes them."""
        return ",".join(f"{ours}/={theirs}/" for ours, theirs in self.prefixes)

    def spelled(self, uri: str) -> str:
        """A folder as the engine spells it, without a slash at its end.

        >>> Locations.parse("file:///data=local:///").spelled("file:/data/a b/t%25")
        'local:///a b/t%25'
        >>> Locations().spelled("file:/data/t")
        'file:///data/t'
        """
        return _moved(normal_uri(uri), self.prefixes)

    def ours(self, uri: str) -> str:
        """A folder that the engine spells so, as we do, without a slash at its end.

        >>> Locations.parse("file:///data=local:///").ours("local:///a b/t%25")
        'file:///data/a b/t%25'
        >>> Locations().ours("file:/data/t")
        'file:///data/t'
        """
        back = [
            (_bare(normal_uri(theirs)) if theirs.startswith("file:") else theirs, ours)
            for ours, theirs in self.prefixes
        ]
        return normal_uri(_moved(normal_uri(uri), back))


def _moved(place: str, prefixes: Iterable[tuple[str, str]]) -> str:
    """A place with the longest of the first halves that it begins with replaced by the second."""
    fitting = [pair for pair in prefixes if f"{place}/".startswith(f"{pair[0]}/")]
    if not fitting:
        return place
    old, new = max(fitting, key=lambda pair: len(pair[0]))
    return new + place[len(old) :]


def _bare(uri: str) -> str:
    """Without slashes at the end; of a file system's root, `file:///`, the last one goes."""
    scheme, slashes, rest = uri.partition("://")
    return scheme + slashes + rest.rstrip("/")


def normal_uri(uri: str) -> str:
    """A folder's URI with a scheme, without a slash at its end; local ones as `file:///…`.

    >>> normal_uri("/data//t/"), normal_uri("file:/data/t"), normal_uri("s3://b/t/")
    ('file:///data/t', 'file:///data/t', 's3://b/t')
    """
    match = _URI.fullmatch(uri)
    if match is not None and match[1].lower() != "file":
        return uri.rstrip("/")
    path = match[3] or "/" if match is not None else uri.removeprefix("file:")
    return "file://" + posixpath.normpath("/" + path.lstrip("/"))
