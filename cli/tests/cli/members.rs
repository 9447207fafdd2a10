//! Each situation for every kind of thing that a command can hold.

use std::time::Duration;

use futures::future::join_all;
use rustix::process::Signal;
use tokio::process::Command;
use zklock::LostReason;
use zklock_test_support::{Server, eventually, make, operator, server, until_nothing_is_left};

use crate::support::witness::Witness;
use crate::support::{Running, SHORTLY, at, contend_as_kazoo, output, program_of, zklock};

/// Something that a command can hold, and how messages name it.
struct Member {
    /// The arguments of the command that others run, as `alpha`, to keep the contender out.
    others: &'static [&'static str],
    /// The arguments of the contender's command.
    arguments: &'static [&'static str],
    /// The lock in whose directory it queues.
    queue: &'static str,
    taken: &'static str,
    late: &'static str,
    waiting: &'static str,
    lost: &'static str,
}

const LOCK: Member = Member {
    others: &["run", "/lock"],
    arguments: &["run", "/lock"],
    queue: "/lock",
    taken: "/lock is not free, held by alpha, who came ",
    late: "/lock was not acquired within 6s, held by alpha, who came ",
    waiting: "waiting for /lock, held by alpha, who came ",
    lost: "/lock is lost",
};

const MEMBERS: [Member; 7] = [
    LOCK,
    Member { arguments: &["run", "--shared", "/lock"], ..LOCK },
    Member { arguments: &["run", "--once", "d1", "/lock"], ..LOCK },
    Member {
        others: &["run", "/lock/b"],
        arguments: &["run", "--lock", "/lock/a", "--lock", "/lock/b"],
        queue: "/lock/b",
        taken: "/lock/a and /lock/b are not all free; /lock/b, held by alpha, who came ",
        late: "/lock/a and /lock/b were not acquired within 6s; /lock/b, held by alpha, who came ",
        waiting: "waiting for /lock/b, held by alpha, who came ",
        lost: "/lock/a and /lock/b are lost",
    },
    Member {
        others: &["lead", "--value", "one", "/feed"],
        arguments: &["lead", "--value", "two", "/feed"],
        queue: "/feed/queue",
        taken: "/feed is not free, held by alpha, who came ",
        late: "/feed was not acquired within 6s, held by alpha, who came ",
        waiting: "waiting for /feed, held by alpha, who came ",
        lost: "/feed is lost",
    },
    Member {
        others: &["run", "--slot", "/workers/1"],
        arguments: &["run", "--slot", "/workers/1"],
        queue: "/workers/queue",
        taken: "a slot of /workers is not free, 1 of 1 held, by alpha, who came ",
        late: "a slot of /workers was not acquired within 6s, 1 of 1 held, by alpha, who came ",
        waiting: "waiting for a slot of /workers, 1 of 1 held, by alpha, who came ",
        lost: "slot 0 of /workers is lost",
    },
    Member {
        others: &["run", "--permits", "/convert/4:3"],
        arguments: &["run", "--permits", "/convert/4:2"],
        queue: "/convert/queue",
        taken: "2 permits of /convert are not free, 3 of 4 held, by alpha, who came ",
        late: "2 permits of /convert were not acquired within 6s, 3 of 4 held, by alpha, who came ",
        waiting: "waiting for 2 permits of /convert, 3 of 4 held, by alpha, who came ",
        lost: "2 permits of /convert are lost",
    },
];

/// Has every member in this situation, each in a place of its own. Nothing is left of any.
async fn each(situation: impl AsyncFn(&Member, &Server, &str)) {
    let one = async |member| {
        let (server, servers) = at(server().await);
        situation(member, &server, &servers).await;
        until_nothing_is_left(&server).await;
    };
    join_all(MEMBERS.iter().map(one)).await;
}

impl Member {
    fn contends(&self, servers: &str, options: &[&str], script: &str) -> Command {
        command(servers, self.arguments, options, script)
    }
}

fn command(servers: &str, arguments: &[&str], options: &[&str], script: &str) -> Command {
    program_of(servers, &[arguments, options, &["--", "sh", "-c", script]].concat())
}

#[tokio::test]
async fn it_is_waited_for_within_the_timeout_and_taken_once_it_is_free() {
    each(async |member, _, servers| {
        let mut witness = Witness::new();
        let others = command(servers, member.others, &["--owner", "alpha"], &witness.of("read go; exit 0"));
        let mut others = Running::start(others);
        witness.began().await;
        for (timeout, said) in [("0", member.taken), ("6s", member.late)] {
            let refused = output(member.contends(servers, &["-t", timeout], "echo in")).await;
            refused.is(75, "", said);
            assert_eq!(refused.stderr.contains(member.waiting), timeout != "0", "{refused:?}");
            match timeout {
                "0" => assert!(refused.took < SHORTLY, "it waited: {refused:?}"),
                _ => assert!(refused.took >= Duration::from_secs(6), "{refused:?}"),
            }
            let quiet = ["-q", "-t", timeout, "-E", "9"];
            output(member.contends(servers, &quiet, "echo in")).await.is_silent(9, "");
        }
        // It waits without an end, says so once, and leaves no node when a signal ends the wait.
        let mut waiter = Running::start(member.contends(servers, &[], "echo in"));
        let line = waiter.tells().await;
        assert!(line.starts_with(&format!("zklock: {}", member.waiting)), "{line}");
        waiter.signal(Signal::TERM);
        waiter.finished().await.is_silent(143, "");
        eventually("no waiter", async || zklock(servers, "ls --json").await.json()[0]["waiting"] == 0).await;

        others.ends_with(0).await;
        output(member.contends(servers, &["-q", "-t", "0"], "echo in")).await.is_silent(0, "in\n");
    })
    .await;
}

#[tokio::test]
async fn every_process_is_gone_once_it_is_lost_or_zklock_is_killed() {
    each(async |member, server, servers| {
        let mut witness = Witness::new();
        let stubborn = witness.of(r#"trap "" TERM; sleep 1000 & sleep 1000"#);
        let holder = Running::start(member.contends(servers, &[], &stubborn));
        witness.began().await;
        // An operator deletes the holder's node.
        let listed = zklock(servers, "ls --json").await.json();
        let node = listed[0]["holder"]["node"].as_str().unwrap();
        operator(server).await.delete(node, None).await.unwrap();
        let said = format!("{}: {}; zklock ends CMD", member.lost, LostReason::NodeDeleted);
        holder.finished().await.is(76, "", &said);
        witness.gone().await;

        let mut witness = Witness::new();
        // The run has begun, so it begins again only if that is asked for.
        let retry = if member.arguments.contains(&"--once") { &["--retry"][..] } else { &[] };
        let mut killed = Running::start(member.contends(servers, retry, &witness.of("sleep 1000")));
        witness.began().await;
        killed.signal(Signal::KILL);
        witness.gone().await;
        assert_eq!(killed.ended().await, None);
    })
    .await;
}

#[tokio::test]
async fn a_contender_of_another_client_keeps_it_out() {
    each(async |member, server, servers| {
        let stranger = operator(server).await;
        make(&stranger, member.queue).await;
        let node = contend_as_kazoo(&stranger, member.queue).await;
        for options in [&[][..], &["-q", "-t", "0"]] {
            output(member.contends(servers, options, "echo in")).await.is(75, "", &node);
        }
        stranger.delete(&node, None).await.unwrap();
        output(member.contends(servers, &[], "echo in")).await.is(0, "in\n", "");
    })
    .await;
}
