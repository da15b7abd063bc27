"""Where the types that are guessed for columns of text files would lose what their texts say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_format.errors import RecordError

_MOST_DIGITS: Final = 16
LONG_NUMBER: Final = rf"[-+]?[0-9]{{{_MOST_DIGITS + 1},}}"
#: How values of a type are written, so that each has one text. White space around them is not looked at.
_FORMS: Final = {pa.int64(): r"^\s*(0|-?[1-9][0-9]{0,18})\s*$", pa.bool_(): r"^\s*(true|false)\s*$"}


def has_long_numbers(texts: Any) -> bool:
    """Whether there are whole numbers that doubles would round."""
    return _any(pc.match_substring_regex(texts, rf"^\s*{LONG_NUMBER}\s*$"))


def has_leading_zeros(texts: Any) -> bool:
    """Whether there are codes such as 007, which is no number, and another code than 7."""
    return _any(pc.match_substring_regex(texts, r"^\s*[+-]?0[0-9]"))


def texts_to_keep(guessed: Mapping[str, pa.DataType], batches: Iterable[pa.RecordBatch]) -> set[str]:
    """Key columns of a new table that stay texts, since several texts are one value of the type that was guessed.

    Args:
        guessed: types by name, from a file's first rows.
        batches: all its rows, in which these columns are texts; only read where the texts decide.
    """
    # 1.1 and 1.10, or more digits than a double has
    kept = {name for name, kind in guessed.items() if pa.types.is_floating(kind)}
    doubtful = {name: _FORMS[kind] for name, kind in guessed.items() if kind in _FORMS}
    if doubtful:
        for batch in batches:
            kept |= {
                name
                for name, form in doubtful.items()
                if _any(pc.invert(pc.match_substring_regex(batch.column(name), form)))
            }
    return kept


def refuse_rounded(file: str, names: Iterable[str]) -> None:
    """Refuse whole numbers that doubles would round, by which two keys may become one.

    Args:
        file: its name.
        names: columns of such.

    Raises:
        RecordError: there is a column of such.
    """
    for name in names:
        raise RecordError(
            f"{file}: column {name!r} has whole numbers of {_MOST_DIGITS + 1} digits or more, which doubles would "
            "round: create the table first, with the column as decimal(38,0) or string: hudi-catalog create PATH "
            f"--key id --schema '{name} decimal(38,0), …'"
        )


def _any(mask: Any) -> bool:
    return bool(pc.any(mask).as_py())
