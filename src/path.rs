//! The path of a lock's directory: which paths are allowed, and the paths of the nodes in it.

use std::fmt;

use zklock_recipe::{Kind, PathKind, QueueLayout, QueuePlace};

use crate::node::RECORDS_SUFFIX;
use crate::text::is_harmful;

/// The absolute path of a lock's directory, and the layout of the queue in it. ZooKeeper and zklock accept it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LockPath {
    path: String,
    layout: QueueLayout,
}

/// A server takes no request of more than 1 MiB by default (`jute.maxbuffer`), and closes the connection. A release has the path twice.
const LONGEST: usize = 64 * 1024;

/// Why a path cannot be used for a lock or a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathProblem {
    /// The path is empty.
    #[error("it is empty; give an absolute path such as /lock/orders")]
    Empty,
    /// The path does not begin with `/`.
    #[error("it is relative; begin it with '/'")]
    Relative,
    /// The path is `/` itself.
    #[error("it is the root; name a node below it, such as /lock/orders")]
    Root,
    /// The path ends with `/`.
    #[error("it ends with '/'; leave that character out")]
    TrailingSlash,
    /// The path contains `//`.
    #[error("it contains an empty name ('//'); use single slashes")]
    EmptyName,
    /// The path contains `.` or `..` as a name.
    #[error("it contains '.' or '..' as a name; write the path out")]
    DotName,
    /// The path contains a character that ZooKeeper does not allow in paths: NUL, a control character, or one from the
    /// surrogate, private-use and special ranges.
    #[error(
        "it contains the character U+{0:04X}, which ZooKeeper does not allow in a path; leave that character out"
    )]
    Character(u32),
    /// One of the path's names begins or ends with a blank: to people it is another lock's path.
    #[error("one of its names begins or ends with a blank, which nobody sees; leave the blank out")]
    Blank,
    /// The path contains a character that nobody sees, or that turns the direction of writing
    /// ([`is_harmful`]): to people it is another lock's path.
    #[error("it contains the character U+{0:04X}, which nobody sees; leave that character out")]
    Invisible(u32),
    /// The path is `/zookeeper`, or is below it.
    #[error("it is inside /zookeeper, which belongs to the servers; use another path")]
    Reserved,
    /// The path is too long.
    #[error("it has {0} bytes, and may have {LONGEST}; use a shorter path")]
    TooLong(usize),
    /// The path's last name ends with `.once`. Such directories are for the records of [`Once`](crate::Once).
    #[error("it ends with .once, and zklock keeps the records of runs at such paths; use another name")]
    Records,
    /// One of the path's names is a contender's name: the lock would stand in the queue of another lock.
    #[error(
        "one of its names is the name of a contender, so the lock above would take that node for a contender; use \
         another name"
    )]
    Contender,
}

impl LockPath {
    /// Checks a path. The rules are those of ZooKeeper's `PathUtils.validatePath`, and two more: nothing in the path is
    /// invisible; a lock is neither at the root, nor in the servers' own subtree, nor in the queue of another lock.
    /// `chroot` is the connect string's chroot, or empty.
    pub(crate) fn parse(path: &str, chroot: &str) -> Result<Self, PathProblem> {
        check_visible(path)?;
        if path == "/" {
            return Err(PathProblem::Root);
        }
        let absolute = format!("{chroot}{path}");
        if is_reserved(&absolute) {
            return Err(PathProblem::Reserved);
        }
        if path.ends_with(RECORDS_SUFFIX) {
            return Err(PathProblem::Records);
        }
        let contends = |name| QueueLayout::ALL.iter().any(|layout| layout.own(name).is_some());
        if absolute.split('/').any(contends) {
            return Err(PathProblem::Contender);
        }
        Ok(Self { path: path.to_owned(), layout: QueueLayout::Own })
    }

    /// Returns the same directory with a queue of this layout.
    pub(crate) fn with_layout(self, layout: QueueLayout) -> Self {
        Self { layout, ..self }
    }

    pub(crate) fn layout(&self) -> QueueLayout {
        self.layout
    }

    /// Returns the same directory's path for a client without this chroot.
    pub(crate) fn below(&self, chroot: &str) -> Self {
        Self { path: format!("{chroot}{self}"), layout: self.layout }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.path
    }

    /// Returns the path of the parent; `None` if that is the root.
    pub(crate) fn parent(&self) -> Option<&str> {
        Some(parent_of(&self.path)).filter(|parent| *parent != "/")
    }

    /// Returns the path above, if this one has the name of a node that an election or a pool would keep there.
    pub(crate) fn inner_of(&self) -> Option<&str> {
        self.parent().filter(|_| PathKind::INNER.contains(&name_of(&self.path)))
    }

    /// Returns the path for the sequential create of a contender of this kind. The server appends the number.
    pub(crate) fn prefix(&self, kind: Kind) -> String {
        self.of_child(&self.layout.prefix(kind))
    }

    /// Returns the path of the node of a contender of ours.
    pub(crate) fn contender(&self, place: QueuePlace) -> String {
        self.of_child(&self.layout.name(place))
    }

    /// Returns the path of a lock in this directory. The name must be one that a lock can have.
    pub(crate) fn lock_below(&self, name: &str) -> Self {
        Self { path: self.of_child(name), layout: self.layout }
    }

    pub(crate) fn of_child(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Returns the name of a child, given its whole path; `None` if the path is not a child's.
    pub(crate) fn child<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(&self.path)?.strip_prefix('/').filter(|name| !name.contains('/'))
    }
}

impl fmt::Display for LockPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

