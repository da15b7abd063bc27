"""Make `java_properties.tsv.gz`: what `java.util.Properties` makes of random texts; needs a JDK of version 17."""

import random
import re
import subprocess
from pathlib import Path

from tests.golden.packing import write_gzip
from tests.support.paths import GOLDEN

#: Pieces of texts: separators, ends of lines, comments, escapes, and among them escapes that end too early.
PIECES = [
    *"\x01\t\n\x0c\r !#1:=\\ab",
    *("\\n", "\\t", "\\:", "\\\\", "\r\n", "\\\n", "\\u00e9", "\\uD83D\\uDE00"),
]
#: A backslash that takes the first half of a surrogate pair away: such text has no UTF-8.
_HALF_A_PAIR = re.compile(r"(?<!\\)(?:\\\\)+uD83D")


def texts() -> list[str]:
    """Short ones, of which half end in half an escape, and long ones."""
    chance = random.Random(17)
    short = ["".join(chance.choices(PIECES, k=chance.randrange(1, 8))) for _ in range(320)]
    broken = [text[:2] + "\\u12" + text[2:4] for text in short[:220]]
    long = ["".join(chance.choices(PIECES, k=chance.randrange(12, 20))) for _ in range(105)]
    whole = {text for text in (*short, *broken, *long) if not _HALF_A_PAIR.search(text)}
    return sorted(whole, key=lambda text: (len(text), text))


def main() -> None:
    program = Path(__file__).parent / "JavaProperties.java"
    lines = "".join(f"{text.encode('ascii').hex()}\n" for text in texts())
    answer = subprocess.run(["java", str(program)], input=lines.encode(), capture_output=True, check=True)
    write_gzip(GOLDEN / "java_properties.tsv.gz", answer.stdout)


if __name__ == "__main__":
    main()
