use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use tempfile::TempDir;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use zklock_recipe::acquisition::Input;
use zklock_recipe::flight::{Begun, Header, Heard, Located, Outcome};
use zklock_recipe::{Arrival, Lease, Moment, Patience, Place, Reckoning, SessionEnd, Sight};

use super::*;
use crate::clock;
use crate::zk::{Sent, SharedLease};

fn opened(directory: &Path) -> Recorder {
    Recorder::options(directory).bound(0).open().unwrap()
}

fn lease() -> Lease {
    let reckoning = Reckoning { tick: Duration::from_millis(100), drift_ppm: 0 };
    Lease::established(reckoning, Duration::from_secs(10), clock::now()).unwrap()
}

/// A shared lease that this recorder records.
fn recorded(recorder: &Recorder) -> SharedLease {
    let lease = lease();
    let diary = Diary::begin(recorder, 1, "zk1:2181".to_owned(), "", &lease);
    SharedLease::new(lease, clock::now(), Some(diary))
}

fn begun() -> Begun {
    let (patience, arrival, at) = (Patience::Wait, Arrival::New, clock::now());
    let (queues, admitted, located) = <_>::default();
    Begun { acquisition: 0, session: 0, queues, patience, arrival, admitted, located, at }
}

/// The stat of a queue's directory.
fn directory_stat(czxid: i64, pzxid: i64) -> zookeeper_client::Stat {
    let (mzxid, ctime, mtime, ephemeral_owner) = <_>::default();
    let (version, cversion, aversion, data_length, num_children) = <_>::default();
    zookeeper_client::Stat {
        czxid,
        mzxid,
        pzxid,
        ctime,
        mtime,
        version,
        cversion,
        aversion,
        ephemeral_owner,
        data_length,
        num_children,
    }
}

/// The records in this directory, in their order.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = fs::read_dir(directory).unwrap().map(|it| it.unwrap().path()).collect::<Vec<_>>();
    files.sort();
    files
}

fn lines(file: &Path) -> Vec<Line> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Writes until another file begins, and returns the lines of that one.
fn rotated(diary: &Diary, directory: &Path) -> Vec<Line> {
    let before = files(directory).len();
    while files(directory).len() == before {
        diary.touched(77);
    }
    lines(&files(directory)[before])
}

#[test]
fn a_file_says_how_it_ends_and_begins_with_all_that_is_open() {
    let directory = TempDir::new().unwrap();
    let recorder = opened(directory.path());
    let shared = recorded(&recorder);
    let diary = shared.diary.clone().unwrap();
    let acquisition = diary.begun(begun());
    let own = zklock_recipe::Own { place: Place::exclusive(7), czxid: 5 };
    let stamps = Stamps::before(Some(&diary), Some(acquisition));
    // One was made later, and one may have been gone before. The last one is seen twice.
    for (czxid, pzxid) in [(6, 9), (5, 5), (3, 4), (3, 5), (3, 6)] {
        stamps.take_directory(0, own, &directory_stat(czxid, pzxid));
    }
    let located = [Located { index: 0, own, directory: 3 }];
    let is_open = |begun: &Begun| begun.acquisition == acquisition && begun.located == located;

    let second = rotated(&diary, directory.path());
    assert!(matches!(&second[2], Line::Begun(begun) if is_open(begun)), "{second:?}");
    let first = lines(&files(directory.path())[0]);
    assert!(matches!(first.last(), Some(Line::Continues(1, _))), "{first:?}");
    let (present, term) =
        (shared.present(Duration::ZERO), lease().present(Duration::ZERO, clock::now()).term);
    let outcome = Some(Outcome::Granted(vec![], term.unwrap(), None));
    diary.heard(Heard { acquisition, input: Input::Settled, present, outcome, at: clock::now() });
    let third = rotated(&diary, directory.path());
    assert!(matches!(&third[2], Line::Held(held) if is_open(&held.begun)), "{third:?}");
    assert!(!third.iter().any(|line| matches!(line, Line::Begun(_))), "{third:?}");

    let ends = |line: &Line| matches!(line, Line::Continues(..) | Line::Closed(_));
    drop((recorder, diary, stamps));
    assert!(!lines(&files(directory.path())[2]).iter().any(ends), "the lease has a handle");
    shared.ended(SessionEnd::Closed);
    drop(shared);
    let third = lines(&files(directory.path())[2]);
    assert!(matches!(third.last(), Some(Line::Closed(_))), "{third:?}");
    for file in files(directory.path()) {
        assert!(fs::metadata(&file).unwrap().len() <= LEAST_BOUND / 8);
        assert_eq!(lines(&file).iter().filter(|line| ends(line)).count(), 1, "{file:?}");
    }
}

