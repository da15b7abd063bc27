"""Bucket counts by partition (Apache releases from 1.1 on): rules, and the `.hashing_config` files that hold them.

A rule is a regular expression of Java and a count; the first one that is found in a partition's path decides, and the
default count where none is. Only expressions that Python and Java read alike are understood.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Self

from table_format.errors import CorruptFileError, OptionError, UnsupportedTableError
from table_format.keys.bucket_index import MOST_BUCKETS, RULES_FOLDER
from table_format.storage import Storage

EXPRESSIONS: Final = "hoodie.bucket.index.partition.expressions"
RULE_TYPE: Final = "hoodie.bucket.index.partition.rule.type"
REGEX: Final = "regex"
#: Instant of the file that a table is made with; a change has the instant of its replacecommit.
INITIAL: Final = "00000000000000"
_CONFIGS: Final = f"{RULES_FOLDER}/configs"
_SPECIAL: Final = re.compile(r"[.+*?()\[\]{}^$|\\]")
_SUFFIX: Final = ".hashing_config"
_VERSION: Final = 1
_MOST: Final = 2**31 - 1
_DIGITS: Final = 9
#: Where Java's `.` and `$` see the end of a line, and Python's do not all.
_LINE_ENDS: Final = re.compile("[\n\r\x85\u2028\u2029]")
_ESCAPE = r"\\(?:[dDsSwW]|[-.+*?()\[\]{}^$|/\\=])"
_ATOM = rf"(?:[^\\.+*?()\[\]{{}}^$|]|{_ESCAPE}|\.|\[\^?(?:[\w=/ .%:]|-|{_ESCAPE})+\]|\))"
#: What Java's and Python's expressions have in common: literals, classes, groups, alternatives and quantifiers.
_ALIKE: Final = re.compile(rf"(?:\^|\$|\||\((?:\?:|(?!\?))|{_ATOM}(?:(?:[*+?]|\{{[0-9]{{1,4}}\}})\??)?)+")


@dataclass(frozen=True)
class BucketRules:
    """How many buckets each partition has.

    Attributes:
        rules: regular expressions and counts, in the order in which they are tried.
        default: the count of other partitions.
    """

    rules: tuple[tuple[str, int], ...]
    default: int

    @classmethod
    def parse(cls, expressions: str, default: int, kind: str = REGEX) -> Self:
        """Rules by their text, `regex,count;regex,count`.

        >>> rules = BucketRules.parse("^2024-1[12],32;eu,8", 4)
        >>> rules.count_of("2024-12-01"), rules.count_of("2024-10-01/eu"), rules.count_of("2024-10-01/us")
        (32, 8, 4)

        Raises:
            OptionError: a rule is malformed, or its expression is not one that Java and Python read alike.
        """
        if kind.strip().lower() != REGEX:
            raise OptionError(f"{RULE_TYPE}={kind!r}: only {REGEX} is supported")
        rules = []
        for text in expressions.rstrip(";").split(";"):
            pattern, _, count = (part.strip() for part in text.partition(","))
            is_number = count.isascii() and count.isdigit() and len(count) <= _DIGITS
            number = int(count) if is_number and int(count) <= MOST_BUCKETS else 0
            if not (pattern and number):
                raise OptionError(f"{EXPRESSIONS}={expressions!r}: {text!r} is no rule; write regex,count;regex,count")
            if not _ALIKE.fullmatch(pattern) or not _compiles(pattern):
                raise OptionError(
                    f"{EXPRESSIONS}={expressions!r}: {pattern!r} is not understood; use literals, classes such as "
                    r"[0-9] or \d, groups, | and the quantifiers * + ? {n}"
                )
            rules.append((pattern, number))
        parsed = cls(tuple(rules), default)
        if default < 1 or parsed.common > _MOST:
            raise OptionError(
                f"{EXPRESSIONS}={expressions!r} with {default} buckets elsewhere: the least common multiple of the "
                f"counts has to be from 1 to {_MOST:,}"
            )
        return parsed

    @property
    def counts(self) -> frozenset[int]:
        """All counts."""
        return frozenset((self.default, *(count for _, count in self.rules)))

    @property
    def common(self) -> int:
        """Their least common multiple."""
        return math.lcm(*self.counts)

    @property
    def expressions(self) -> str:
        """The rules as text."""
        return ";".join(f"{pattern},{count}" for pattern, count in self.rules)

    def count_of(self, partition: str) -> int:
        """The number of buckets of a partition, by its path; raises as `counts_of` does."""
        return self.counts_of([partition])[0]

    def counts_of(self, partitions: Iterable[str]) -> list[int]:
        """The number of buckets of each partition, by its path.

        Raises:
            UnsupportedTableError: a path with a line end, at which Java's expressions and Python's differ.
        """
        patterns = [(_pattern(pattern).search, count) for pattern, count in self.rules]
        counts = []
        for path in partitions:
            if _LINE_ENDS.search(path):
                raise UnsupportedTableError(f"partition {path!r} has a line end, so that {EXPRESSIONS} may not fit it")
            counts.append(next((count for search, count in patterns if search(path)), self.default))
        return counts

    def with_count(self, partitions: Iterable[str], count: int) -> BucketRules:
        """These rules with another count for some partitions, each by a rule of its own that is tried first.

        A rule of a partition is left out where the others give its count; one stays, since no rules are no file.

        >>> BucketRules((("^2024", 2),), 4).with_count(["2024-12-01", "2025-01-01"], 8).expressions
        '^2024-12-01$,8;^2025-01-01$,8;^2024,2'

        Raises:
            UnsupportedTableError: a rule cannot hold the path of a partition, or the counts have no common multiple.
        """
        own = {_exactly(path): path for path in partitions}
        divided = [path for path in own.values() if not {",", ";"}.isdisjoint(path)]
        if divided:
            raise UnsupportedTableError(
                f"partition {divided[0]!r}: a path with a comma or a semicolon cannot have a number of buckets of its "
                f"own, since these divide the rules of {EXPRESSIONS}; only the whole table can be resized, where no "
                "partition has rules yet"
            )
        rest = BucketRules(tuple(rule for rule in self.rules if rule[0] not in own), self.default)
        added = [(pattern, count) for pattern, path in own.items() if rest.count_of(path) != count]
        kept = (*added, *rest.rules) or ((next(iter(own)), count),)
        try:
            return BucketRules.parse(BucketRules(kept, self.default).expressions, self.default)
        except OptionError as error:
            raise UnsupportedTableError(f"{', '.join(own.values())}: {error}") from error

    def to_json(self, instant: str) -> bytes:
        """The content of a `.hashing_config` file, as Apache writes it."""
        stored = {
            "expressions": self.expressions,
            "defaultBucketNumber": self.default,
            "rule": REGEX,
            "version": _VERSION,
            "instant": instant,
        }
        return json.dumps(stored, indent=2, separators=(",", " : ")).encode()


@dataclass(frozen=True)
class StoredRules:
    """The rules of a table by its files.

    Attributes:
        path: of the newest file whose instant completed.
        rules: in it.
        versions: how many files there are, archived ones too.
        pending: a file of an instant that has not completed, or was undone; None if there is none.
    """

    path: str
    rules: BucketRules
    versions: int
    pending: str | None

    @property
    def instant(self) -> str:
        """Of the newest file."""
        return _instant(self.path)

    @classmethod
    def load(
        cls, storage: Storage, is_committed: Callable[[str], bool], announced: Callable[[], str | None] = lambda: None
    ) -> Self | None:
        """Load them; None for a table with one count.

        Args:
            storage: rooted at the table's folder.
            is_committed: whether the write of an instant completed, by the table's timeline.
            announced: the instant of our last resize, which may not have completed, or may be undone with those before
                it: their files are passed over. Asked only where a file is not of a completed write.

        Raises:
            CorruptFileError: the folder holds no such file, or the file is malformed or of an unknown kind.
        """
        entries = storage.list(RULES_FOLDER, recursive=True)
        if not entries:
            return None
        paths = [entry.path for entry in entries if not entry.is_dir]
        strange = [path for path in paths if not path.endswith(_SUFFIX)]
        if strange:
            raise CorruptFileError(strange[0], 0, f"not a {_SUFFIX} file")
        current = {_instant(path): path for path in paths if path.startswith(f"{_CONFIGS}/")}
        committed = [time for time in current if time == INITIAL or is_committed(time)]
        if len(committed) < len(current) or not current:
            known = announced()
            if known is not None:
                passed = {path for time, path in current.items() if time <= known and time not in committed}
                paths = [path for path in paths if path not in passed]
                current = {time: path for time, path in current.items() if path not in passed}
                if not paths:
                    return None
        if not committed:
            raise CorruptFileError(RULES_FOLDER, 0, "bucket counts by partition, but no rules of a completed write")
        newest = max(committed)
        pending = max((time for time in current if time > newest), default=None)
        path = current[newest]
        return cls(path, parse_rules(storage.read(path), path), len(paths), pending and current[pending])


def parse_rules(data: bytes, path: str) -> BucketRules:
    """Parse a `.hashing_config` file.

    Raises:
        CorruptFileError: it is malformed, of an unknown version, or its rules are not understood.
    """
    try:
        stored: Any = json.loads(data)
        expressions, default = str(stored["expressions"]), int(stored["defaultBucketNumber"])
        kind, version = str(stored["rule"]), stored["version"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(path, 0, f"not rules of bucket counts: {error!r}") from error
    if version != _VERSION:
        raise CorruptFileError(path, 0, f"unknown version {version} of rules of bucket counts")
    try:
        return BucketRules.parse(expressions, default, kind)
    except OptionError as error:
        raise CorruptFileError(path, 0, str(error)) from error


def claimed_rules(values: Mapping[str, str], count: int | None) -> BucketRules | None:
    """The rules that properties or options name; None if they name none.

    Args:
        values: properties or options by key.
        count: the number of buckets of other partitions; None if not known.

    Raises:
        OptionError: they are malformed, or the number is not known.
    """
    expressions = (values.get(EXPRESSIONS) or "").strip()
    if not expressions:
        return None
    if count is None:
        raise OptionError(f"{EXPRESSIONS}={expressions!r} needs hoodie.bucket.index.num.buckets, of other partitions")
    return BucketRules.parse(expressions, count, values.get(RULE_TYPE) or REGEX)


def write_rules(storage: Storage, rules: BucketRules, instant: str = INITIAL) -> None:
    """Write rules: those that a table is made with before its properties make it a table, others before they count."""
    storage.overwrite(_path(instant), rules.to_json(instant))


def read_rules(storage: Storage, instant: str) -> BucketRules:
    """The rules that were written by an instant.

    Raises:
        CorruptFileError: they are malformed.
        MissingFileError: the file is gone.
    """
    return parse_rules(storage.read(_path(instant)), _path(instant))


def drop_rules(storage: Storage, undone: Callable[[str], bool]) -> None:
    """Delete the rules of undone instants, and the folder where none is left: it would mean that there are rules."""
    entries = storage.list(RULES_FOLDER, recursive=True)
    files = [entry.path for entry in entries if not entry.is_dir]
    gone = [path for path in files if _instant(path) != INITIAL and undone(_instant(path))]
    for path in gone:
        storage.delete(path)
    if entries and len(gone) == len(files):
        storage.delete_dir(RULES_FOLDER)


def agreed_rules(claimed: BucketRules | None, stored: StoredRules | None, uri: str) -> BucketRules | None:
    """The rules that a write goes by: those that the table's properties, or the job's options, and its file agree on.

    Which partitions were written by which version of the rules is recorded nowhere, and a rescale of Apache's leaves
    partitions as they are whose count it takes for unchanged. So a file alone does not tell.

    Args:
        claimed: by the properties or the options.
        stored: by the file.
        uri: of the table, for messages.

    Raises:
        UnsupportedTableError: they do not agree, or a change of them has not completed.
    """
    if stored is None:
        if claimed is not None:
            raise UnsupportedTableError(
                f"{uri}: the table has bucket counts by partition ({EXPRESSIONS}={claimed.expressions!r}), but no file "
                f"in {_CONFIGS}, by which Apache Hudi's writers know them; put it back"
            )
        return None
    if stored.pending is not None:
        raise UnsupportedTableError(f"{uri}: {stored.pending} is of a rescale that has not completed, or was undone")
    if claimed != stored.rules:
        claim = "do not name them" if claimed is None else f"name {claimed.expressions!r} and {claimed.default} buckets"
        raise UnsupportedTableError(
            f"{uri}: bucket counts differ between partitions, by the rules in {stored.path}, "
            f"{stored.rules.expressions!r} and {stored.rules.default} buckets elsewhere; the table's properties and "
            f"the options {claim}. Where all partitions were written by these rules, give them as {EXPRESSIONS} and "
            "hoodie.bucket.index.num.buckets"
        )
    return claimed


def _exactly(path: str) -> str:
    """An expression that is found in one partition's path only."""
    return f"^{_SPECIAL.sub(lambda match: chr(92) + match[0], path)}$"


def _path(instant: str) -> str:
    return f"{_CONFIGS}/{instant}{_SUFFIX}"


def _instant(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(_SUFFIX)


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> re.Pattern[str]:
    # Java's \d, \w and \s are those of ASCII
    return re.compile(pattern, re.ASCII)


def _compiles(pattern: str) -> bool:
    try:
        _pattern(pattern)
    except re.error:
        return False
    return True
