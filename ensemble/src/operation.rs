//! What clients ask for: the numbers of the protocol, and the requests as they are read from frames.

use crate::auth::Grant;
use crate::config::Version;
use crate::wire::{Malformed, Reader};

pub(crate) mod code {
    pub(crate) const ERROR: i32 = -1;
    pub(crate) const CREATE: i32 = 1;
    pub(crate) const DELETE: i32 = 2;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const GET_DATA: i32 = 4;
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const GET_ACL: i32 = 6;
    pub(crate) const SET_ACL: i32 = 7;
    pub(crate) const GET_CHILDREN: i32 = 8;
    pub(crate) const SYNC: i32 = 9;
    pub(crate) const PING: i32 = 11;
    pub(crate) const GET_CHILDREN2: i32 = 12;
    pub(crate) const CHECK: i32 = 13;
    pub(crate) const MULTI: i32 = 14;
    pub(crate) const CREATE2: i32 = 15;
    pub(crate) const RECONFIG: i32 = 16;
    pub(crate) const REMOVE_WATCHES: i32 = 18;
    pub(crate) const CREATE_CONTAINER: i32 = 19;
    pub(crate) const CREATE_TTL: i32 = 21;
    pub(crate) const MULTI_READ: i32 = 22;
    pub(crate) const AUTH: i32 = 100;
    pub(crate) const SET_WATCHES: i32 = 101;
    pub(crate) const SASL: i32 = 102;
    pub(crate) const GET_EPHEMERALS: i32 = 103;
    pub(crate) const GET_ALL_CHILDREN_NUMBER: i32 = 104;
    pub(crate) const SET_WATCHES2: i32 = 105;
    pub(crate) const ADD_WATCH: i32 = 106;
    pub(crate) const WHO_AM_I: i32 = 107;
    pub(crate) const CLOSE_SESSION: i32 = -11;
}

pub(crate) mod error {
    pub(crate) const RUNTIME_INCONSISTENCY: i32 = -2;
    pub(crate) const MARSHALLING: i32 = -5;
    pub(crate) const UNIMPLEMENTED: i32 = -6;
    pub(crate) const BAD_ARGUMENTS: i32 = -8;
    pub(crate) const NO_NODE: i32 = -101;
    pub(crate) const NO_AUTH: i32 = -102;
    pub(crate) const BAD_VERSION: i32 = -103;
    pub(crate) const NO_CHILDREN_FOR_EPHEMERALS: i32 = -108;
    pub(crate) const NODE_EXISTS: i32 = -110;
    pub(crate) const NOT_EMPTY: i32 = -111;
    pub(crate) const SESSION_EXPIRED: i32 = -112;
    pub(crate) const INVALID_ACL: i32 = -114;
    pub(crate) const AUTH_FAILED: i32 = -115;
    pub(crate) const SESSION_MOVED: i32 = -118;
    pub(crate) const NO_WATCHER: i32 = -121;
    pub(crate) const RECONFIG_DISABLED: i32 = -123;
    pub(crate) const THROTTLED: i32 = -127;
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Read(Read),
    Write(Write),
    Sync(String),
    Ping,
    /// An operation that can be read, and has a field that cannot.
    Unreadable {
        writes: bool,
    },
    /// The server does not know the operation.
    Unknown,
    /// The server has too much to do for the operation.
    Throttled,
}

/// What a server answers from its own tree.
#[derive(Clone, Debug)]
pub(crate) enum Read {
    Exists { path: String, watch: bool },
    Data { path: String, watch: bool },
    Children { path: String, watch: bool, stat: bool },
    Acl(String),
    AllChildrenNumber(String),
    Ephemerals(String),
    Multi(Vec<Read>),
    SetWatches(Former),
    AddWatch { path: String, mode: i32 },
    RemoveWatches { path: String, kind: i32 },
    WhoAmI,
}