/// What is in the file is what a process leaves that is killed now.
#[test]
fn a_line_on_which_somebody_relies_is_in_the_file_with_those_before_it() {
    let directory = TempDir::new().unwrap();
    let recorder = Recorder::options(directory.path()).open().unwrap();
    let shared = recorded(&recorder);
    let diary = shared.diary.clone().unwrap();
    let file = files(directory.path()).remove(0);
    let mut written = 0;
    let mut new = || {
        let lines = lines(&file).split_off(written);
        written += lines.len();
        lines
            .iter()
            .map(|line| format!("{line:?}").split(['(', ' ']).next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(new(), ["Header", "Session"]);
    let confirmed = || shared.confirmed(Sent { connection: 0, at: clock::now() });
    let heard = |acquisition, input, outcome| {
        let present = shared.present(Duration::ZERO);
        diary.heard(Heard { acquisition, input, present, outcome, at: clock::now() });
    };
    let granted = || Some(Outcome::Granted(vec![], shared.present(Duration::ZERO).term.unwrap(), None));
    let stamp = || Stamps::before(Some(&diary), None).take(1, 1);

    let acquisition = diary.begun(begun());
    confirmed();
    stamp();
    let own = zklock_recipe::Own { place: Place::exclusive(7), czxid: 5 };
    Stamps::before(Some(&diary), Some(acquisition)).take_directory(0, own, &directory_stat(3, 5));
    assert_eq!(new(), [""; 0], "nobody relies on them");
    heard(acquisition, Input::Reply(zklock_recipe::Input::Entered(vec![(own, Sight::Count(2))]), 0), None);
    assert_eq!(new(), ["Begun", "Lease", "Stamp", "Located", "Heard"], "the contender's number");
    let listed = zklock_recipe::Event::Listed(vec![]);
    heard(acquisition, Input::Reply(zklock_recipe::Input::One(0, listed), 0), None);
    assert_eq!(new(), ["Heard"], "others whom it has seen");
    heard(acquisition, Input::LeaseConfirmed, None);
    confirmed();
    assert_eq!(new(), [""; 0]);
    heard(acquisition, Input::LeaseConfirmed, granted());
    assert_eq!(new(), ["Heard", "Lease", "Heard"], "the grant");
    stamp();
    confirmed();
    assert_eq!(new(), ["Stamp", "Lease"], "the lease of a guard grows");
    let touched = || heard(acquisition, Input::Watch(0, zklock_recipe::Event::OwnTouched), None);
    let fates: [(&str, &dyn Fn()); 4] = [
        ("Turn", &|| diary.turn(acquisition, 1)),
        ("Saw", &|| diary.saw(acquisition, 1)),
        ("Touched", &|| diary.touched(acquisition)),
        ("Heard", &touched),
    ];
    for (line, write) in fates {
        write();
        assert_eq!(new(), [line], "the guard's fate");
    }
    confirmed();
    assert_eq!(new(), ["Lease"]);
    diary.over(acquisition, String::new(), clock::now(), true);
    assert_eq!(new(), ["Over"]);
    Stamps::before_release(Some(&diary), Some(acquisition)).take(1, 1);
    assert_eq!(new(), ["Stamp"], "the end of the hold");
    confirmed();
    heard(acquisition, Input::Release, None);
    assert_eq!(new(), [""; 0], "nobody holds");
    shared.synced(Sent { connection: 0, at: clock::now() });
    assert_eq!(new(), ["Lease", "Heard", "Lease"], "a heartbeat has none wait for long");
    diary.begun(Begun { admitted: Some((own, None)), ..begun() });
    assert_eq!(new(), ["Begun"], "a permit's number");

    while new().is_empty() {
        stamp();
    }
    stamp();
    shared.ended(SessionEnd::Closed);
    diary.begun(begun());
    drop((recorder, diary, shared));
    let last = new();
    assert_eq!(last[last.len() - 4..], ["Stamp", "Lease", "Begun", "Closed"]);
}

#[test]
fn a_full_file_has_what_was_held_back() {
    let directory = TempDir::new().unwrap();
    let recorder = opened(directory.path());
    let diary = recorded(&recorder).diary.clone().unwrap();
    let mut stamps = 0;
    while files(directory.path()).len() < 3 {
        Stamps::before(Some(&diary), None).take(stamps, 1);
        stamps += 1;
    }
    drop((recorder, diary));
    let lines = files(directory.path()).iter().flat_map(|file| lines(file)).collect::<Vec<_>>();
    let times =
        lines.iter().filter_map(|line| if let Line::Stamp(stamp) = line { Some(stamp.time) } else { None });
    assert!(times.eq(0..stamps), "{stamps} stamps, and {lines:?}");
}

#[test]
fn a_session_that_may_live_leaves_an_open_end() {
    let directory = TempDir::new().unwrap();
    drop(recorded(&opened(directory.path())));
    let lines = lines(&files(directory.path())[0]);
    assert!(matches!(lines.last(), Some(Line::Session(_))), "{lines:?}");
}

#[test]
fn a_file_that_cannot_be_begun_leaves_an_open_end_and_nothing_in_the_way() {
    let directory = TempDir::new().unwrap();
    let recorder = opened(directory.path());
    let shared = recorded(&recorder);
    let diary = shared.diary.clone().unwrap();
    let first = files(directory.path()).remove(0);
    let next = PathBuf::from(first.to_str().unwrap().replace("000000.jsonl", "000001.jsonl"));
    fs::create_dir(&next).unwrap();
    let is_failed = || fs::read_to_string(&first).unwrap().contains(r#""failed":1"#);
    while !is_failed() {
        diary.touched(77);
    }
    let last = lines(&first).pop();
    assert!(matches!(last, Some(Line::Touched(..))), "{last:?}");
    assert_eq!(files(directory.path()), [first, next.clone()]);

    fs::remove_dir(&next).unwrap();
    let begin = Instant::now();
    while !next.exists() {
        assert!(begin.elapsed() < Duration::from_secs(10), "no file is begun again");
        diary.touched(77);
    }
    assert!(matches!(&lines(&next)[0], Line::Header(header) if header.gap.is_some()));
}

#[test]
fn a_forked_process_writes_nothing() {
    let directory = TempDir::new().unwrap();
    let mut recorder = opened(directory.path());
    Arc::get_mut(&mut recorder.0).unwrap().pid += 1;
    let before = fs::read(&files(directory.path())[0]).unwrap();
    let shared = recorded(&recorder);
    shared.ended(SessionEnd::Closed);
    drop(shared);
    drop(recorder);
    assert_eq!(fs::read(&files(directory.path())[0]).unwrap(), before);
}

#[test]
fn others_cannot_read_it() {
    let parent = TempDir::new().unwrap();
    let directory = parent.path().join("records");
    let _recorder = opened(&directory);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&files(&directory)[0])), (0o700, 0o600));
}

