//! The command lines that are refused with 64, the code for wrong usage.

use crate::support::{NOBODY, are_refused, at, output, program_of, zklock};
use zklock_test_support::own_server;

/// They are refused before any server is asked. Each word is an argument, so two blanks in a row make an empty one. Behind the
/// command line stands what the program says of it.
const WITHOUT_SERVERS: &[(&str, &str)] = &[
    ("dance", "unrecognized subcommand"),
    ("status /lock", "zklock show PATH"),
    ("unlock /lock", "zklock release --force PATH"),
    ("run /lock", "required"),
    ("run /lock true", "if 'true' belongs to the command, write -- before it: PATH -- true"),
    ("run run /lock -- true", "there is one PATH"),
    ("lead --value a /feed serve", "write -- before it: PATH -- serve"),
    ("run --timeout soon /lock -- true", "--timeout"),
    ("run --timeout -1 /lock -- true", "'--timeout <DURATION>': it is negative"),
    ("run --tick 0 /lock -- true", "a server's tickTime is 1ms or more"),
    ("run --kill-after -1s /lock -- true", "'--kill-after <DURATION>': it is negative"),
    ("export --min-interval -5s", "'--min-interval <DURATION>': it is negative"),
    ("run --owner  /lock -- true", "a value is required for '--owner <TEXT>'"),
    ("ask --reason a --within 5s --owner  /lock", "a value is required for '--owner <TEXT>'"),
    ("run --on-lost weep /lock -- true", "--on-lost"),
    ("run --quiet --verbose /lock -- true", "cannot be used with"),
    ("run -E 256 /lock -- true", "write a number from 0 to 255"),
    ("run -E -1 /lock -- true", "write a number from 0 to 255"),
    ("run --servers , /lock -- true", "malformed"),
    ("run --session-timeout 1ms /lock -- true", "session timeout"),
    ("run --session-timeout 30d /lock -- true", "30d 0h is out of range; give one from 100ms to 24d 20h"),
    // Locks.
    ("run -- true", "required"),
    ("run --shared -- true", "required"),
    ("run --shared --lock /lock/b -- true", "cannot be used with"),
    ("run /lock/a --lock /lock/b -- true", "cannot be used with"),
    ("run /lock/a --shared-lock /lock/b -- true", "cannot be used with"),
    // Slots and permits.
    ("run --slot /workers -- true", "PATH/COUNT:PREFERRED"),
    ("run --permits /convert/8:9 -- true", "1 to 8"),
    ("run --permits /convert/8 --slot /workers/8 -- true", "cannot be used with"),
    ("run --permits /convert/8 /lock -- true", "cannot be used with"),
    ("run --slot /workers/8 /lock -- true", "cannot be used with"),
    ("run --slot /workers/8 --lock /lock -- true", "cannot be used with"),
    ("run --slot /workers/8 --shared -- true", "cannot be used with"),
    ("run --slot /workers/8 --once a -- true", "cannot be used with"),
    ("run --permits /convert/8 --every 1d -- true", "cannot be used with"),
    ("run --slot /workers/8 --slot /workers/9 -- true", "cannot be used multiple times"),
    // Layouts.
    ("run --layout kazoo /lock -- true", "--takeover-delay"),
    ("run --layout go --shared --takeover-delay 1s /lock -- true", "cannot be used with '--shared'"),
    ("run --layout curator-latch --takeover-delay 1s /lock -- true", "curator-latch"),
    ("lead --layout kazoo --takeover-delay 1s --value a /feed -- true", "unexpected argument '--layout'"),
    // Runs that happen once.
    ("run --once a --every 1d /lock -- true", "cannot be used with"),
    ("run --every 0 /lock -- true", "at least 1"),
    ("run --every 1500ms /lock -- true", "whole seconds"),
    ("run --every 1d --time-zone Europe/Nowhere /lock -- true", "Europe/Helsinki"),
    ("run --once a --time-zone local /lock -- true", "cannot be used with"),
    ("run --once a --keep 0 /lock -- true", "write a number from 1 to 1000"),
    ("run --once a --restart /lock -- true", "cannot be used with"),
    ("run --retry /lock -- true", "required"),
    ("run --keep 5 /lock -- true", "required"),
    // Elections.
    ("lead /feed -- true", "Usage: zklock lead [OPTIONS] --value <TEXT> <PATH> -- <CMD>..."),
    ("lead --value  /feed -- true", "a value is required for '--value <TEXT>'"),
    ("lead --value a --slot /workers/8 -- true", "unexpected argument '--slot'"),
    ("leader", "required"),
    // Looks.
    ("verify ", "sequencer"),
    ("verify 7", "sequencer"),
    ("verify 7:a:1:/lock/\u{202e}sredro", "it contains the character U+202E"),
    ("release --yes /lock", "--force"),
    ("release --force --slot x /lock", "write a number from 0 to 4294967295"),
    ("release --force --sequence last /lock", "write a number from -2147483648 to 2147483647"),
    ("ask --reason  --within 5s /lock", "a value is required for '--reason <TEXT>'"),
    ("resize /lock -5", "write a number from 1 to 4294967295"),
    ("resize /lock many", "write a number from 1 to 4294967295"),
    ("show --clock-drift many /lock", "'--clock-drift <PPM>': write a number from 0 to 999999"),
    ("run --clock-drift 9999999 /lock -- true", "'--clock-drift <PPM>': write a number from 0 to 999999"),
    ("export --listen 9744", "write HOST:PORT, such as 127.0.0.1:9744"),
    ("completions cmd.exe", "possible values"),
    // Connections.
    ("doctor --tls-cert cert --tls-key key", "--tls-ca"),
    ("doctor --tls-ca ca --tls-cert cert", "--tls-key"),
    ("doctor --servers tcp+tls://localhost:2281", "--tls-ca"),
    (
        "doctor --servers user:pw@localhost:2181",
        "\"…@localhost:2181\" is malformed (an address contains '@'; give credentials apart",
    ),
    ("show --servers localhost:2181/app/ /lock", "localhost:2181/app/"),
    ("doctor --servers localhost:2181/app/", "localhost:2181/app/"),
    (
        "show --servers tcp+tls://zk..example /lock",
        "a certificate cannot have the host name of zk..example:2181",
    ),
    ("doctor --sasl digest-md5", "--digest-file"),
    ("doctor --session-timeout soon", "--session-timeout"),
    ("show --session-timeout 1ms /lock", "session timeout"),
    ("doctor --tick -1s", "negative"),
];

