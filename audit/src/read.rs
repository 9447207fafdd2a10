//! Reads the files of records, and puts those of each process together.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use zklock_recipe::flight::{FORMAT, Header, Line};

/// The records of one process.
#[derive(Debug)]
pub struct Process {
    /// The header of its first file that is there.
    pub header: Header,
    /// The lines of the files, in their order.
    pub(crate) entries: Vec<Entry>,
    /// Whether files from before the first one are missing.
    pub(crate) lacks_begin: bool,
    /// Whether its last line says that no more comes.
    pub(crate) is_closed: bool,
    /// Whether its last file ends without such a line, but nobody has it open any more, and its process could write all of it. That is
    /// how a killed process leaves it, on its own machine, as long as that runs.
    pub(crate) is_killed: bool,
}

/// A line, or what is missing at its place.
#[derive(Debug)]
pub(crate) enum Entry {
    Line(Box<Line>),
    /// Lines are missing here.
    Gap,
}

/// A file, or a part of it, that could not be read.
#[derive(Clone, Debug, Serialize)]
pub struct Unread {
    /// The file.
    pub file: PathBuf,
    /// The reason, for people.
    pub why: String,
    /// Whether that is known to be lines at one place of a record.
    #[serde(skip)]
    pub(crate) is_gap: bool,
}

/// All records that were found.
#[derive(Debug, Default)]
pub struct Records {
    /// The processes, in the order of their names.
    pub processes: Vec<Process>,
    /// Files and lines that could not be read.
    pub unread: Vec<Unread>,
}

/// How often records are read until no file comes or goes meanwhile.
const READINGS: usize = 10;

struct File {
    header: Header,
    entries: Vec<Entry>,
    /// The text.
    text: String,
    /// See [`Process::is_killed`].
    is_free: bool,
    path: PathBuf,
}

impl Records {
    /// Reads these files, and the records in these directories and below them.
    ///
    /// Errors: those of the file system, with the file. A file that does not say what this version understands is no error: see
    /// [`unread`](Self::unread).
    pub fn read(paths: &[PathBuf]) -> io::Result<Self> {
        // A process may begin a file and delete another one meanwhile. Then neither may have been found.
        for _ in 0..READINGS {
            let files = find_all(paths)?;
            let records = Self::read_files(&files)?;
            if find_all(paths)? == files {
                return Ok(records);
            }
        }
        Err(io::Error::other("files came and went each time while they were read; give `audit` a copy"))
    }

    fn read_files(files: &[PathBuf]) -> io::Result<Self> {
        let mut records = Self::default();
        let mut processes = BTreeMap::<String, BTreeMap<u32, Vec<File>>>::new();
        for path in files {
            // First: a process may write until it gives the lock up.
            let is_free = is_free(path)?;
            // Not all of a line need be text: a file may be cut.
            let text = String::from_utf8_lossy(&fs::read(path).map_err(of(path))?).into_owned();
            if let Some(mut file) = records.file(path, text) {
                file.is_free &= is_free;
                let files = processes.entry(file.header.process.clone()).or_default();
                records.add(files, file);
            }
        }
        records.processes = processes.into_values().filter_map(Process::of).collect();
        Ok(records)
    }

    /// Takes a file in. If another one is a copy of it, the longer one counts.
    fn add(&mut self, files: &mut BTreeMap<u32, Vec<File>>, file: File) {
        let copies = files.entry(file.header.file).or_default();
        match copies.iter_mut().find(|it| it.text.starts_with(&file.text) || file.text.starts_with(&it.text))
        {
            Some(copy) if copy.text.len() < file.text.len() => *copy = file,
            Some(copy) if copy.text.len() == file.text.len() => copy.is_free |= file.is_free,
            Some(_longer) => {}
            None => copies.push(file),
        }
        if let [first, .., last] = &copies[..] {
            let why = format!("it says otherwise than {}, though both have one name", first.path.display());
            self.unread.push(Unread { file: last.path.clone(), why, is_gap: false });
        }
    }

