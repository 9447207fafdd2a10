//! Flight records of real sessions, and what an audit says of them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join;
use tempfile::TempDir;
use zklock::ask::{Answer, Request};
use zklock::flight::Recorder;
use zklock::{Access, Layout, LockOptions, Session};
use zklock_audit::{Audit, Filter, Options, PathAudit, Records, Verdict, audit, replay};
use zklock_recipe::Stock;
use zklock_recipe::flight::{Line, Located};
use zklock_test_support::{Server, eventually, make, operator, patient, server, until_queued};
use zklock_testcontainers::{Link, RequestKind};

/// A session that is recorded, in at most so many bytes.
async fn recorded(server: &Server, directory: &Path, bound: u64) -> Session {
    let recorder = Recorder::options(directory).owner("test").bound(bound).open().unwrap();
    Session::builder(server.connect_string()).record(recorder).connect().await.unwrap()
}

fn read(directory: &Path) -> Records {
    Records::read(&[directory.to_owned()]).unwrap()
}

/// Whether a file in this directory has the text.
fn wrote(directory: &Path, text: &str) -> bool {
    let files = fs::read_dir(directory).unwrap().filter_map(Result::ok);
    files.filter_map(|file| fs::read_to_string(file.path()).ok()).any(|lines| lines.contains(text))
}

fn judged(directory: &Path) -> Audit {
    audit(&read(directory), &Options::default())
}

fn of<'a>(audit: &'a Audit, path: &str) -> &'a PathAudit {
    let found = audit.paths.iter().find(|it| it.path.ends_with(path));
    found.unwrap_or_else(|| panic!("nothing of {path}: {audit:?}"))
}

#[tokio::test]
async fn each_member_is_on_record_and_replays() {
    let (server, directory) = (server().await, TempDir::new().unwrap());
    let session = recorded(&server, &directory.path().join("one"), 1 << 20).await;
    let other = recorded(&server, &directory.path().join("two"), 1 << 20).await;

    // One waits behind another one, of another session.
    let (first, second) = (session.lock("/f/lock").unwrap(), other.lock("/f/lock").unwrap());
    let guard = first.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { second.acquire().await.unwrap() });
    let watched = async || wrote(&directory.path().join("two"), "PredecessorWatched");
    eventually("the second one watches the first one's node", watched).await;
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();

    let rw = [&session, &other].map(|session| session.rw_lock("/f/rw").unwrap());
    let (one, two) = join(rw[0].read(), rw[1].read()).await;
    let (one, two) = (one.unwrap(), two.unwrap());
    let writer = tokio::spawn({
        let rw = rw[1].clone();
        async move { rw.write().await.unwrap() }
    });
    until_queued(&session.lock("/f/rw").unwrap(), 3).await;
    one.release().await.unwrap();
    two.release().await.unwrap();
    writer.await.unwrap().release().await.unwrap();

    let both = session.lock_all([Access::exclusive("/f/a"), Access::shared("/f/b")]).unwrap();
    both.acquire().await.unwrap().release().await.unwrap();
    for session in [&session, &other] {
        let semaphore = session.semaphore("/f/permits", 3).unwrap();
        let (small, large) = (semaphore.acquire().await.unwrap(), semaphore.acquire_many(2).await.unwrap());
        small.release().await.unwrap();
        large.release().await.unwrap();
        let slots = session.slots("/f/slots", 2).unwrap();
        let (one, two) = (slots.acquire().await.unwrap(), slots.acquire().await.unwrap());
        one.release().await.unwrap();
        two.release().await.unwrap();
        session.election("/f/lead").unwrap().campaign("me").await.unwrap().resign().await.unwrap();
    }
    // Two tasks have one node after each other.
    let keys = Arc::new(session.locks("/f/keys").unwrap());
    let guard = keys.acquire("k").await.unwrap();
    let next = tokio::spawn({
        let keys = keys.clone();
        async move { keys.acquire("k").await.unwrap() }
    });
    tokio::task::yield_now().await;
    guard.release().await.unwrap();
    next.await.unwrap().release().await.unwrap();
    drop(keys);
    session.close().await.unwrap();
    other.close().await.unwrap();
    // The last handle of each session ends its record.
    drop((session, other, first, rw, both));
    eventually("both records are closed", async || judged(directory.path()).unseen.is_empty()).await;

    let records = read(directory.path());
    let replayed = replay(&records, &Filter::default(), |_| {});
    assert_eq!(replayed.diverged, 0);
    assert!(replayed.inputs > 50 && replayed.evidence > 20, "{replayed:?}");
    let audit = judged(directory.path());
    assert_eq!(audit.verdict, Verdict::Proven, "{audit:#?}");
    assert!(
        audit.processes.iter().all(|it| it.stamps > 5 && it.name.starts_with("test (")),
        "{:?}",
        audit.processes
    );
    let holds = |path| {
        of(&audit, path).holds.iter().map(|it| (it.kind.as_str(), it.ended.as_str())).collect::<Vec<_>>()
    };
    let exclusive = ("exclusive", "released");
    assert_eq!(holds("/f/lock"), [exclusive; 2]);
    assert_eq!(holds("/f/rw"), [("shared", "released"), ("shared", "released"), exclusive]);
    assert_eq!((holds("/f/a"), holds("/f/b")), (vec![exclusive], vec![("shared", "released")]));
    let permits = [("permit of 1", "released"), ("permit of 2", "released")];
    assert_eq!(holds("/f/permits"), [permits, permits].concat());
    assert_eq!(holds("/f/slots"), [[("slot 0", "released"), ("slot 1", "released")]; 2].concat());
    assert_eq!(holds("/f/lead"), [exclusive; 2]);
    let keyed = &of(&audit, "/f/keys/k").holds;
    assert_eq!((keyed.len(), keyed[0].turns), (1, 3), "two tasks, and the turn that was released: {keyed:?}");
    // The longest wait may be that of the first one, for the server.
    let waits = &of(&audit, "/f/lock").waits;
    let mut behind = waits.iter().filter_map(|wait| wait.behind.as_ref());
    assert!(behind.any(|it| it.starts_with("lock-0000000000 of test")), "{waits:?}");
}

