//! The events of each hold, in a log of JSON lines.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Steps, eventually, linked_session, operator, sessions, within};
use zklock::{LockOptions, LostReason};
use zklock_testcontainers::RequestKind;

use super::family::FAMILY;
use super::locks::{KEY, in_line, turn_of, turns};

const PATH: &str = "/lock/orders";

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// What is written to it from now on in this thread, with the filter and the format of the guide.
    fn begin() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let json = tracing_subscriber::fmt().json().with_writer(move || writer.clone());
        let subscriber = json.with_env_filter("info,zklock::hold=debug").finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The fields of each event of a hold.
    fn events(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["target"] == "zklock::hold").map(|line| line["fields"].clone()).collect()
    }

    /// What each event of a hold says, and why.
    fn words(&self) -> Vec<String> {
        let word = |fields: &Value| {
            let [word, reason] =
                ["message", "reason"].map(|field| fields[field].as_str().unwrap_or_default());
            format!("{word} {reason}").trim_end().to_owned()
        };
        self.events().iter().map(word).collect()
    }
}

#[tokio::test]
async fn each_hold_of_each_member_has_one_begin_and_one_end() {
    let (server, [session, other]) = sessions().await;
    let chroot = server.connect_string().split_once('/').map(|(_, chroot)| format!("/{chroot}"));
    for member in FAMILY {
        let path = format!("/told/{}", member.name);
        let options = LockOptions::new().name("orders").owner("web1");
        let handle = member.handle_with(&session, &path, options);
        let (log, _begun) = Log::begin();
        let held = within(member.name, handle.acquire()).await.unwrap();
        assert!(member.rival(&other, &path).try_acquire().await.unwrap().is_none(), "{}", member.name);
        let (token, paths) = (held.guard().token(), held.guard().paths().count());
        drop(held.another());
        assert_eq!(log.words(), vec!["granted"; paths], "{}", member.name);
        held.release().await.unwrap();
        let events = log.events();
        assert_eq!(log.words()[paths..], vec!["released"; paths], "{}", member.name);
        for (index, event) in events.iter().enumerate() {
            let path = if index % paths == 0 { path.clone() } else { format!("{path}-too") };
            let kind = if member.name == "writer" { "lock" } else { member.name };
            let mut expected = json!({"path": path, "member": kind, "name": "orders", "owner": "web1"});
            (expected["token"], expected["turn"]) = (json!(token.zxid()), json!(token.turn()));
            chroot.iter().for_each(|chroot| expected["chroot"] = json!(chroot));
            match kind {
                "semaphore" => expected["weight"] = json!(2),
                "slots" => expected["slot"] = json!(0),
                _ => {}
            }
            let time = if index < paths { "waited" } else { "held" };
            let mut event = event.clone();
            let (time, fields) = (event[time].take(), event.as_object_mut().unwrap());
            assert!((0.0..60.0).contains(&time.as_f64().unwrap()), "{}: {time}", member.name);
            fields.retain(|field, value| field != "message" && !value.is_null());
            assert_eq!(event, expected);
        }

        drop(within(member.name, handle.acquire()).await.unwrap());
        let again = [vec!["granted"; paths], vec!["released"; paths]].concat();
        assert_eq!(log.words()[2 * paths..], again, "{}: dropped", member.name);
    }
}

#[tokio::test]
async fn a_loss_is_told_once_with_its_reason_and_nobody_has_to_ask() {
    let (_server, [session]) = sessions().await;
    let (log, _begun) = Log::begin();
    let limited = LockOptions::new().max_hold(Duration::from_millis(300));
    let guard = session.lock(PATH).unwrap().with_options(limited).unwrap().acquire().await.unwrap();
    eventually("its limit", async || log.words() == ["granted", "lost max_hold"]).await;
    let held = log.events()[1]["held"].as_f64().unwrap();
    assert!((0.25..0.5).contains(&held), "it was over {held} s after the grant, whenever that was told");
    drop(guard);
    assert_eq!(log.words().len(), 2, "a loss ends a hold once");
}