#[test]
fn only_records_are_deleted() {
    let directory = TempDir::new().unwrap();
    let place = |name: &str, age: u64| {
        let path = directory.path().join(name);
        let file = File::create(&path).unwrap();
        file.set_len(LEAST_BOUND).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        path
    };
    let stays = [
        place("zklock-notes.jsonl", 9000),
        place("zklock-web-1-0123456789-000001.jsonl", 9000),
        place("zklock-web-1-01234567-000001.jsonl.gz", 9000),
        place("zklock-web-1-01234567-000004.jsonl.tmp", 1),
    ];
    let goes = [
        place("zklock-web-1-01234567-000001.jsonl", 9000),
        place("zklock-web-1-01234567-000002.jsonl.tmp", 9000),
        place("zklock-web-1-01234567-000003.jsonl", 1),
    ];
    File::create(&goes[2]).unwrap();
    let _recorder = opened(directory.path());
    assert!(stays.iter().all(|path| path.exists()), "{:?}", files(directory.path()));
    assert!(!goes.iter().any(|path| path.exists()), "{:?}", files(directory.path()));
}

fn header(file: &Path) -> Header {
    let Line::Header(header) = lines(file).remove(0) else { panic!("{file:?} has no header") };
    header
}

#[test]
fn each_file_says_until_when_others_lines_were_deleted() {
    let directory = TempDir::new().unwrap();
    let _lives = recorded(&opened(directory.path()));
    let living = files(directory.path()).remove(0);
    drop(recorded(&opened(directory.path())));
    let killed = files(directory.path()).into_iter().find(|file| *file != living).unwrap();
    let last = lines(&killed).last().unwrap().at();
    let recorder = opened(directory.path());
    let diary = recorded(&recorder).diary.clone().unwrap();
    let own = || {
        let own = files(directory.path()).into_iter().filter(|file| ![&living, &killed].contains(&file));
        own.collect::<Vec<_>>()
    };
    let mut deleted = None;
    for file in 1..20 {
        while header(own().last().unwrap()).file < file {
            diary.touched(77);
        }
        deleted = deleted.or((!killed.exists()).then_some(last));
        assert_eq!(header(own().last().unwrap()).deleted, deleted, "file {file}");
    }
    assert!(deleted.is_some() && living.exists(), "{:?}", files(directory.path()));
    assert!(own().len() < 10, "its own files count as well");
}