pub(crate) fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty()).unwrap_or("/")
}

/// The path of the child with this name. The directory may be the root.
pub(crate) fn child_of(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

/// Checks the path of any node, the root included, by the rules of ZooKeeper's `PathUtils.validatePath`.
pub(crate) fn check_node(path: &str) -> Result<(), PathProblem> {
    let Some(names) = path.strip_prefix('/') else {
        return Err(if path.is_empty() { PathProblem::Empty } else { PathProblem::Relative });
    };
    if path.len() > LONGEST {
        return Err(PathProblem::TooLong(path.len()));
    }
    if let Some(character) = path.chars().find(|c| !is_allowed(*c)) {
        return Err(PathProblem::Character(character.into()));
    }
    if path.contains("//") {
        return Err(PathProblem::EmptyName);
    }
    if !names.is_empty() && path.ends_with('/') {
        return Err(PathProblem::TrailingSlash);
    }
    if names.split('/').any(|name| name == "." || name == "..") {
        return Err(PathProblem::DotName);
    }
    Ok(())
}

/// Checks the path of a node that zklock may create: the rules of [`check_node`], and nothing in it is invisible. Two paths that look
/// alike would be two locks.
pub(crate) fn check_visible(path: &str) -> Result<(), PathProblem> {
    check_node(path)?;
    if let Some(character) = path.chars().find(|c| is_harmful(*c)) {
        return Err(PathProblem::Invisible(character.into()));
    }
    if path.split('/').any(|name| name.trim() != name) { Err(PathProblem::Blank) } else { Ok(()) }
}

/// Whether a path, from ZooKeeper's root, is in the servers' own subtree, where no lock can be.
pub(crate) fn is_reserved(absolute: &str) -> bool {
    absolute.strip_prefix("/zookeeper").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether ZooKeeper allows this character in a path. It checks the UTF-16 form, and refuses surrogates.
pub(crate) fn is_allowed(character: char) -> bool {
    !matches!(character, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_paths_pass() {
        for path in
            ["/lock", "/lock/orders", "/a/.b/c..", "/zookeepers", "/lock/\u{8def}", "/lock/lock-1", "/a/b c"]
        {
            assert_eq!(LockPath::parse(path, "").map(|path| path.path), Ok(path.to_owned()));
        }
        assert!(LockPath::parse("/zookeeper", "/app").is_ok());
    }

    #[test]
    fn each_bad_path_is_told_its_problem() {
        for (path, problem) in [
            ("", PathProblem::Empty),
            ("lock", PathProblem::Relative),
            ("/", PathProblem::Root),
            ("//", PathProblem::EmptyName),
            ("/a//b", PathProblem::EmptyName),
            ("/a/", PathProblem::TrailingSlash),
            ("/a/../b", PathProblem::DotName),
            ("/.", PathProblem::DotName),
            ("/a\0b", PathProblem::Character(0)),
            ("/a\u{7f}", PathProblem::Character(0x7f)),
            ("/lock/a ", PathProblem::Blank),
            ("/lock /a", PathProblem::Blank),
            ("/lock/\u{3000}a", PathProblem::Blank),
            ("/lock/a\u{200b}", PathProblem::Invisible(0x200b)),
            ("/lock/\u{202e}a", PathProblem::Invisible(0x202e)),
            ("/zookeeper", PathProblem::Reserved),
            ("/zookeeper/quota", PathProblem::Reserved),
            ("/lock/a/lock-0000000001", PathProblem::Contender),
            ("/lock/a/rlock-0000000001", PathProblem::Contender),
            ("/lock/a.once", PathProblem::Records),
            ("/lock/a/lock-0000000001/b", PathProblem::Contender),
        ] {
            assert_eq!(LockPath::parse(path, ""), Err(problem), "{path:?}");
        }
        assert_eq!(
            LockPath::parse(&format!("/{}", "a".repeat(LONGEST)), ""),
            Err(PathProblem::TooLong(LONGEST + 1))
        );
        // A chroot opens neither the servers' subtree nor a queue.
        assert_eq!(LockPath::parse("/quota", "/zookeeper"), Err(PathProblem::Reserved));
        assert_eq!(LockPath::parse("/b", "/lock/a/lock-0000000001"), Err(PathProblem::Contender));
    }

    #[test]
    fn a_node_may_be_the_root_or_the_servers_own() {
        assert_eq!(check_node("/"), Ok(()));
        assert_eq!(check_node("/zookeeper/quota"), Ok(()));
        assert_eq!(check_node("/lock/a/lock-0000000001"), Ok(()));
        assert_eq!(check_node("/a/"), Err(PathProblem::TrailingSlash));
    }

    #[test]
    fn children_are_direct_ones() {
        let path = LockPath::parse("/lock/a", "").unwrap();
        assert_eq!(path.child("/lock/a/lock-0000000001"), Some("lock-0000000001"));
        assert_eq!(path.child("/lock/ab/lock-0000000001"), None);
        assert_eq!(path.child("/lock/a/b/lock-0000000001"), None);
        assert_eq!(path.parent(), Some("/lock"));
        assert_eq!(LockPath::parse("/lock", "").unwrap().parent(), None);
    }

    #[test]
    fn inner_nodes_have_the_names_of_an_elections_or_a_pools() {
        for (path, above) in [
            ("/a/queue", Some("/a")),
            ("/a/b/leader", Some("/a/b")),
            ("/a/permits", Some("/a")),
            ("/a/queues", None),
            ("/queue", None),
        ] {
            assert_eq!(LockPath::parse(path, "").unwrap().inner_of(), above, "{path}");
        }
    }
}