/// The watches of a client that has lost its connection.
#[derive(Clone, Debug)]
pub(crate) struct Former {
    pub(crate) since: i64,
    pub(crate) data: Vec<String>,
    pub(crate) exists: Vec<String>,
    pub(crate) child: Vec<String>,
    pub(crate) persistent: Vec<String>,
    pub(crate) recursive: Vec<String>,
}

/// What the leader makes a transaction of.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Create(Create),
    Delete { path: String, version: i32 },
    SetData { path: String, data: Vec<u8>, version: i32 },
    SetAcl { path: String, list: Vec<Grant>, version: i32 },
    Check { path: String, version: i32 },
    Multi(Vec<Write>),
    Reconfigure,
    CreateSession { timeout: i32 },
    CloseSession,
    DeleteContainer(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Create {
    /// Which of the operations that create: it decides what is answered.
    pub(crate) code: i32,
    pub(crate) path: String,
    pub(crate) data: Vec<u8>,
    pub(crate) list: Vec<Grant>,
    pub(crate) flags: i32,
    pub(crate) ttl: i64,
}

impl Operation {
    /// Whether it waits for a commit, with everything behind it in its session. A sync waits at a follower only.
    pub(crate) fn waits(&self, at_follower: bool) -> bool {
        match self {
            Self::Write(_) => true,
            Self::Unreadable { writes } => *writes,
            Self::Sync(_) => at_follower,
            Self::Read(_) | Self::Ping | Self::Unknown | Self::Throttled => false,
        }
    }

    /// What is left of it at a server that has too much to do.
    pub(crate) fn throttled(self) -> Self {
        match self {
            Self::Ping | Self::Write(Write::CreateSession { .. } | Write::CloseSession) => self,
            _ => Self::Throttled,
        }
    }

    pub(crate) fn read(operation: i32, body: Reader<'_>, version: Version) -> Self {
        let reader = &mut body.clone();
        let write = match operation {
            code::PING => return Self::Ping,
            code::MULTI => read_multi(reader, |operation, reader| part(operation, reader, version))
                .map(Write::Multi)
                .map(Some),
            code::RECONFIG => Ok(Some(Write::Reconfigure)),
            code::SET_ACL => set_acl(reader).map(Some),
            code::CLOSE_SESSION => Ok(Some(Write::CloseSession)),
            // Only a part of a multi is a check.
            code::CHECK => Ok(None),
            _ => write(operation, reader),
        };
        let read = match write {
            Ok(Some(write)) => return Self::Write(write),
            Err(Malformed) => return Self::Unreadable { writes: true },
            Ok(None) if operation == code::SYNC => reader.string().map(|path| Some(Self::Sync(path))),
            Ok(None) => read_one(operation, reader).map(|read| read.map(Self::Read)),
        };
        read.map_or(Self::Unreadable { writes: false }, |read| read.unwrap_or(Self::Unknown))
    }
}

/// Reads a request that reads. `None` if the operation is another one.
fn read_one(operation: i32, reader: &mut Reader<'_>) -> Result<Option<Read>, Malformed> {
    let strings = |reader: &mut Reader<'_>| reader.vector(Reader::string);
    Ok(Some(match operation {
        code::EXISTS => Read::Exists { path: reader.string()?, watch: reader.bool()? },
        code::GET_DATA => Read::Data { path: reader.string()?, watch: reader.bool()? },
        code::GET_CHILDREN => Read::Children { path: reader.string()?, watch: reader.bool()?, stat: false },
        code::GET_CHILDREN2 => Read::Children { path: reader.string()?, watch: reader.bool()?, stat: true },
        code::GET_ACL => Read::Acl(reader.string()?),
        code::GET_ALL_CHILDREN_NUMBER => Read::AllChildrenNumber(reader.string()?),
        code::GET_EPHEMERALS => Read::Ephemerals(reader.string()?),
        code::SET_WATCHES | code::SET_WATCHES2 => {
            let mut former = Former {
                since: reader.long()?,
                data: strings(reader)?,
                exists: strings(reader)?,
                child: strings(reader)?,
                persistent: Vec::new(),
                recursive: Vec::new(),
            };
            if operation == code::SET_WATCHES2 {
                former.persistent = strings(reader)?;
                former.recursive = strings(reader)?;
            }
            Read::SetWatches(former)
        }
        code::ADD_WATCH => Read::AddWatch { path: reader.string()?, mode: reader.int()? },
        code::REMOVE_WATCHES => Read::RemoveWatches { path: reader.string()?, kind: reader.int()? },
        code::WHO_AM_I => Read::WhoAmI,
        code::MULTI_READ => Read::Multi(read_multi(reader, read_many)?),
        _ => return Ok(None),
    }))
}

/// Reads a part of a multi: two operations can be one. It sets no watch, whatever the client says.
fn read_many(operation: i32, reader: &mut Reader<'_>) -> Result<Read, Malformed> {
    let (path, _watch) = (reader.string()?, reader.bool()?);
    match operation {
        code::GET_DATA => Ok(Read::Data { path, watch: false }),
        code::GET_CHILDREN => Ok(Read::Children { path, watch: false, stat: false }),
        _ => Err(Malformed),
    }
}

/// Reads a request that writes, or a part of a multi. `None` if the operation is another one.
fn write(operation: i32, reader: &mut Reader<'_>) -> Result<Option<Write>, Malformed> {
    Ok(Some(match operation {
        code::CREATE | code::CREATE2 | code::CREATE_CONTAINER | code::CREATE_TTL => Write::Create(Create {
            code: operation,
            path: reader.string()?,
            data: reader.buffer()?,
            list: reader.vector(Grant::read)?,
            flags: reader.int()?,
            ttl: if operation == code::CREATE_TTL { reader.long()? } else { -1 },
        }),
        code::DELETE => Write::Delete { path: reader.string()?, version: reader.int()? },
        code::SET_DATA => {
            Write::SetData { path: reader.string()?, data: reader.buffer()?, version: reader.int()? }
        }
        code::CHECK => Write::Check { path: reader.string()?, version: reader.int()? },
        _ => return Ok(None),
    }))
}

/// Reads a write of a multi. There the flags decide about the operation.
///
/// (o) Version 3.8.0 makes a `create` of a `create2`, which answers no stat. Later ones refuse to read bad flags.
fn part(operation: i32, reader: &mut Reader<'_>, version: Version) -> Result<Write, Malformed> {
    let mut write = write(operation, reader)?.ok_or(Malformed)?;
    if let Write::Create(create) = &mut write {
        create.code = match (operation, create.flags) {
            (code::CREATE_TTL, 5 | 6) => code::CREATE_TTL,
            (code::CREATE_TTL, 4) | (_, 4) => code::CREATE_CONTAINER,
            (code::CREATE_TTL, _) => code::CREATE,
            (_, flags) if version == Version::V3_8_0 && !matches!(flags, 5 | 6) => code::CREATE,
            (code, 0..=3) => code,
            _ => return Err(Malformed),
        };
        if create.code != code::CREATE_TTL {
            create.ttl = -1;
        }
    }
    Ok(write)
}

fn set_acl(reader: &mut Reader<'_>) -> Result<Write, Malformed> {
    Ok(Write::SetAcl { path: reader.string()?, list: reader.vector(Grant::read)?, version: reader.int()? })
}

/// Reads the operations of a multi, each behind a header, to the header that says that it is the last.
fn read_multi<T>(
    reader: &mut Reader<'_>,
    item: impl Fn(i32, &mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let mut items = Vec::new();
    loop {
        let (operation, done, _error) = (reader.int()?, reader.bool()?, reader.int()?);
        if done {
            return Ok(items);
        }
        items.push(item(operation, reader)?);
    }
}
