#!/usr/bin/env python3
"""Layers look down only: no circle among the files of a crate, nor among its top-level modules.

An arrow leads from a file to the file that defines what it names, through any re-exports. `mod x;`, a re-export that
the file does not use itself, comments and `#[cfg(test)]` code make no arrow.
"""

import pathlib
import re
import sys

NAME = r"[A-Za-z_][A-Za-z0-9_]*"


def strip(text):
    """The code without comments, strings and test modules. Lines keep their numbers."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group())
    text = re.sub(r'//[^\n]*|/\*.*?\*/|r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', blank, text, flags=re.S)
    test = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?(?:mod|use|fn|impl|const|struct|enum)\b[^;{]*")
    while match := test.search(text):
        end = match.end()
        if end < len(text) and text[end] == "{":
            depth = 1
            while depth:
                end += 1
                depth += {"{": 1, "}": -1}.get(text[end], 0)
        text = text[: match.start()] + re.sub(r"[^\n]", " ", text[match.start() : end + 1]) + text[end + 1 :]
    return text


def leaves(tree, prefix=()):
    """The paths of a use tree, each with the name that it binds."""
    tree = tree.strip()
    if "{" in tree:
        head, body = tree.split("{", 1)
        prefix += tuple(part for part in head.strip().split("::") if part)
        depth, start, body = 0, 0, body.rsplit("}", 1)[0] + ","
        for index, letter in enumerate(body):
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if letter == "," and depth == 0:
                if body[start:index].strip():
                    yield from leaves(body[start:index], prefix)
                start = index + 1
        return
    path, _, alias = tree.partition(" as ")
    parts = prefix + tuple(part.strip() for part in path.split("::") if part.strip())
    if parts and parts[-1] == "self":
        parts = parts[:-1]
    if parts:
        yield parts, alias.strip() or parts[-1]


# The picture in docs/DESIGN.md, top down; modules of one line do not name each other. `lib` may name all.
LAYERS = {
    "src": [
        "inspect",
        "blocking",
        "session",
        "once keys",
        "ask election semaphore",
        "lock",
        "acquire",
        "guard",
        "observe",
        "contender",
        "error",
        "zk",
        "wire",
        "requests",
        "settings",
        "fence",
        "path",
        "acl clock joint layout node telemetry",
        "mutex text",
    ]
}


MAINS = ("lib.rs", "main.rs")


class Crate:
    """The library in a directory, or the program that has files of its own beside it."""

    def __init__(self, root, main):
        self.files, self.code = {}, {}
        for file in sorted(root.rglob("*.rs")):
            parts = file.relative_to(root).with_suffix("").parts
            if file.parent == root and file.name in MAINS:
                module = ()
            elif parts[-1] == "mod":
                module = parts[:-1]
            else:
                module = parts
            if module == () and file.name != main:
                continue
            self.files[module], self.code[module] = file, strip(file.read_text())
        # Files that only tests declare are no part of the code.
        for module in sorted(self.files, key=len):
            declared = module == () or re.search(rf"\bmod\s+{module[-1]}\b", self.code.get(module[:-1], ""))
            if not declared:
                self.files.pop(module), self.code.pop(module)
        self.uses = {module: self.bound(module, list(self.read_uses(module))) for module in self.files}

    def read_uses(self, module):
        for match in re.finditer(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", self.code[module]):
            line = self.code[module].count("\n", 0, match.start()) + 1
            for path, name in leaves(match.group(2)):
                if name == "*" and self.absolute(module, path) is not None:
                    sys.exit(f"layers: {self.files[module]}:{line}: name what is imported; `*` hides the arrows")
                yield path, name, bool(match.group(1)), line

    def bound(self, module, uses):
        """The uses, each path from the crate's root. The head of one may be bound by another one."""
        heads = {name: path for path, name, _, _ in uses if len(path) > 1 or path[0] in ("crate", "super", "self")}
        for _ in range(3):
            uses = [
                (heads[path[0]] + path[1:] if path[0] in heads and heads[path[0]] != path else path, *rest)
                for path, *rest in uses
            ]
        return [(self.absolute(module, path), *rest) for path, *rest in uses]

    def absolute(self, module, path):
        """A path from the crate's root; `None` if it leads out of the crate."""
        path = list(path)
        if path[0] == "crate":
            return tuple(path[1:])
        if path[0] in ("self", "super"):
            base = module
            while path and path[0] in ("self", "super"):
                base = base[:-1] if path.pop(0) == "super" else base
            return base + tuple(path)
        return module + tuple(path) if module + (path[0],) in self.files else None

    def definition(self, path, seen=()):
        """The module that defines what this path names."""
        for depth in range(len(path) - 1, -1, -1):
            module = path[:depth]
            if path in self.files:
                return path
            if module in self.files:
                for target, name, _, _ in self.uses[module]:
                    if name == path[depth] and target is not None and target not in seen:
                        return self.definition(target + path[depth + 1 :], seen + (target,))
                return module
        return ()

    def arrows(self):
        """Every arrow, with a line on which it starts."""
        for module, code in self.code.items():
            body = re.sub(r"\b(?:pub(?:\([^)]*\))?\s+)?use\s+[^;]+;", lambda m: re.sub(r"[^\n]", " ", m.group()), code)
            bound = {}
            for path, name, public, line in self.uses[module]:
                if path is None:
                    continue
                used = re.search(rf"(?<!\.)\b{name}\b", body)
                if path in self.files:
                    bound[name] = path  # a module: what is named through it counts
                elif used or not public:
                    yield module, self.definition(path), line
            for match in re.finditer(rf"\b({NAME})((?:::{NAME})+)", body):
                parts = (match.group(1),) + tuple(match.group(2).split("::")[1:])
                line = body.count("\n", 0, match.start()) + 1
                if parts[0] in bound:
                    yield module, self.definition(bound[parts[0]] + parts[1:]), line
                elif parts[0] in ("crate", "self", "super") or module + parts[:1] in self.files:
                    yield module, self.definition(self.absolute(module, parts)), line


