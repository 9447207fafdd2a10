# Boots two machines with systemd, a and b, in containers, beside a ZooKeeper server. They have the units of contrib/systemd, and
# the built zklock. The container engine has to grant SYS_ADMIN. units.sh reads this file.
set -euo pipefail
cd "$(dirname "$0")/../.."

testcontainers/image/build.sh
testcontainers/image/debian.sh trixie
cargo build --quiet -p zklock-cli
zklock="$(realpath "${CARGO_TARGET_DIR:-target}/debug/zklock")"
# Within an hour, because a busy machine does not start a unit five times in systemd's 10 s.
docker build --quiet --tag zklock-systemd - >/dev/null <<'END'
FROM zklock-debian:trixie
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd && rm -rf /var/lib/apt/lists/*
# The units may write nowhere, and the program of this test writes to /shared.
RUN for unit in report feed; do mkdir -p /etc/systemd/system/$unit.service.d && printf '[Service]\nReadWritePaths=/shared\n' >/etc/systemd/system/$unit.service.d/shared.conf; done
RUN mkdir /etc/systemd/system.conf.d && printf '[Manager]\nDefaultStartLimitIntervalSec=1h\n' >/etc/systemd/system.conf.d/limit.conf
END

id="zklock-units-$$"
shared="$(mktemp -d)"
privileges=(--cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined --cgroupns private)
clean() {
    docker rm --force --volumes "$id"-{a,b,zk} >/dev/null 2>&1 || true
    docker network rm "$id" >/dev/null 2>&1 || true
    docker run --rm "${privileges[@]}" zklock-systemd sh -c "mount -t cgroup2 none /mnt && find /mnt/$id-* -depth -type d -delete" 2>/dev/null || true
    rm -rf "$shared"
}
trap clean EXIT

# The program of a user, which both units run.
cat >"$shared/program" <<'END'
#!/bin/sh
say() { echo "$(hostname) $*" >>/shared/log; }
[ ! -e /shared/fails ] || exit 1
trap 'say reloads' HUP
trap 'say ends; exit' TERM
say begins
while :; do sleep 1000 & wait $!; done
END
chmod +x "$shared/program"
: >"$shared/log"
chmod -R a+rwX "$shared"
# systemd gets a cgroup of its own, of version 2, which is below the host's if the engine has version 1.
boot='umount -R /sys/fs/cgroup; mount -t cgroup2 none /mnt; mkdir /mnt/$0; echo $$ >/mnt/$0/cgroup.procs; umount /mnt
    exec unshare --cgroup sh -c "mount -t cgroup2 none /sys/fs/cgroup; exec /lib/systemd/systemd"'
docker network create "$id" >/dev/null
docker run --detach --name "$id-zk" --network "$id" --network-alias zk1 --network-alias zk2 --network-alias zk3 zookeeper:3.9 >/dev/null
for host in a b; do
    docker run --detach --name "$id-$host" --hostname "$host" --network "$id" "${privileges[@]}" --tmpfs /run --env container=docker \
        --stop-signal SIGRTMIN+3 --volume "$shared:/shared" --volume "$zklock:/usr/local/bin/zklock:ro" \
        --volume "$PWD/contrib/systemd:/etc/systemd/system.attached:ro" --volume "$shared/program:/usr/local/bin/report:ro" \
        --volume "$shared/program:/usr/local/bin/feed:ro" zklock-systemd sh -c "$boot" "$id-$host" >/dev/null
done

on() { docker exec "$id-$1" "${@:2}"; }
fail() { echo "units: $*"; for host in a b; do on $host journalctl --no-pager --lines 15 || true; done; exit 1; }
# Waits until a unit on a machine is in this state, with a status that begins like this.
until_is() {
    local seen=
    for _ in {1..120}; do
        seen="$(on "$1" systemctl show --value -p ActiveState -p StatusText -p NRestarts "$2" | sort | tr '\n' '|')" || true
        [[ "|$seen" == *"|$3|"* && "|$seen" == *"|$4"* ]] && { echo "$1: $2 is $3: $4"; return; }
        sleep 0.5
    done
    fail "$1: $2 is not $3: $4, but $seen"
}
# The log since the last call, as words.
log_is() {
    for _ in {1..60}; do
        [ "$(tr '\n' ' ' <"$shared/log")" = "$1 " ] && { echo "log: $1"; : >"$shared/log"; return; }
        sleep 0.5
    done
    fail "the log is not $1, but $(cat "$shared/log")"
}

booted() { timeout 60 docker exec "$id-$1" sh -c 'until systemctl is-active multi-user.target 2>/dev/null; do sleep 0.2; done' >/dev/null; }
booted a
booted b
