#!/bin/sh
# Checks the manifests of contrib/kubernetes against the schemas of Kubernetes, of an old and of a new version, without a cluster.
set -eu
cd "$(dirname "$0")/../.."

release=1.37.0
venv="target/kubernetes-validate-$release"
if [ ! -d "$venv" ]; then
    echo "manifests: installing kubernetes-validate $release"
    python3 -m pip install --quiet --target "$venv" "kubernetes-validate==$release"
fi
for version in 1.29 1.37; do
    PYTHONPATH="$venv" python3 -m kubernetes_validate --strict --kubernetes-version "$version" contrib/kubernetes/*.yaml
done
