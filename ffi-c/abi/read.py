#!/usr/bin/env python3
"""What a program can depend on in `include/leasehold.h`, a line each: numbers, fields with their offsets, and functions.

    read.py > 0.1.txt          when a version is released, and for abidiff a library that has the functions and does nothing:
    read.py --library x.so && abidw --no-show-locs --no-corpus-path --no-comp-dir-path x.so > 0.1.abi

The tests compare the header of that version with both. Within a version of the binary interface, nothing in the list may
change. What is new may come: functions, numbers, and fields at the end of structs that say their size, or that only the
library makes.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "include" / "leasehold.h"
# Beside those with a field `size`.
MADE_BY_THE_LIBRARY = {"lh_contender", "lh_contenders", "lh_committed", "lh_leader"}


def declarations() -> str:
    """The header without comments and directives, a declaration a line."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", HEADER.read_text(), flags=re.DOTALL)
    text = re.sub(r"^#.*(?:\\\n.*)*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\s+", " ", text)


def layout(structs: dict[str, list[str]]) -> list[str]:
    """Asks the compiler where the fields of each struct are."""
    lines = ["#include <leasehold.h>", "#include <stdio.h>", "int main(void) {"]
    for name, fields in structs.items():
        if "size" not in fields and name not in MADE_BY_THE_LIBRARY:
            lines.append(f'printf("struct {name} %zu bytes\\n", sizeof({name}));')
        for field in fields:
            what = f"offsetof({name}, {field}), sizeof(((({name} *)0)->{field}))"
            lines.append(f'printf("field {name}.{field} at %zu, %zu bytes\\n", {what});')
    lines.append("}")
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "layout.c", Path(folder) / "layout"
        source.write_text("\n".join(lines))
        subprocess.run(["cc", f"-I{HEADER.parent}", source, "-o", program], check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()


def functions(text: str) -> list[str]:
    return re.findall(r"(?:LH_MUST_USE )?([a-z][\w ]*? \**lh_\w+\([^)]*\));", text)


def library(place: str) -> None:
    """A shared library with all functions of the header, whose debug information says what they take."""
    bodies = "\n".join(f"{function} {{ __builtin_trap(); }}" for function in functions(declarations()))
    command = ["cc", "-g", "-fno-eliminate-unused-debug-types", "-shared", "-fPIC", f"-I{HEADER.parent}", "-x", "c", "-", "-o", place]
    # By its name alone, so that it is the same wherever the checkout stands.
    command += [f"-fdebug-prefix-map={ROOT}=.", "-Wl,-soname,libleasehold.so"]
    subprocess.run(command, input=f"#include <leasehold.h>\n{bodies}\n", text=True, check=True, cwd=ROOT)


def facts() -> list[str]:
    """All of it, sorted."""
    text = declarations()
    found = [f"value {name} {number}" for name, number in re.findall(r"\b(LH_\w+) = (\d+)", text)]
    structs = {}
    for body, name in re.findall(r"typedef struct \w+ \{([^}]*)\} (\w+);", text):
        structs[name] = [re.split(r"[ *]", re.sub(r"\[\w+\]", "", field).strip())[-1] for field in body.split(";") if field.strip()]
    found += layout(structs)
    found += [f"function {function}" for function in functions(text)]
    return sorted(found)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--library"]:
        library(str(Path(sys.argv[2]).resolve()))
    else:
        sys.stdout.write("\n".join(facts()) + "\n")
