//! Writes lines to one file after the other.
//!
//! A line on which nobody relies yet is held back, and is written with the next one on which somebody does: see
//! [`Open::relies_on`]. So the record of a process that is killed may lack such lines at its end, and none in between.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, mem};

use rustix::fs::{FlockOperation, flock};
use uuid::Uuid;
use zklock_recipe::acquisition;
use zklock_recipe::flight::{Begun, Evidence, FORMAT, Header, Heard, Held, Line, Outcome, Over, Session};
use zklock_recipe::{Event, Input, Moment};

use crate::clock;

/// The smallest bound: each file has room for what is open.
pub(super) const LEAST_BOUND: u64 = 64 << 10;

/// The directory is so many files large.
const FILES: u64 = 8;

/// A file keeps so many bytes for its last line.
const LAST: u64 = 80;

/// So many bytes of lines are held back at most.
const HELD_BACK: usize = 8 << 10;

/// A file that is being begun has this after its name. Nobody takes it for a record.
const UNBEGUN: &str = ".tmp";

/// A file that was not begun for so long never will be: its process is dead.
const ABANDONED: Duration = Duration::from_secs(600);

/// So many bytes at the begin and the end of a file are read before it is deleted, and so many of its last lines: those of several
/// threads may be in another order than their instants.
const ENDS: usize = 64 << 10;
const LAST_LINES: usize = 16;

/// A process that cannot read the machine's boot id has one of its own, which begins so.
const NO_BOOT_ID: &str = "unknown-";

/// Beyond all instants. It fits into an `i64` of nanoseconds.
const UNENDED: Duration = Duration::from_nanos(i64::MAX.unsigned_abs());

/// How long zklock waits before it tries to write again.
const PATIENCE: Duration = Duration::from_secs(1);

/// So many files are deleted at once at most: leases wait meanwhile. Many runs of a short command may leave thousands of them.
const DELETED: usize = 500;

/// Where `Header::failed` is in a file. Writing over it takes no further room on the disk.
const FAILED_AT: u64 = r#"{"header":{"failed":"#.len() as u64;

/// The files of a process, one after the other, and what is open.
pub(super) struct Writer {
    directory: PathBuf,
    bound: u64,
    header: Header,
    pub(super) file: File,
    /// How many bytes the file has, and may have.
    size: u64,
    limit: u64,
    /// What cannot be written at present.
    failure: Option<Failure>,
    /// Why it cannot, until somebody takes that to say it.
    untold: Option<io::Error>,
    open: Open,
    /// Lines that are not in the file yet, and how many.
    text: Vec<u8>,
    lines: u64,
}

struct Failure {
    since: Moment,
    lines: u64,
    tried: Instant,
}

/// What is open. Each file begins with it.
#[derive(Default)]
struct Open {
    sessions: BTreeMap<u32, Box<Session>>,
    /// Acquisitions that wait.
    begun: BTreeMap<u64, Begun>,
    held: BTreeMap<u64, Held>,
}

