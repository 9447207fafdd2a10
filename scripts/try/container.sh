#!/usr/bin/env bash
# Builds the image of contrib/container and, from it, the image of a user. Runs both beside a ZooKeeper server, as the manifests do:
# without root, rights and a root file system to write to.
set -euo pipefail
cd "$(dirname "$0")/../.."

testcontainers/image/build.sh
base=debian:bookworm-slim
bases=()
if ! timeout "${PULL_TIMEOUT:-60}" docker pull --quiet rust:1-bookworm; then
    # Stand-ins: Debian, and this machine's Rust with the crates that it has downloaded.
    testcontainers/image/debian.sh bookworm
    base=zklock-debian:bookworm
    bases=(--build-arg RUST=zklock-rust --build-arg DEBIAN="$base")
    cargo fetch --quiet --locked
    docker rm --force zklock-rust >/dev/null 2>&1 || true
    docker run --name zklock-rust --volume "$(rustc --print sysroot):/from/rust:ro" \
        --volume "${CARGO_HOME:-$HOME/.cargo}/registry:/from/registry:ro" zklock-debian:bookworm sh -ec '
            apt-get update -qq; apt-get install -y -qq --no-install-recommends gcc libc6-dev >/dev/null 2>&1
            mkdir -p /rust /cargo/registry; cp -r /from/rust/bin /from/rust/lib /rust; cp -r /from/registry/cache /from/registry/index /cargo/registry'
    docker commit --change 'ENV PATH=/rust/bin:/usr/bin:/bin CARGO_HOME=/cargo CARGO_NET_OFFLINE=true' zklock-rust zklock-rust >/dev/null
    docker rm zklock-rust >/dev/null
fi
git ls-files -z | tar --create --null --files-from - | docker build "${bases[@]}" --file contrib/container/Containerfile --tag zklock -

id="zklock-container-$$"
scratch="$(mktemp -d)"
trap 'docker rm --force --volumes "$id"-{1,2,zk} >/dev/null 2>&1; docker network rm "$id" >/dev/null; rm -rf "$scratch"' EXIT
fail() { echo "container: $*"; docker logs "$id-1"; docker logs "$id-2"; exit 1; }
# The image of a user, as the container file has it.
cat >"$scratch/report" <<'END'
#!/bin/sh
say() { echo "$HOSTNAME $*" >>/shared/log; }
trap 'say ends; exit 7' TERM
say begins
while :; do sleep 1000 & wait $!; done
END
chmod +x "$scratch/report"
{
    printf 'FROM %s\nCOPY report /app/report\n' "$base"
    sed -n 's/^#     \(COPY\|ENTRYPOINT\)/\1/p' contrib/container/Containerfile
} >"$scratch/Dockerfile"
[ "$(wc -l <"$scratch/Dockerfile")" = 4 ] || fail "the container file says no longer how to use it"
docker build --quiet --tag zklock-report "$scratch" >/dev/null

mkdir -m 777 "$scratch/shared"
docker network create "$id" >/dev/null
docker run --detach --name "$id-zk" --network "$id" --network-alias zk zookeeper:3.9 >/dev/null
strict=(--network "$id" --env ZKLOCK_SERVERS=zk:2181 --read-only --cap-drop ALL --security-opt no-new-privileges --volume "$scratch/shared:/shared")
# zklock with these arguments ends with this code.
ends_with() {
    local code=0
    docker run --rm "${strict[@]}" zklock "${@:2}" || code=$?
    [ "$code" = "$1" ] || fail "${*:2}: $code and not $1"
    echo "exit code $code: zklock ${*:2}"
}
until_holds() {
    for _ in {1..120}; do [ "$(tr '\n' ' ' <"$scratch/shared/log")" != "$1 " ] || { echo "log: $1"; return; }; sleep 0.5; done 2>/dev/null
    fail "not $1, but $(cat "$scratch/shared/log")"
}
ends_with 0 --help >/dev/null
ends_with 64 run --nonsense
[ "$(docker run --rm "${strict[@]}" zklock run /lock/id -- id -u)" = 65532 ] || fail "it runs as root"
ends_with 3 run /lock/code -- sh -c 'exit 3'
ends_with 127 run /lock/code -- /app/nothing
docker run --detach --name "$id-1" --hostname one --env HOSTNAME=one --user 65532 "${strict[@]}" zklock-report >/dev/null
until_holds "one begins"
ends_with 75 run --timeout 0 /lock/report -- true
docker run --detach --name "$id-2" --hostname two --env HOSTNAME=two --user 65532 "${strict[@]}" zklock-report >/dev/null
timeout 60 sh -c "until docker logs $id-2 2>&1 | grep 'waiting for /lock/report, held by report'; do sleep 0.5; done" || fail "two does not wait"
# An orphan that docker exec leaves behind ends, and process 1 waits for it.
docker exec "$id-2" sh -c 'sleep 0.2 & echo "$!"' >"$scratch/orphan"
timeout 20 docker exec "$id-2" sh -c 'while [ -e "/proc/$0" ]; do sleep 0.1; done' "$(cat "$scratch/orphan")" || fail "a zombie stays"
docker stop --time 30 "$id-1" >/dev/null
until_holds "one begins one ends two begins"
[ "$(docker inspect --format '{{.State.ExitCode}}' "$id-1")" = 7 ] || fail "the command's exit code is lost"
docker kill --signal KILL "$id-2" >/dev/null
ends_with 0 run --timeout 60s /lock/report -- true
echo "container: all of this holds"