def circle(arrows):
    """A circle among these arrows, if they have one."""
    state, stack = {}, []

    def visit(node):
        state[node] = 1
        stack.append(node)
        for other in sorted(arrows.get(node, {})):
            if state.get(other) == 1:
                return stack[stack.index(other) :] + [other]
            if other not in state and (found := visit(other)):
                return found
        state[node] = 2
        stack.pop()
        return None

    for node in sorted(arrows):
        if node not in state and (found := visit(node)):
            return found
    return None


def main(roots):
    failed = False
    for root, name in roots:
        crate = Crate(pathlib.Path(root), name)
        files, tops = {}, {}
        for source, target, line in crate.arrows():
            where = f"{crate.files[source]}:{line} -> {crate.files[target]}"
            if source != target:
                files.setdefault(source, {}).setdefault(target, where)
            if source[:1] != target[:1] and source and target:
                tops.setdefault(source[:1], {}).setdefault(target[:1], where)
        rank = {name: rank for rank, names in enumerate(LAYERS.get(root, [])) for name in names.split()}
        for (source,), targets in tops.items():
            for (target,), where in targets.items():
                if rank and rank[source] >= rank[target]:
                    failed = True
                    print(f"layers: {root}: an arrow upwards:\n  {where}")
        for kind, arrows in (("files", files), ("top-level modules", tops)):
            if found := circle(arrows):
                failed = True
                print(f"layers: {root}: a circle among {kind}:")
                for source, target in zip(found, found[1:]):
                    print(f"  {arrows[source][target]}")
    return failed


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    places = [path for pattern in ("*/src", "simulation/world/src") for path in pathlib.Path(".").glob(pattern)]
    roots = sys.argv[1:] or sorted(map(str, places)) + ["src"]
    roots = [(root, name) for root in roots for name in MAINS if (pathlib.Path(root) / name).exists()]
    if main(roots):
        sys.exit(1)
    print(f"layers: {len(roots)} libraries and programs look down only")