#[test]
fn short_records_of_others_are_deleted_bit_by_bit_and_the_bound_holds() {
    const LENGTH: u64 = 1_000;
    let (bound, directory) = (8 << 20, TempDir::new().unwrap());
    let old = (0..9_000).map(|number| {
        let path = directory.path().join(format!("zklock-web-1-01234567-{number:06}.jsonl"));
        File::create(&path).unwrap().set_len(LENGTH).unwrap();
        path
    });
    let old = old.collect::<Vec<_>>();
    let left = || old.iter().filter(|path| path.exists()).count() as u64;
    let recorder = Recorder::options(directory.path()).bound(bound).open().unwrap();
    let diary = recorded(&recorder).diary.clone().unwrap();
    assert_eq!(left(), 8_500);
    for _ in 0..25_000 {
        diary.touched(77);
    }
    let size = files(directory.path()).iter().map(|file| fs::metadata(file).unwrap().len()).sum::<u64>();
    assert!(left() <= 7_500 && size <= 9_000 * LENGTH, "{size} bytes, {} of the old files", left());
}

/// The last instant of a file of so many bytes, and until when lines were deleted by the header of the process that deletes that file.
fn deleted(length: u64, change: impl FnOnce(&mut Header)) -> (Moment, Moment) {
    let directory = TempDir::new().unwrap();
    drop(opened(directory.path()));
    let file = files(directory.path()).remove(0);
    let mut written = lines(&file);
    let last = written.last().unwrap().at();
    if let Line::Header(header) = &mut written[0] {
        change(header);
    }
    let text = written.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect::<String>();
    fs::write(&file, text).unwrap();
    File::options().write(true).open(&file).unwrap().set_len(length).unwrap();
    let _next = opened(directory.path());
    assert!(!file.exists());
    (last, header(&files(directory.path())[0]).deleted.unwrap())
}

