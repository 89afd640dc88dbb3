#!/usr/bin/env python3
"""aten_schemas.py - compares every row of src/load/aten.def with PyTorch's schema of that operator: the names of its arguments
and their defaults.

    tools/aten_schemas.py            ->  a line for each difference that the row does not explain; exit 1 when there is one
    tools/aten_schemas.py --all      ->  the explained ones too

A comment that begins with "schema:" in the line before a row explains that row. Needs torch, which nothing else here does.
"""
import pathlib
import re
import sys

import torch

TABLE = pathlib.Path(__file__).resolve().parent.parent / "src/load/aten.def"
DECIDES_NOTHING = {"device", "layout", "pin_memory", "non_blocking", "generator"}  # left out of all rows
ROW = re.compile(r'(/\* schema:(?:[^*]|\*(?!/))*\*/\s*)?^ATEN(?:_NUMBER)?\(\s*"([^"]+)",\s*((?:"[^"]*"\s*)+),', re.M)


def rows():
    """(target, {name: default or None}, the explanation)"""
    for explanation, target, parts in ROW.findall(TABLE.read_text()):
        arguments = {}
        for argument in filter(None, "".join(re.findall(r'"([^"]*)"', parts)).split(", ")):
            name, equals, default = argument.partition("=")
            arguments[name] = default if equals else None
        yield target, arguments, " ".join(explanation.strip(" /*\n").split())


def schema_of(target):
    names = target.split(".")
    if names[0] not in ("aten", "prims") or len(names) != 3:
        return None  # Python's own operators and regions have none
    packet = getattr(getattr(torch.ops, names[0]), names[1])
    return getattr(packet, names[2])._schema


def plain(value):
    """A default as the table writes it, numbers as numbers."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(str(item) for item in value) + "]"
    return str(value)


def written(text):
    try:
        return float(text)
    except ValueError:
        return text


def differences(target, arguments):
    try:
        schema = schema_of(target)
    except AttributeError:
        yield "PyTorch has no such operator"
        return
    if schema is None:
        return
    wanted = {argument.name: argument for argument in schema.arguments if argument.name not in DECIDES_NOTHING}
    for name in arguments:
        if name not in wanted:
            yield f"argument {name} is not in the schema"
    for name, argument in wanted.items():
        if name not in arguments:
            yield f"argument {name} is missing in the row"
            continue
        here, has = arguments[name], argument.has_default_value()
        if has and here is None:
            yield f"{name} has the default {plain(argument.default_value)}, none in the row"
        elif not has and here is not None:
            yield f"{name} has no default, {here} in the row"
        elif has and written(here) != plain(argument.default_value):
            yield f"{name} has the default {plain(argument.default_value)}, {here} in the row"


def main(everything):
    count, unexplained, explained = 0, 0, 0
    for target, arguments, explanation in rows():
        count += 1
        found = list(differences(target, arguments))
        for text in found if everything or not explanation else []:
            print(f"{target}: {text}" + (f" ({explanation})" if explanation else ""))
        if explanation and not found:
            print(f"{target}: its explanation explains nothing")
        unexplained += bool(found) != bool(explanation)
        explained += bool(found and explanation)
    print(f"{count} rows of torch {torch.__version__}: {unexplained} differ, {explained} more are explained")
    return 1 if unexplained else 0


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--all"]):
        sys.exit(__doc__)
    sys.exit(main(bool(sys.argv[1:])))
