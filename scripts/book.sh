#!/bin/sh
# Builds the book over all Markdown pages into target/book. Pages link to code and to pages outside docs/, so the book has a copy
# of every file of the repository.
set -eu
cd "$(dirname "$0")/.."

rm -rf target/pages target/book
mkdir -p target/pages
git ls-files -z | xargs -0 cp --parents -t target/pages
sed -e 's|](|](docs/|' -e 's|](docs/\.\./|](|' docs/SUMMARY.md >target/pages/SUMMARY.md
mdbook build
echo "book: target/book/index.html"