impl Writer {
    pub(super) fn open(directory: PathBuf, bound: u64, owner: String) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let pid = std::process::id();
        let unique = Uuid::new_v4().simple().to_string();
        let mut header = Header {
            failed: 0,
            format: FORMAT,
            zklock: env!("CARGO_PKG_VERSION").to_owned(),
            process: format!("{}-{pid}-{}", host.replace('/', "_"), &unique[..8]),
            file: 0,
            gap: None,
            deleted: None,
            host,
            pid,
            // Without such an id, nobody can say that two processes have the same clocks.
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .map_or(format!("{NO_BOOT_ID}{unique}"), |id| id.trim().to_owned()),
            owner,
            inode: (0, 0),
            wall: 0,
            at: Moment::default(),
        };
        let (file, size, limit) = begin_file(&directory, bound, &mut header, &Open::default())?;
        let (failure, untold, open, text, lines) = <_>::default();
        Ok(Self { directory, bound, header, file, size, limit, failure, untold, open, text, lines })
    }

    /// Writes a line, with those that were held back, or holds it back as well. If that fails, they are counted, and zklock goes on.
    /// Returns whether somebody has to be [told](Self::take_untold).
    pub(super) fn write(&mut self, line: Line) -> bool {
        let (begin, relies) = (self.text.len(), self.open.relies_on(&line));
        self.lines += 1;
        let encoded = encode(&line, &mut self.text);
        if let Err(error) = encoded.and_then(|()| self.put(begin, relies)) {
            self.fail(line.at(), error);
        }
        self.open.take_in(line);
        self.untold.is_some()
    }

    /// Puts the line that begins here in the text to the file, if somebody relies on it.
    fn put(&mut self, begin: usize, relies: bool) -> io::Result<()> {
        let is_full = self.size + self.text.len() as u64 + LAST > self.limit;
        match &mut self.failure {
            Some(failure) if failure.tried.elapsed() < PATIENCE => {
                failure.lines += mem::take(&mut self.lines);
                self.text.clear();
                return Ok(());
            }
            None if !is_full => {}
            failure => {
                let gap = failure.as_ref().map(|failure| (failure.lines, failure.since));
                let mut header = Header { file: self.header.file + 1, gap, ..self.header.clone() };
                // What was held back is in what the next file begins with.
                let line = self.text.split_off(begin);
                self.flush()?;
                self.lines = 1;
                let (file, size, limit) = begin_file(&self.directory, self.bound, &mut header, &self.open)?;
                let last = mem::replace(&mut self.file, file);
                (self.header, self.size, self.limit, self.text) = (header, size, limit, line);
                // The next file is there already. So a process that dies in between leaves an end that is open.
                if self.failure.take().is_none() {
                    end(last, &Line::Continues(self.header.file, clock::now()));
                }
            }
        }
        if relies || self.text.len() >= HELD_BACK { self.flush() } else { Ok(()) }
    }

    /// Writes what was held back, with one write to the file.
    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.text)?;
        self.size += self.text.len() as u64;
        self.lines = 0;
        self.text.clear();
        Ok(())
    }

    fn fail(&mut self, since: Moment, error: io::Error) {
        // What was held back before is lost as well.
        let since = self.text.split(is_end).next().and_then(decode).map_or(since, |line| line.at());
        let failure = self.failure.get_or_insert_with(|| {
            // A reader must not take the file's end for the end of what happened. An empty file is no record.
            if self.file.write_at(b"1", FAILED_AT).is_err() {
                let _unmarked = self.file.set_len(0);
            }
            self.untold = Some(error);
            Failure { since, lines: 0, tried: Instant::now() }
        });
        failure.lines += mem::take(&mut self.lines);
        failure.tried = Instant::now();
        self.text.clear();
    }

    /// Takes why the record cannot be written, and its directory, if nobody has said that yet.
    pub(super) fn take_untold(&mut self) -> Option<(io::Error, PathBuf)> {
        Some((self.untold.take()?, self.directory.clone()))
    }

    /// Ends the record. If a session may still live, or if lines are missing, the end stays open.
    pub(super) fn close(&mut self) {
        if let Err(error) = self.flush() {
            self.fail(clock::now(), error);
        }
        if self.open.sessions.is_empty() && self.failure.is_none() {
            end(&self.file, &Line::Closed(clock::now()));
        }
    }
}

/// Writes the last line of a file.
fn end(mut file: impl io::Write, line: &Line) {
    let mut text = Vec::new();
    // A file without it has an open end, which is true.
    let _open = encode(line, &mut text).and_then(|()| file.write_all(&text));
}

impl Open {
    /// Whether somebody relies on this line, or on one before it, once it is written. Those by which a guard becomes valid, is extended
    /// or ends are in the file by then, and so is each contender's number. A heartbeat has none wait for long.
    fn relies_on(&self, line: &Line) -> bool {
        match line {
            // The number of a permit is in no other line before its grant.
            Line::Begun(begun) => begun.admitted.is_some(),
            // The line that names the node comes next.
            Line::Located(..) => false,
            // Without it, less is proven.
            Line::Asked(_) => false,
            // It dates the end of a hold, and a process often ends right after it.
            Line::Stamp(stamp) => stamp.releases.is_some(),
            // The line by which a guard becomes valid brings it along.
            Line::Lease(_, Evidence::Confirmed(..)) => !self.held.is_empty(),
            Line::Heard(Heard { acquisition, input, outcome, .. }) => {
                let names = matches!(
                    input,
                    acquisition::Input::Reply(
                        Input::Entered(_)
                            | Input::One(
                                _,
                                Event::Recovered(_) | Event::Listed(_) | Event::ListedAfterRelease(_)
                            ),
                        _
                    )
                );
                let is_granted = matches!(outcome, Some(Outcome::Granted(..)));
                names || is_granted || self.held.contains_key(acquisition)
            }
            Line::Header(_) | Line::Session(_) | Line::Lease(..) | Line::Held(_) => true,
            Line::Saw(..) | Line::Touched(..) | Line::Turn(..) | Line::Over(_) => true,
            Line::Continues(..) | Line::Closed(_) => true,
        }
    }

