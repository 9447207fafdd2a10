#!/usr/bin/env bash
# Runs the units of contrib/systemd, as they are, on two machines that have booted systemd, and prints what it has seen.
. "$(dirname "$0")/machines.sh"

echo "== start returns once the lock is held, and a second machine stands by"
on a systemctl start report
until_is a report active "holds /lock/report, token "
on a systemctl status report | grep 'Status: "holds /lock/report' || fail "no status"
on b systemctl start report & starting=$!
until_is b report activating "waiting for /lock/report"
kill -0 $starting || fail "start has returned to a machine that stands by"

echo "== a reload reaches the command, and does not end the wait of a standby"
on a systemctl reload report
log_is "a begins a reloads"
on b systemctl reload --no-block report

echo "== a stop hands over"
on a systemctl stop report
[ "$(on a systemctl show --value -p ActiveState -p Result report | sort | tr '\n' ' ')" = "inactive success " ] || fail "a stop fails"
wait $starting || fail "start fails on the next machine"
log_is "a ends b begins"

echo "== a loss ends the command, and systemd starts it again"
on a systemctl start --no-block report
until_is a report activating "waiting for /lock/report"
on b zklock release --servers zk1 --force --yes /lock/report 2>/dev/null
until_is a report active "holds /lock/report, token "
until_is b report activating "waiting for /lock/report"
log_is "b ends a begins"
[ "$(on b systemctl show --value -p NRestarts report)" = 1 ] || fail "b was not started again once"

echo "== a zklock that is stopped is killed by the watchdog, and the next machine is granted"
on a systemctl kill --signal STOP --kill-whom main report
until_is b report active "holds /lock/report, token "
log_is "b begins"
until_is a report activating "waiting for /lock/report"

echo "== a machine that is shut down hands over before its session expires"
off=$(date +%s)
docker stop --time 60 "$id-b" >/dev/null
until_is a report active "holds /lock/report, token "
log_is "b ends a begins"
[ $(($(date +%s) - off)) -lt 9 ] || fail "it took as long as a session lives"
on a systemctl stop report
log_is "a ends"
docker start "$id-b" >/dev/null
booted b

echo "== candidates are active, whether they lead or not"
on a systemctl start feed
until_is a feed active "holds /feed, token "
on b systemctl start feed
until_is b feed active "waiting for /feed"
[ "$(on b zklock leader --servers zk1 /feed)" = a:8080 ] || fail "a does not lead"
on a systemctl stop feed
until_is b feed active "holds /feed, token "
log_is "a begins a ends b begins"

echo "== a command that fails at once is started again and again"
touch "$shared/fails"
on b systemctl kill --signal KILL feed
for ((tries = 0; $(on b systemctl show --value -p NRestarts feed) < 6; tries++)); do
    [ $tries -lt 120 ] || fail "systemd has given up"
    sleep 0.5
done
rm "$shared/fails"
until_is b feed active "holds /feed, token "
echo "units: all of this holds with $(on a systemctl --version | head -n 1)"