#[test]
fn a_file_that_is_deleted_says_until_when_lines_are_lost() {
    let (last, until) = deleted(LEAST_BOUND, |_| {});
    assert_eq!(until, last);
    let later = clock::now().plus(Duration::from_secs(9));
    let (_, until) = deleted(LEAST_BOUND, |header| header.deleted = Some(later));
    assert_eq!(until, later, "it had deleted others itself");
    let (_, until) = deleted(LEAST_BOUND, |header| header.boot = "earlier".to_owned());
    assert_eq!(until, Moment::default());
    let is_now = |(last, until): (Moment, Moment)| until.least_since(last) > Duration::ZERO;
    assert!(is_now(deleted(LEAST_BOUND, |header| header.failed = 1)), "it lacks lines at its end");
    assert!(
        is_now(deleted(LEAST_BOUND, |header| header.boot = "unknown-1".to_owned())),
        "it may be of this boot"
    );
    let other = |header: &mut Header| {
        header.boot = "other".to_owned();
        header.host = "other".to_owned();
    };
    assert!(is_now(deleted(LEAST_BOUND, other)), "another machine's clocks say nothing here");
    assert!(is_now(deleted(LEAST_BOUND, |header| header.format += 1)));
    assert!(is_now(deleted(LEAST_BOUND * 3, |_| {})), "its last lines cannot be read");
}

#[test]
fn a_file_is_deleted_once_the_next_one_names_it() {
    let directory = TempDir::new().unwrap();
    let old = [directory.path().join("old")];
    fs::write(&old[0], "text").unwrap();
    let text = || fs::read_to_string(&old[0]).ok();
    let fails = |kind: io::ErrorKind, texts: &[&str]| {
        let mut tried = texts.iter();
        let result = writer::replace(&old, || {
            assert_eq!(text().as_deref(), tried.next().copied());
            io::Result::<()>::Err(kind.into())
        });
        assert!(result.is_err() && tried.next().is_none());
    };
    fails(io::ErrorKind::Other, &["text"]);
    assert_eq!(text().as_deref(), Some("text"));
    fails(io::ErrorKind::StorageFull, &["text", ""]);
    assert_eq!(text().as_deref(), Some(""), "no record, and nothing is proven with it");
    assert!(writer::replace(&old, || io::Result::Ok(text().is_some())).unwrap());
    assert_eq!(text(), None);
}

#[test]
fn a_gap_begins_with_what_was_held_back() {
    let directory = TempDir::new().unwrap();
    let recorder = opened(directory.path());
    let diary = recorded(&recorder).diary.clone().unwrap();
    recorder.0.writer.lock().file = File::open(&files(directory.path())[0]).unwrap();
    Stamps::before(Some(&diary), None).take(1, 1);
    let held_back = clock::now();
    let begin = Instant::now();
    while files(directory.path()).len() < 2 {
        assert!(begin.elapsed() < Duration::from_secs(10), "no file is begun again");
        diary.touched(77);
    }
    let (_, since) = header(&files(directory.path())[1]).gap.unwrap();
    assert!(since.least_since(held_back).is_zero(), "{since:?} {held_back:?}");
}

/// Uses the session when it hears of an event.
struct Nosy(Recorder, Arc<SharedLease>, mpsc::Sender<bool>);

impl Subscriber for Nosy {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        let _lines = self.0.0.writer.lock().take_untold();
        self.2.send(self.1.remaining().is_zero()).unwrap();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_subscriber_may_use_the_session() {
    let parent = TempDir::new().unwrap();
    let directory = parent.path().join("records");
    let recorder = opened(&directory);
    let shared = Arc::new(recorded(&recorder));
    fs::remove_dir_all(&directory).unwrap();
    let (told, hears) = mpsc::channel();
    let nosy = Nosy(recorder, shared.clone(), told);
    std::thread::spawn(move || {
        tracing::subscriber::with_default(nosy, || {
            for _ in 0..1000 {
                shared.attempt_failed();
            }
        });
    });
    assert_eq!(hears.recv_timeout(Duration::from_secs(20)), Ok(false));
}