/// A session says that they do not fit it, or that the path is none.
const IN_A_SESSION: &[(&str, &str)] = &[
    // 10 s, less a lag of 0.08 s, a margin of 0.9 s, two and a half heartbeats of 2.48 s, and 0.25 s to be killed in.
    ("run --kill-after 2.9s /lock -- true", "the longest --kill-after is 2.57s"),
    ("run --kill-after 5s /lock -- true", "--kill-after 5s is too long"),
    ("run --max-hold 1s --kill-after 1s /lock -- true", "--max-hold 1s is too short"),
    ("run --max-hold 1h --on-lost ignore-and-warn /lock -- true", "cannot be used with --max-hold"),
    ("run --session-timeout 400ms --tick 100ms /lock -- true", "--session-timeout"),
    ("run --clock-drift 900000 /lock -- true", "clock drift takes 9s (--clock-drift)"),
    ("run --acl creator /lock -- true", "--digest-file"),
    ("run no/slash -- true", "the lock path \"no/slash\""),
    ("run /lock/a\u{3000} -- true", "a blank, which nobody sees"),
    ("show /lock/\u{200b}a", "the character U+200B, which nobody sees"),
    ("run --lock /lock/a --lock /lock/a -- true", "name each lock once"),
    ("run --lock /lock/a --shared-lock /lock/a -- true", "name each lock once"),
    ("run --lock /lock/a/b --lock /lock/a -- true", "no lock in the directory of another"),
    ("run --lock lock --lock /lock/a -- true", "the lock path \"lock\""),
    ("run --slot /workers/10001 -- true", "10001 slots at /workers are too many"),
    ("run --once a/b /lock -- true", "a/b"),
    ("run --once lock-0000000001 /lock -- true", "lock-0000000001"),
    ("run --every 12h --time-zone local /lock -- true", "whole days"),
    ("run --once a --on-lost ignore-and-warn /lock -- true", "--on-lost"),
    ("leader no/slash", "no/slash"),
    ("show lock", "\"lock\""),
    ("show /zookeeper/quota", "/zookeeper"),
    ("ls lock", "\"lock\""),
    ("ls /zookeeper", "/zookeeper"),
    ("export --listen 127.0.0.1:0 lock", "\"lock\""),
    ("release --force --yes lock", "\"lock\""),
];

#[tokio::test]
async fn what_cannot_be_meant_is_refused_before_any_server_is_asked() {
    assert_eq!(zklock(NOBODY, &[]).await.code, 64);
    // What the environment gives is not required.
    let usage = "Usage: zklock release [OPTIONS] --force <PATH>\n";
    zklock(NOBODY, "release --force").await.is(64, "", usage);
    are_refused(NOBODY, WITHOUT_SERVERS).await;
    let mut program = program_of(NOBODY, "show /lock");
    program.env("ZKLOCK_TICK", "fast");
    output(program).await.is(64, "", "the value is that of the variable ZKLOCK_TICK");
}

#[tokio::test]
async fn what_does_not_fit_the_session_is_refused() {
    // Without a chroot, so that a path may be one of the servers' own.
    let (_server, servers) = at(own_server().await);
    are_refused(&servers, IN_A_SESSION).await;
    let long = "x".repeat(257);
    zklock(&servers, &["run", "--owner", &long, "/lock", "--", "true"]).await.is(64, "", "owner");
    let long = "x".repeat(zklock::Election::LONGEST_VALUE + 1);
    let value = zklock(&servers, &["lead", "--value", &long, "/feed", "--", "true"]).await;
    value.is(64, "", "--value has 16385 bytes");
}