    fn take_in(&mut self, line: Line) {
        match line {
            Line::Session(session) => drop(self.sessions.insert(session.number, session)),
            Line::Lease(number, evidence) => {
                let Some(session) = self.sessions.get_mut(&number) else { return };
                // A resumption that is refused ends the session.
                let _refused = evidence.apply(&mut session.lease);
                session.at = evidence.at();
                if session.lease.end().is_some() {
                    self.sessions.remove(&number);
                    self.held.retain(|_, held| held.begun.session != number);
                    self.begun.retain(|_, begun| begun.session != number);
                }
            }
            Line::Begun(begun) => drop(self.begun.insert(begun.acquisition, begun)),
            Line::Located(acquisition, located, _) => {
                let begun = self.begun.get_mut(&acquisition);
                let unlisted = begun.filter(|begun| !begun.located.contains(&located));
                unlisted.into_iter().for_each(|begun| begun.located.push(located));
            }
            Line::Heard(heard) => match heard.outcome {
                Some(Outcome::Granted(nodes, term, seen)) => {
                    let Some(begun) = self.begun.remove(&heard.acquisition) else { return };
                    let held = Held { begun, nodes, term, seen, turn: 0, at: heard.at };
                    self.held.insert(heard.acquisition, held);
                }
                Some(Outcome::Ended(..)) => {
                    self.begun.remove(&heard.acquisition);
                    self.held.remove(&heard.acquisition);
                }
                Some(Outcome::Lost) | None => {}
            },
            Line::Saw(acquisition, connection, _) => {
                self.held.entry(acquisition).and_modify(|held| held.seen = Some(connection));
            }
            Line::Turn(acquisition, turn, _) => {
                self.held.entry(acquisition).and_modify(|held| held.turn = turn);
            }
            Line::Over(Over { acquisition, lets_go, from, at, .. }) => {
                if lets_go || at.until(from).is_zero() {
                    self.held.remove(&acquisition);
                }
            }
            // What is open is written by itself.
            Line::Header(_) | Line::Held(_) | Line::Touched(..) | Line::Stamp(_) | Line::Asked(_) => {}
            // These are written without a word of it.
            Line::Continues(..) | Line::Closed(_) => {}
        }
    }
}

/// Begins a file with this header and with what is open, and deletes the oldest records to make room. Returns the file, its size, and how
/// large it may become: if there were more to delete, no larger than what was deleted.
fn begin_file(
    directory: &Path,
    bound: u64,
    header: &mut Header,
    open: &Open,
) -> io::Result<(File, u64, u64)> {
    let old = oldest(directory, bound, header)?;
    let lost = old.iter().filter_map(|old| old.lost).chain(header.deleted);
    header.deleted = lost.reduce(Moment::latest);
    let room = old.iter().map(|old| old.length).sum::<u64>().max(LEAST_BOUND);
    let limit = if old.len() < DELETED { bound / FILES } else { room.min(bound / FILES) };
    let paths = old.into_iter().map(|old| old.path).collect::<Vec<_>>();
    let (file, size) = replace(&paths, || write_file(directory, header, open))?;
    Ok((file, size, limit))
}

/// Deletes these files once another one is begun, whose header names them. A process that is killed in between has named too much.
pub(super) fn replace<T>(old: &[PathBuf], mut begin: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut begun = begin();
    let is_full =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    if begun.as_ref().is_err_and(is_full) {
        // An empty record proves nothing, so a process may be killed here as well.
        for path in old {
            let _full = OpenOptions::new().write(true).truncate(true).open(path);
        }
        begun = begin();
    }
    let begun = begun?;
    for path in old {
        // Another process may have deleted it meanwhile.
        let _gone = fs::remove_file(path);
    }
    Ok(begun)
}

/// Writes a file's begin in one write.
fn write_file(directory: &Path, header: &Header, open: &Open) -> io::Result<(File, u64)> {
    // A file has its name only once it is locked and says what is open.
    let name = name(header);
    let (unbegun, path) = (directory.join(format!("{name}{UNBEGUN}")), directory.join(name));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unbegun)?;
    // A file system without these locks has no such guard against its own deletion.
    let _unlocked = flock(&file, FlockOperation::NonBlockingLockExclusive);
    let begun =
        write_begin(&mut file, header, open).and_then(|size| fs::rename(&unbegun, path).map(|()| size));
    if begun.is_err() {
        // The next attempt has the same name.
        fs::remove_file(&unbegun)?;
    }
    begun.map(|size| (file, size))
}

/// Writes the header and what is open. Returns how many bytes these have.
fn write_begin(file: &mut File, header: &Header, open: &Open) -> io::Result<u64> {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let wall = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
    let metadata = file.metadata()?;
    let header = Header { inode: (metadata.dev(), metadata.ino()), wall, at: clock::now(), ..header.clone() };
    let mut text = Vec::new();
    encode(&Line::Header(header), &mut text)?;
    for session in open.sessions.values() {
        encode(&Line::Session(session.clone()), &mut text)?;
    }
    for begun in open.begun.values() {
        encode(&Line::Begun(begun.clone()), &mut text)?;
    }
    for held in open.held.values() {
        encode(&Line::Held(held.clone()), &mut text)?;
    }
    file.write_all(&text)?;
    Ok(text.len() as u64)
}

