#!/usr/bin/env python3
"""Breaks the library by each patch in simulation/breaks/, and has the simulation look for what is wrong: for ten minutes of one
core at most. Prints what was found, and who found the mistake first, if it was once made. Fails if a patch does not apply or build,
or if a break was not found."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "target" / "breaks"
# A check may come while breaks are tried.
TREE, TARGET = SCRATCH / ("check" if "--check" in sys.argv else "tree"), SCRATCH / "target"


def number_of(patch):
    return int(patch.name.split("-")[0])


def finder_of(patch):
    """Who found the mistake first, by the patch; "-" if nobody has made it."""
    found = re.search(r"^Found first by (.+)\.$", patch.read_text(), flags=re.MULTILINE)
    return found.group(1) if found else "-"


def copy():
    """A copy of what the simulation is built from. Files that have not changed keep their times, so Cargo builds little."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    shutil.rmtree(TREE, ignore_errors=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, copied = ROOT / name, TREE / name
        if source.is_file():
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copied)


def apply(patch, *options):
    # The copy is no repository, so that paths are below it.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(SCRATCH)}
    applied = subprocess.run(["git", "apply", *options, str(patch)], cwd=TREE, env=environment)
    if applied.returncode != 0:
        sys.exit(f"{patch.name} does not apply")


def build(patch):
    command = ["cargo", "build", "--release", "--quiet"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    built = subprocess.run(command, cwd=TREE / "simulation", env=environment, stderr=subprocess.PIPE, text=True)
    # A break may leave something unused, so warnings do not matter.
    if built.returncode != 0:
        sys.exit(f"{built.stderr}{patch.name} does not build")


def used(process):
    """How many seconds of a core a process and its former children have used, so that a busy machine changes no result."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def look(minutes):
    """Runs the simulation until it finds something. Returns the violation and its seed, or nothing, and after how long that was."""
    hours = "0.0"
    seed = None
    seconds = 0
    # It would stop by the clock, and is stopped by what it has used.
    command = [str(TARGET / "release" / "zklock-simulation"), "--minutes", str(100 * minutes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout:
            if seed:
                # The faults of the seed need not be made fewer.
                running.terminate()
                return line.strip(), seed, seconds, hours
            seconds = used(running)
            if progress := re.search(r"([0-9.]+) simulated hours", line):
                hours = progress.group(1)
            if failed := re.match(r"FAIL: seed (\d+)", line):
                seed = failed.group(1)
            elif seconds >= 60 * minutes:
                running.terminate()
    return None, None, seconds, hours


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, help="try these breaks alone")
    parser.add_argument("--minutes", type=int, default=10, help="how long to look for each at most, of one core")
    parser.add_argument("--part", help="try one part of so many, such as 1/4")
    parser.add_argument("--check", action="store_true", help="see whether the patches apply, those of the torture, too, and no more")
    arguments = parser.parse_args()
    directories = ["simulation", "proof"] if arguments.check else ["simulation"]
    patches = [patch for directory in directories for patch in (ROOT / directory / "breaks").glob("*.patch")]
    patches.sort(key=number_of)
    patches = [patch for patch in patches if not arguments.numbers or number_of(patch) in arguments.numbers]
    if arguments.part:
        part, parts = map(int, arguments.part.split("/"))
        patches = patches[part - 1 :: parts]
    copy()
    for patch in patches:
        apply(patch, "--check")
    if arguments.check:
        return
    missed = 0
    print("| break | found | by which check | seed | seconds | simulated hours | found first by |\n|---|---|---|---|---|---|---|", flush=True)
    for patch in patches:
        apply(patch)
        build(patch)
        violation, seed, seconds, hours = look(arguments.minutes)
        apply(patch, "--reverse")
        missed += violation is None
        found = "yes" if violation else "**no**"
        columns = [patch.stem, found, violation or "-", seed or "-", f"{seconds:.0f}", hours, finder_of(patch)]
        print(f"| {' | '.join(columns)} |", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