/// The heartbeats of a session fail, for a while and then for good.
#[tokio::test]
async fn a_risk_is_told_once_until_it_is_over() {
    let (_server, link, session) = linked_session(Duration::from_secs(8)).await;
    let (log, _begun) = Log::begin();
    let guard = session.lock(PATH).unwrap().acquire().await.unwrap();
    let permit = session.semaphore("/permits", 3).unwrap().acquire_many(2).await.unwrap();
    let of = |path: &str| {
        let events = log.events().into_iter().filter(move |fields| fields["path"] == path);
        events.map(|fields| fields["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    link.black_hole();
    eventually("the risk", async || [PATH, "/permits"].iter().all(|path| of(path).len() == 2)).await;
    let left = log.events()[2]["remaining"].as_f64().unwrap();
    assert!(left > session.longest_stop_margin().as_secs_f64() && left < 8.0, "{left}");
    link.restore();
    within("safety", guard.safe()).await.unwrap();
    // One that succeeds is no risk.
    let beats = link.requests_of(RequestKind::Multi);
    eventually("two heartbeats", async || link.requests_of(RequestKind::Multi) > beats + 1).await;
    link.black_hole();
    let all = ["granted", "at risk", "at risk", "lost"];
    eventually("the loss", async || [PATH, "/permits"].iter().all(|path| of(path) == all)).await;
    let lost = log.events().into_iter().filter(|fields| fields["message"] == "lost");
    assert!(lost.into_iter().all(|fields| fields["reason"] == "unconfirmed"));
    drop((guard, permit));
    assert_eq!(log.words().len(), 8);
}

/// The thread of the runtime is busy until some time after the end, and nobody asks the guard.
#[tokio::test]
async fn a_loss_that_is_told_late_counts_from_the_end_of_the_lease() {
    const LATE: Duration = Duration::from_millis(500);
    let (_server, link, session) = linked_session(Duration::from_secs(4)).await;
    let (log, _begun) = Log::begin();
    let guard = session.lock(PATH).unwrap().acquire().await.unwrap();
    link.black_hole();
    let busy = Instant::now();
    std::thread::sleep(guard.remaining() + LATE);
    eventually("the loss", async || log.words().contains(&"lost unconfirmed".to_owned())).await;
    let held = log.events().last().unwrap()["held"].as_f64().unwrap();
    let late = busy.elapsed().as_secs_f64() - held;
    assert!(
        late > LATE.as_secs_f64() * 0.9,
        "it was over {held} s after the grant, and was told {late} s later"
    );
    drop(guard);
}

#[tokio::test]
async fn a_holder_who_lets_go_because_of_a_loss_that_is_near_has_that_reason() {
    let (_server, link, session) = linked_session(Duration::from_secs(4)).await;
    let options = LockOptions::new().stop_margin(Duration::from_millis(500));
    let (log, _begun) = Log::begin();
    let guard = session.lock(PATH).unwrap().with_options(options).unwrap().acquire().await.unwrap();
    link.black_hole();
    assert!(matches!(within("the margin", guard.lost()).await, LostReason::Ending { .. }));
    drop(guard);
    assert_eq!(log.words(), ["granted", "at risk", "released unconfirmed"]);
}

#[tokio::test]
async fn each_task_that_a_hold_is_passed_to_has_a_hold_of_its_own() {
    let (_server, _session, locks) = super::locks::locks(turns(1)).await;
    let (log, _begun) = Log::begin();
    let first = locks.acquire(KEY).await.unwrap();
    let (second, third) = (in_line(&locks), in_line(&locks));
    first.release().await.unwrap();
    assert_eq!(log.words(), ["granted", "released"]);
    turn_of(second).await.release().await.unwrap();
    drop(turn_of(third).await);
    assert_eq!(log.words(), ["granted", "released", "granted", "released", "granted", "released"]);
    let tokens =
        log.events().iter().map(|it| (it["token"].as_i64(), it["turn"].as_u64())).collect::<Vec<_>>();
    assert!(tokens.is_sorted(), "{tokens:?}");
    assert_eq!((tokens[0].0, tokens[2]), (tokens[1].0, (tokens[1].0, Some(1))), "it was passed on");
    assert!(tokens[4].0 > tokens[3].0, "it may be passed on once");
}

#[tokio::test]
async fn a_subscriber_may_use_what_is_held() {
    let (server, _session, locks) = super::locks::locks(turns(9)).await;
    let heard = Arc::<AtomicUsize>::default();
    let first = locks.acquire(KEY).await.unwrap();
    let guard = Arc::new(Mutex::new(first.another().into_any()));
    let second = in_line(&locks);
    first.release_all().await.unwrap();
    // It uses a guard that is over, and the line of a key, whenever it hears of an event.
    let nosy = {
        let (locks, guard, heard) = (locks.clone(), guard.clone(), heard.clone());
        move || {
            let guard = guard.lock().unwrap();
            assert!(!guard.is_held() && guard.remaining().is_zero());
            assert!(Steps::new(locks.acquire(KEY)).poll().is_pending());
            heard.fetch_add(1, Ordering::Relaxed);
            io::sink()
        }
    };
    let subscriber = tracing_subscriber::fmt().with_writer(nosy).with_env_filter("zklock::hold=debug");
    let _begun = tracing::subscriber::set_default(subscriber.finish());
    // These begin while somebody listens.
    let (third, last) = (in_line(&locks), in_line(&locks));
    turn_of(second).await.release().await.unwrap();
    turn_of(third).await.release().await.unwrap();
    let last = turn_of(last).await;
    *guard.lock().unwrap() = last.another().into_any();
    operator(&server).await.delete(&last.node(), None).await.unwrap();
    within("the loss", last.lost()).await;
    eventually("all events", async || heard.load(Ordering::Relaxed) == 4).await;
}
