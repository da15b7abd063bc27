"""Makes nodes of Hive's trees, as JSON has them."""

from pushdown.translators import from_hive_tree

COMPARE = {
    "=": "GenericUDFOPEqual",
    "<>": "GenericUDFOPNotEqual",
    "<": "GenericUDFOPLessThan",
    "<=": "GenericUDFOPEqualOrLessThan",
    ">": "GenericUDFOPGreaterThan",
    ">=": "GenericUDFOPEqualOrGreaterThan",
    "<=>": "GenericUDFOPEqualNS",
    "is distinct from": "GenericUDFOPNotEqualNS",
}


def column(name: str, kind: str) -> dict:
    return {"c": name, "t": kind}


def value(literal: object, kind: str) -> dict:
    return {"v": literal, "t": kind}


def call(name: str, *arguments: object, to: str = "boolean") -> dict:
    return {"f": name, "t": to, "a": list(arguments)}


def sql(node: object, **options: str) -> str:
    return from_hive_tree(node, **options).to_sql()


def equal(own: str, literal: object, kind: str | None = None) -> dict:
    return call("GenericUDFOPEqual", column("a", own), value(literal, kind or own))


HOLDS = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<=>": lambda a, b: a == b,
    "is distinct from": lambda a, b: a != b,
}
