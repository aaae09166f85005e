#!/usr/bin/env python3
"""Makes the site of the documentation with mdBook, from the pages as they are, and checks that no link in it is dead.

The pages link to each other and to tests and programs of the repository. So the book's sources are a copy of the repository's
layout with just those files, and every link stays as it is. The contents are docs/SUMMARY.md.
"""

import os
import posixpath
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
CONTENTS = "docs/SUMMARY.md"
LINK = re.compile(r"\]\(([^)\s]+)\)")
# In pictures that are given as HTML.
SOURCE = re.compile(r'(?:src|srcset)="([^"]+)"')
CONFIGURATION = """\
[book]
title = "leasehold"
language = "en"
src = "src"

[build]
build-dir = "site"
create-missing = false

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
no-section-label = true
"""


def targets(page: str, text: str) -> set[str]:
    """The files of the repository that a page links to."""
    found = set()
    for link in LINK.findall(text) + SOURCE.findall(text):
        parts = urlsplit(link)
        if not parts.scheme and parts.path:
            found.add(posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(parts.path))))
    return found


def contents(text: str) -> tuple[str, list[str]]:
    """The contents with links that start at the root, and the pages in them."""
    pages: list[str] = []

    def moved(link: re.Match[str]) -> str:
        pages.append(posixpath.normpath(posixpath.join("docs", link[1])))
        return f"]({pages[-1]})"

    return LINK.sub(moved, text), pages


def gather(root: Path, place: Path) -> list[str]:
    """Copies the pages of the contents and what they link to."""
    summary, pages = contents((root / CONTENTS).read_text())
    # No page is left out because nobody gave it a place.
    for path in sorted((root / "docs").glob("*.md")):
        name = f"docs/{path.name}"
        if name not in pages and name != CONTENTS:
            title = path.read_text().partition("\n")[0].lstrip("# ")
            summary += f"- [{title}]({name})\n"
            pages.append(name)
    (place / "SUMMARY.md").write_text(summary)
    wanted = set(pages)
    for page in pages:
        wanted |= targets(page, (root / page).read_text())
    for name in sorted(wanted):
        source, target = root / name, place / name
        if source.is_dir():
            # A folder is shown by what is in it.
            target.mkdir(parents=True, exist_ok=True)
            names = sorted(each.name + "/" * each.is_dir() for each in source.iterdir() if each.name != "target")
            listed = "".join(f"<li>{each}</li>" for each in names)
            (target / "index.html").write_text(f"<!doctype html><title>{name}</title><ul>{listed}</ul>")
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            # A page that is not in the contents is shown as it is written.
            is_odd = name.endswith(".md") and name not in pages
            shutil.copyfile(source, target.with_name(target.name + ".txt") if is_odd else target)
    return pages


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src", "srcset") and value and tag in ("a", "img", "source"):
                self.links.append(value)


def dead(site: Path, pages: list[str]) -> list[str]:
    """What is wrong with the links of the pages, one line each."""
    parsed: dict[Path, Page] = {}

    def page(path: Path) -> Page:
        if path not in parsed:
            parsed[path] = Page(path.read_text())
        return parsed[path]

    found = []
    for name in pages:
        stem = name.removesuffix(".md")
        path = site / (posixpath.join(posixpath.dirname(stem), "index") if stem.endswith("README") else stem)
        path = path.with_name(path.name + ".html")
        for link in page(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else Path(os.path.normpath(path.parent / unquote(parts.path)))
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                found.append(f"{name}: {link}: there is no such file in the site")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in page(target).anchors:
                found.append(f"{name}: {link}: there is no such heading")
    return found


def main() -> int:
    mdbook, place = sys.argv[1], Path(sys.argv[2])
    shutil.rmtree(place, ignore_errors=True)
    (place / "src").mkdir(parents=True)
    (place / "book.toml").write_text(CONFIGURATION)
    pages = gather(ROOT, place / "src")
    subprocess.run([mdbook, "build", str(place)], check=True)
    # mdBook makes an index of a README, and leaves the links to it as they are.
    for name in pages:
        if name.endswith("README.md"):
            folder = place / "site" / posixpath.dirname(name)
            shutil.copyfile(folder / "index.html", folder / "README.html")
    found = dead(place / "site", pages)
    for line in found:
        print(f"docs: {line}", file=sys.stderr)
    print(f"{len(pages)} pages in {place / 'site'}" + (f", {len(found)} dead links" if found else ""))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