    fn file(&mut self, path: &Path, text: String) -> Option<File> {
        let file = path.to_owned();
        let mut unread = |why: String, is_gap| self.unread.push(Unread { file: file.clone(), why, is_gap });
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let header = match serde_json::from_str(first) {
            Ok(Line::Header(header)) if header.format == FORMAT => header,
            Ok(Line::Header(header)) => {
                unread(format!("its format is {}, and this version reads {FORMAT}", header.format), false);
                return None;
            }
            Ok(_) | Err(_) => {
                unread("it does not begin as a flight record".to_owned(), false);
                return None;
            }
        };
        let (mut entries, mut strange) = (Vec::new(), 0);
        for line in rest.split_inclusive('\n') {
            match serde_json::from_str(line) {
                Ok(line) => entries.push(Entry::Line(Box::new(line))),
                Err(_) => {
                    if line.ends_with('\n') {
                        strange += 1;
                    } else {
                        unread("it ends in the middle of a line".to_owned(), true);
                    }
                    entries.push(Entry::Gap);
                }
            }
        }
        if strange > 0 {
            unread(format!("{strange} lines say what this version does not understand"), true);
        }
        if header.failed > 0 {
            unread("it lacks lines at its end, because they could not be written".to_owned(), true);
            entries.push(Entry::Gap);
        }
        let is_free = header.failed == 0 && is_original(path, &header);
        Some(File { header, entries, text, is_free, path: path.to_owned() })
    }
}

impl Process {
    fn of(files: BTreeMap<u32, Vec<File>>) -> Option<Self> {
        // Of two that differ, none counts.
        let files =
            files.into_values().filter_map(|mut copies| if copies.len() > 1 { None } else { copies.pop() });
        let files = files.collect::<Vec<_>>();
        let first = files.first()?.header.clone();
        let last = files.last()?;
        let (is_closed, is_killed) = (last.end() == Some(End::Closed), last.end().is_none() && last.is_free);
        let continues = last.end() == Some(End::Continues);
        let (mut entries, mut next) = (Vec::new(), first.file);
        for file in files {
            let end = file.end();
            if file.header.file != next || file.header.gap.is_some() {
                entries.push(Entry::Gap);
            }
            next = file.header.file + 1;
            entries.push(Entry::Line(Box::new(Line::Header(file.header))));
            entries.extend(file.entries);
            // Behind an open end, and behind the end of a process, no other file is expected.
            next = if end == Some(End::Continues) { next } else { 0 };
        }
        if continues {
            entries.push(Entry::Gap);
        }
        Some(Self { lacks_begin: first.file > 0, header: first, entries, is_closed, is_killed })
    }

    /// Its name, for people: the machine, the process, and what it says of itself.
    pub fn name(&self) -> String {
        let Header { host, pid, owner, .. } = &self.header;
        if owner.is_empty() { format!("{host}:{pid}") } else { format!("{owner} ({host}:{pid})") }
    }
}

/// How a file says that no line is missing at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Continues,
    Closed,
}

impl File {
    fn end(&self) -> Option<End> {
        let Some(Entry::Line(line)) = self.entries.last() else { return None };
        match **line {
            Line::Continues(next, _) => (next == self.header.file + 1).then_some(End::Continues),
            Line::Closed(_) => Some(End::Closed),
            _ => None,
        }
    }
}

/// Names the file of an error.
fn of(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Whether nobody has the file open to write to it. If the file system cannot say, it may be.
fn is_free(path: &Path) -> io::Result<bool> {
    let file = fs::File::open(path).map_err(of(path))?;
    Ok(flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
}

/// Whether this is the file that the process wrote to, and not a copy, which may be an early one.
fn is_original(path: &Path, header: &Header) -> bool {
    fs::metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == header.inode)
}

/// Finds the records of these files and directories.
fn find_all(paths: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        find(path, true, &mut files)?;
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// Finds records. A file that was named is one.
fn find(path: &Path, is_named: bool, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if fs::metadata(path).map_err(of(path))?.is_dir() {
        for entry in fs::read_dir(path).map_err(of(path))? {
            find(&entry.map_err(of(path))?.path(), false, files)?;
        }
    } else {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if is_named || name.starts_with("zklock-") && name.ends_with(".jsonl") {
            files.push(path.to_owned());
        }
    }
    Ok(())
}