#[tokio::test]
async fn a_small_record_forgets_the_past_and_knows_the_present() {
    let (server, directory) = (server().await, TempDir::new().unwrap());
    let session = recorded(&server, directory.path(), 64 << 10).await;
    let held = session.lock("/f/held").unwrap().acquire().await.unwrap();
    let lock = session.lock("/f/short").unwrap();
    let files = || fs::read_dir(directory.path()).unwrap().map(|it| it.unwrap()).collect::<Vec<_>>();
    eventually("files are deleted", async || {
        for _ in 0..20 {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
        read(directory.path()).processes[0].header.file > 2
    })
    .await;
    let bytes = files().iter().map(|it| it.metadata().unwrap().len()).sum::<u64>();
    assert!(bytes <= 64 << 10 && files().len() >= 6, "{bytes} bytes in {} files", files().len());

    let token = held.token().zxid();
    let seen = judged(directory.path());
    let hold = &of(&seen, "/f/held").holds;
    assert!(hold.len() == 1 && hold[0].token == token && hold[0].ended.starts_with("its record"), "{hold:?}");
    held.release().await.unwrap();
    session.close().await.unwrap();
    let seen = judged(directory.path());
    assert_eq!(of(&seen, "/f/held").holds[0].ended, "released");
    assert_eq!(seen.verdict, Verdict::Unproven);
    assert!(seen.unseen.iter().any(|it| it.starts_with("the first files of test")), "{:?}", seen.unseen);
}

/// A directory that is gone is as a full disk: no other file can be begun.
#[tokio::test]
async fn a_record_that_cannot_be_written_says_so() {
    let (server, parent) = (server().await, TempDir::new().unwrap());
    let (directory, away) = (parent.path().join("here"), parent.path().join("away"));
    let session = recorded(&server, &directory, 64 << 10).await;
    let lock = session.lock("/f/full").unwrap();
    let held = session.lock("/f/held").unwrap().acquire().await.unwrap();
    fs::rename(&directory, &away).unwrap();
    eventually("a line cannot be written", async || {
        lock.acquire().await.unwrap().release().await.unwrap();
        read(&away).unread.iter().any(|it| it.why.contains("could not be written"))
    })
    .await;
    let seen = judged(&away);
    // It may be valid for ever, as far as this shows.
    assert_eq!((seen.verdict, of(&seen, "/f/held").holds[0].held_ms), (Verdict::Unproven, None));

    fs::rename(&away, &directory).unwrap();
    eventually("another file begins", async || {
        lock.acquire().await.unwrap().release().await.unwrap();
        fs::read_dir(&directory).unwrap().count() > 1
    })
    .await;
    held.release().await.unwrap();
    session.close().await.unwrap();
    let seen = judged(&directory);
    assert!(seen.unseen.iter().any(|it| it.starts_with("lines of test")), "{:?}", seen.unseen);
    assert_eq!(seen.verdict, Verdict::Unproven, "{seen:#?}");
    let held = &of(&seen, "/f/held").holds;
    assert!(held.len() == 1 && held[0].held_ms.is_some(), "known again: {held:?}");
}

/// The lines of all files in this directory.
fn lines(directory: &Path) -> Vec<Line> {
    let files =
        fs::read_dir(directory).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let lines = files.flat_map(|text| {
        text.lines().map(|line| serde_json::from_str::<Line>(line).unwrap()).collect::<Vec<_>>()
    });
    lines.collect()
}

/// The directories on record in these files.
fn located(directory: &Path) -> Vec<Located> {
    let located = lines(directory).into_iter().flat_map(|line| match line {
        Line::Located(_, located, _) => vec![located],
        Line::Begun(begun) => begun.located,
        _ => Vec::new(),
    });
    located.collect()
}

#[tokio::test]
async fn the_directory_of_each_node_is_on_record() {
    let (server, records) = (server().await, TempDir::new().unwrap());
    let link = Link::start(server.address()).await.unwrap();
    let recorder = Recorder::options(records.path()).open().unwrap();
    let session = patient(server.at(link.address()), Duration::from_secs(20)).record(recorder);
    let session = session.connect().await.unwrap();
    let operator = operator(&server).await;
    let czxid = async |path: &str| operator.check_stat(path).await.unwrap().unwrap().czxid;
    let is_known = async |index: usize, node: &str| {
        let (node, directory) = (czxid(node).await, czxid(node.rsplit_once('/').unwrap().0).await);
        let mine = located(records.path()).into_iter().filter(|it| (it.index, it.own.czxid) == (index, node));
        let mine = mine.map(|it| it.directory).collect::<Vec<_>>();
        assert!(
            !mine.is_empty() && mine.iter().all(|it| *it == directory),
            "{mine:?}, and it is {directory}"
        );
        directory
    };

    let lock = session.lock("/d/lock").unwrap();
    let mut directories = Vec::new();
    for is_removed in [false, true, false] {
        let guard = lock.acquire().await.unwrap();
        directories.push(is_known(0, &guard.node()).await);
        guard.release().await.unwrap();
        if is_removed {
            operator.delete("/d/lock", None).await.unwrap();
        }
    }
    assert!(directories[0] == directories[1] && directories[1] < directories[2], "{directories:?}");

    let lost = link.lose_reply(RequestKind::Multi);
    let guard = lock.acquire().await.unwrap();
    assert!(lost.has_happened());
    is_known(0, &guard.node()).await;
    guard.release().await.unwrap();

    // zklock writes nothing to a directory that has data.
    make(&operator, "/d/data").await;
    operator.set_data("/d/data", b"theirs", None).await.unwrap();
    let guard = session.lock("/d/data").unwrap().acquire().await.unwrap();
    is_known(0, &guard.node()).await;
    guard.release().await.unwrap();
    let all = session.lock_all([Access::exclusive("/d/lock"), Access::exclusive("/d/data")]).unwrap();
    let guard = all.acquire().await.unwrap();
    for (index, path) in ["/d/lock", "/d/data"].into_iter().enumerate() {
        let children = operator.list_children(path).await.unwrap();
        is_known(index, &format!("{path}/{}", children[0])).await;
    }
    guard.release().await.unwrap();

    let theirs = LockOptions::new().layout(Layout::Kazoo).takeover_delay(Duration::from_millis(100));
    let shared = session.lock("/d/kazoo").unwrap().with_options(theirs);
    let guard = shared.unwrap().acquire().await.unwrap();
    is_known(0, &guard.node()).await;
    guard.release().await.unwrap();

    let permit = session.semaphore("/d/permits", 3).unwrap().acquire().await.unwrap();
    is_known(0, &permit.node()).await;
    permit.release().await.unwrap();
}

#[tokio::test]
async fn asks_and_locks_below_take_numbers_and_hide_nobody() {
    let (server, records) = (server().await, TempDir::new().unwrap());
    let [ours, theirs] = ["ours", "theirs"].map(|name| records.path().join(name));
    let session = recorded(&server, &ours, 1 << 20).await;
    let asker = recorded(&server, &theirs, 1 << 20).await;
    let lock = session.lock("/n/lock").unwrap();

    let guard = lock.acquire().await.unwrap();
    let request = Request::new("a new version", Duration::from_secs(60));
    let asking = asker.ask("/n/lock", request).await.unwrap().expect("somebody holds it");
    assert_eq!(guard.asked().await.expect("it is held").why, "a new version");
    guard.release().await.unwrap();
    assert_eq!(asking.answer().await.unwrap(), Answer::LetGo);
    session.lock("/n/lock/below").unwrap().acquire().await.unwrap().release().await.unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();

    // An operator's node takes one as well, and that is on no record.
    make(&operator(&server).await, "/n/lock/note").await;
    lock.acquire().await.unwrap().release().await.unwrap();
    session.close().await.unwrap();
    asker.close().await.unwrap();
    drop((lock, session, asker));

    let judged = |directories: &[&Path]| {
        let paths = directories.iter().map(|it| it.to_path_buf()).collect::<Vec<_>>();
        let audit = audit(&Records::read(&paths).unwrap(), &Options::default());
        of(&audit, "/n/lock").unknown.clone()
    };
    let note = "contender number 4 has no record";
    assert_eq!(judged(&[&ours]), [note], "the holder heard of the ask");
    assert_eq!(judged(&[&ours, &theirs]), [note], "the asker knows the same ask");
}

/// The answer to a change of the capacity is lost, and no other one comes in time. Then the pool says what it has.
#[tokio::test]
async fn a_permit_is_recorded_with_the_capacity_by_which_it_was_admitted() {
    let (server, records) = (server().await, TempDir::new().unwrap());
    let link = Link::start(server.address()).await.unwrap();
    let recorder = Recorder::options(records.path()).open().unwrap();
    let session = patient(server.at(link.address()), Duration::from_secs(4)).record(recorder);
    let session = session.connect().await.unwrap();
    let semaphore = session.semaphore("/c", 2).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();

    let lost = link.lose_reply(RequestKind::SetData);
    link.refuse();
    semaphore.set_capacity(4).await.unwrap_err();
    assert!(lost.has_happened());
    link.accept();
    let permit = semaphore.acquire_many(3).await.unwrap();
    permit.release().await.unwrap();
    let stocks = lines(records.path()).into_iter().filter_map(|line| match line {
        Line::Begun(begun) => begun.queues[0].stock,
        _ => None,
    });
    assert_eq!(stocks.collect::<Vec<_>>(), [Stock::Permits(2), Stock::Permits(4)]);
    assert_eq!(of(&judged(records.path()), "/c").overlap_count, 0);
}