fn name(header: &Header) -> String {
    format!("zklock-{}-{:06}.jsonl", header.process, header.file)
}

/// Whether a file may be ours, by its name: see [`name`].
fn is_ours(name: &str) -> bool {
    let Some(name) = name.strip_prefix("zklock-").and_then(|name| name.strip_suffix(".jsonl")) else {
        return false;
    };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut parts = name.rsplitn(4, '-');
    matches!(
        (parts.next(), parts.next(), parts.next(), parts.next()),
        (Some(file), Some(unique), Some(pid), Some(_host))
            if file.len() >= 6 && is_number(file) && unique.len() == 8 && is_hex(unique) && !pid.is_empty() && is_number(pid)
    )
}

fn encode(line: &Line, text: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(&mut *text, line)?;
    text.push(b'\n');
    Ok(())
}

/// A record that makes room.
struct Old {
    path: PathBuf,
    length: u64,
    /// See [`lost_with`].
    lost: Option<Moment>,
}

/// The oldest records in this directory, without which it has room for another file, or the first ones of these. Files that somebody
/// writes to stay. Deletes what dead processes have not begun.
fn oldest(directory: &Path, bound: u64, own: &Header) -> io::Result<Vec<Old>> {
    let mut records = Vec::new();
    for path in fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path())) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let (is_begun, name) = name.strip_suffix(UNBEGUN).map_or((true, name), |name| (false, name));
        // Another process may have deleted it meanwhile.
        let Some(metadata) = is_ours(name).then(|| fs::metadata(&path).ok()).flatten() else { continue };
        let modified = metadata.modified()?;
        if is_begun {
            records.push((modified, metadata.len(), path));
        } else if modified.elapsed().is_ok_and(|age| age > ABANDONED) && free(&path).is_some() {
            let _stays = fs::remove_file(&path);
        }
    }
    records.sort();
    let mut size = records.iter().map(|(_, size, _)| size).sum::<u64>() + bound / FILES;
    let oldest = records.into_iter().filter_map(|(_, length, path)| {
        // An empty one shows that somebody was killed who had to make room on a full disk.
        let file = if size > bound || length == 0 { free(&path) } else { None }?;
        size -= length;
        Some(Old { path, length, lost: lost_with(&file, own) })
    });
    Ok(oldest.take(DELETED).collect())
}

/// Opens a file if nobody writes to it.
fn free(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    let locked = flock(&file, FlockOperation::NonBlockingLockShared);
    (locked != Err(rustix::io::Errno::WOULDBLOCK)).then_some(file)
}

/// The begin and the end of a file. A short one is both.
fn ends(file: &File) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let length = file.metadata()?.len();
    let text = |from| {
        let mut text = vec![0; usize::try_from(length).map_or(ENDS, |length| length.min(ENDS))];
        let read = file.read_at(&mut text, from)?;
        text.truncate(read);
        io::Result::Ok(text)
    };
    let begin = text(0)?;
    let end = if length <= ENDS as u64 { begin.clone() } else { text(length - ENDS as u64)? };
    Ok((begin, end))
}

/// Until when other processes had lines that are lost with this file, by our clocks.
fn lost_with(file: &File, own: &Header) -> Option<Moment> {
    let (begin, end) = ends(file).unwrap_or_default();
    let is_free = flock(file, FlockOperation::NonBlockingLockShared).is_ok();
    // If nobody writes to it any more, its lines are from before now. A file system without these locks does not say that.
    let unknown = if is_free { clock::now() } else { Moment::new(UNENDED, UNENDED) };
    let header = match begin.split(is_end).next().and_then(decode) {
        Some(Line::Header(header)) if header.format == FORMAT => header,
        Some(_) | None => return Some(unknown),
    };
    if header.process == own.process {
        // The numbers of the files show that it is gone.
        return None;
    }
    let has_boot_id = |header: &Header| !header.boot.starts_with(NO_BOOT_ID);
    if header.boot != own.boot && header.host == own.host && has_boot_id(&header) && has_boot_id(own) {
        // This machine has been started since then.
        return Some(Moment::default());
    }
    let last = end.rsplit(is_end).filter_map(decode).take(LAST_LINES).map(|line| line.at());
    match last.reduce(Moment::latest) {
        Some(last) if is_free && header.failed == 0 && header.boot == own.boot => {
            header.deleted.into_iter().chain([last, header.at]).reduce(Moment::latest)
        }
        Some(_) | None => Some(unknown),
    }
}

fn is_end(byte: &u8) -> bool {
    *byte == b'\n'
}

fn decode(line: &[u8]) -> Option<Line> {
    serde_json::from_slice(line).ok()
}
