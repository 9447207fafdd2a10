#!/usr/bin/env python3
"""Pages stay short, and their links lead somewhere: the lines of all Markdown, of docs/DESIGN.md and of each chapter of the guide are
bounded; each relative link names a file, and each anchor a heading; docs/SUMMARY.md has every page, and src/lib.rs each chapter.
"""

import pathlib
import re
import subprocess
import sys

ALL, DESIGN, CHAPTER = 4_000, 900, 200
LONGEST = 145  # of a line that is no table, code or address


def prose(text):
    """The text without code, with as many lines."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group())
    return re.sub(r"^( *)```.*?^\1```|`[^`\n]+`", blank, text, flags=re.S | re.M)


def anchors(text):
    """The anchors of a page's headings, as GitHub and mdBook make them."""
    text, seen = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.S | re.M), {}
    for heading in re.findall(r"^#+ +(.+?) *$", text, flags=re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = seen[anchor] = seen.get(anchor, -1) + 1
        yield f"{anchor}-{count}" if count else anchor


def main():
    tracked = subprocess.run(["git", "ls-files", "-z", "*.md"], capture_output=True, text=True, check=True).stdout
    pages = {pathlib.Path(name): pathlib.Path(name).read_text() for name in tracked.split("\0") if name and pathlib.Path(name).exists()}
    lines = {page: text.count("\n") for page, text in pages.items()}
    chapters = [page for page in pages if page.parent == pathlib.Path("docs/guide")]
    faults = []
    if (total := sum(lines.values())) > ALL:
        faults.append(f"all Markdown has {total} lines, and may have {ALL}")
    for page, most in [(pathlib.Path("docs/DESIGN.md"), DESIGN)] + [(chapter, CHAPTER) for chapter in chapters]:
        if lines[page] > most:
            faults.append(f"{page} has {lines[page]} lines, and may have {most}")
    known = {page.resolve(): set(anchors(text)) for page, text in pages.items()}
    linked = {page: set() for page in pages}
    for page, text in pages.items():
        text = prose(text)
        for number, line in enumerate(text.split("\n"), 1):
            if len(line.rstrip()) > LONGEST and not re.search(r"^\s*\||://", line):
                faults.append(f"{page}:{number}: {len(line.rstrip())} characters")
        for match in re.finditer(r"\]\(([^)\s]+)\)", text):
            where, target = f"{page}:{text.count(chr(10), 0, match.start()) + 1}", match.group(1)
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page.resolve()
            linked[page].add(file)
            if not file.exists():
                faults.append(f"{where}: {target} does not exist")
            elif anchor and anchor not in known.get(file, ()):
                faults.append(f"{where}: {target} names no heading")
    summary = pathlib.Path("docs/SUMMARY.md")
    faults += [f"{summary} lacks {page}" for page in pages if page != summary and page.resolve() not in linked[summary]]
    library = pathlib.Path("src/lib.rs").read_text()
    faults += [f"src/lib.rs does not compile the examples of {page}" for page in chapters if f'"../{page}"' not in library]
    print("\n".join(f"pages: {fault}" for fault in faults) or f"pages: {len(pages)} pages of {total} lines, whose links lead somewhere")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
