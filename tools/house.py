#!/usr/bin/env python3
"""house.py - the sizes of the house: what a reviewer looks at before and after a change of many files.

    tools/house.py [ROOT]      ROOT: another copy of the sources

    room              .c  .h   lines  functions  a 1000 lines  longest  used once  asserts
    src/plan          14   8    3806        155            41       62    81 of 98       12

In: src/* and cache. Lines are all of .c and .h files, as wc counts them. A function is a body whose
brace opens on a line of its own; longest is the longest body. Used once is of the static functions: at
most one mention in their file besides definition and declarations (a table that spells its names by a
macro is none).
"""
import pathlib
import re
import sys

COMMENTS_AND_STRINGS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_of(text):
    """The text without comments and what strings hold, its lines where they were."""
    def blank(match):
        found = match.group()
        return '""' if found[0] in "\"'" else "\n" * found.count("\n") or " "
    return COMMENTS_AND_STRINGS.sub(blank, text)


def functions_of(code):
    """(name or None, is static, lines of the body with its braces) of each function."""
    lines = code.split("\n")
    for opens, line in enumerate(lines):
        if line != "{":
            continue
        first = opens
        while first > 0 and lines[first - 1] and not re.match(r"[};#]|.*;$", lines[first - 1]):
            first -= 1
        head = " ".join(lines[first:opens])
        name = re.search(r"(\w+)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)|\b[A-Z_]+\(", "", head))
        closes = next((i for i in range(opens, len(lines)) if lines[i] == "}"), opens)
        yield name and name.group(1), "static" in head, closes - opens + 1


def room(folder):
    """The figures of a room, by name."""
    figures = dict.fromkeys("c h lines functions longest static once asserts".split(), 0)
    for path in sorted(folder.rglob("*.[ch]")):
        code = code_of(path.read_text())
        figures[path.suffix[1:]] += 1
        figures["lines"] += code.count("\n")
        figures["asserts"] += len(re.findall(r"\bassert\(", code))
        for name, is_static, length in functions_of(code):
            figures["functions"] += 1
            figures["longest"] = max(figures["longest"], length)
            if name and is_static and path.suffix == ".c":
                heads = re.findall(rf"^static\b[^;{{}}=]*\b{name}\(", code, re.M)
                figures["static"] += 1
                figures["once"] += len(re.findall(rf"\b{name}\b", code)) - len(heads) <= 1
    return figures


def row(name, f):
    per = lambda count: round(1000 * count / f["lines"], 1)
    print(f"{name:16} {f['c']:4} {f['h']:4} {f['lines']:7} {f['functions']:9} {per(f['functions']):13}"
          f" {f['longest']:8} {f['once']:7} of {f['static']:4} {f['asserts']:8}")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    print("room               .c   .h   lines functions  a 1000 lines  longest       used once  asserts")
    total = {}
    for folder in sorted(p for p in root.glob("src/*") if p.is_dir()) + [root / "cache"]:
        figures = room(folder)
        row(str(folder.relative_to(root)), figures)
        for key, value in figures.items():
            total[key] = max(total.get(key, 0), value) if key == "longest" else total.get(key, 0) + value
    row("all", total)
    print(f"{1000 * total['functions'] / total['lines']:.1f} functions and"
          f" {1000 * total['asserts'] / total['lines']:.1f} asserts a 1000 lines,"
          f" {100 * total['once'] / total['static']:.0f} % of the static functions used once")


main()
