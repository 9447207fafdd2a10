#!/usr/bin/env python3
"""No type of another crate is public, except for those that CONTRIBUTING.md gives a reason for: a new version of that crate would
break zklock's API. Reads the JSON of rustdoc, whose format is not stable."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

STANDARD = {"std", "core", "alloc"}

# The crates that are published, the features whose types are public, and the crates of which a type may be public.
CRATES = {
    "zklock": ("cancellation-token,metrics,sasl-digest-md5,serde,tls", {"futures_core", "serde_core", "tokio", "tokio_util", "zklock_recipe"}),
    "zklock-sqlx": ("postgres,sqlite", {"sqlx_core", "sqlx_postgres", "sqlx_sqlite", "zklock"}),
    "zklock-testcontainers": ("", {"testcontainers", "zklock_ensemble"}),
}


def documentation(crate, features):
    target = ROOT / "target" / "api"
    command = ["cargo", "rustdoc", "--quiet", "-p", crate, "--lib", "--features", features]
    command += ["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"]
    environment = {**os.environ, "RUSTC_BOOTSTRAP": "1", "CARGO_TARGET_DIR": str(target)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return json.loads((target / "doc" / f"{crate.replace('-', '_')}.json").read_text())


def types(value):
    """The ids of all types that a signature names."""
    if isinstance(value, dict):
        if "resolved_path" in value:
            yield value["resolved_path"]["id"]
        for trait in ("trait", "trait_"):
            if isinstance(value.get(trait), dict) and "id" in value[trait]:
                yield value[trait]["id"]
        for inner in value.values():
            yield from types(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from types(inner)


def foreign(crate, features, allowed):
    docs = documentation(crate, features)
    names = {int(number): entry["name"] for number, entry in docs["external_crates"].items()}
    for item in docs["index"].values():
        inner = item["inner"]
        # What a macro or the compiler implements says nothing of a caller's code.
        implemented = inner.get("impl")
        if item["crate_id"] != 0 or implemented and (implemented.get("blanket_impl") or implemented.get("is_synthetic")):
            continue
        for number in types({key: value for key, value in inner.items() if key != "module"}):
            summary = docs["paths"].get(str(number))
            owner = summary and names.get(summary["crate_id"])
            if owner and owner not in STANDARD | allowed:
                where = (item.get("span") or {}).get("filename", "?")
                yield f"{crate}: {where}: {item.get('name') or 'an implementation'} names {'::'.join(summary['path'])}"


found = sorted({line for crate, (features, allowed) in CRATES.items() for line in foreign(crate, features, allowed)})
print("\n".join(found) or f"api: the public types of {len(CRATES)} crates are their own")
sys.exit(bool(found))
