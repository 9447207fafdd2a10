//! The kinds of requests in ZooKeeper's protocol.

/// What a request asks for, by its opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestKind {
    /// Every request that is counted, so no handshake, ping or authentication.
    Any,
    /// `create`, `create2` and `createTTL`.
    Create,
    /// `createContainer`.
    CreateContainer,
    /// `delete`.
    Delete,
    /// `exists`: a node's stat, with or without a watch.
    Exists,
    /// `getData`.
    GetData,
    /// `setData`.
    SetData,
    /// `getACL`.
    GetAcl,
    /// `setACL`.
    SetAcl,
    /// `getChildren` and `getChildren2`.
    GetChildren,
    /// `sync`.
    Sync,
    /// `multi`: a transaction.
    Multi,
    /// `multiRead`: several reads at once.
    MultiRead,
    /// `getEphemerals`.
    GetEphemerals,
    /// `checkWatches`.
    CheckWatches,
    /// `removeWatches`.
    RemoveWatches,
    /// `addWatch`: persistent watches.
    AddWatch,
    /// `setWatches` and `setWatches2`, which a client sends by itself after reconnecting.
    SetWatches,
    /// `closeSession`.
    CloseSession,
    /// A ping. Counted apart from requests.
    Ping,
    /// `auth` and SASL. Not counted.
    Auth,
    /// An opcode this crate has no name for.
    Other,
}

impl RequestKind {
    pub(crate) fn of_opcode(opcode: i32) -> Self {
        match opcode {
            1 | 15 | 21 => Self::Create,
            19 => Self::CreateContainer,
            2 => Self::Delete,
            3 => Self::Exists,
            4 => Self::GetData,
            5 => Self::SetData,
            6 => Self::GetAcl,
            7 => Self::SetAcl,
            8 | 12 => Self::GetChildren,
            9 => Self::Sync,
            11 => Self::Ping,
            14 => Self::Multi,
            17 => Self::CheckWatches,
            18 => Self::RemoveWatches,
            22 => Self::MultiRead,
            100 | 102 => Self::Auth,
            101 | 105 => Self::SetWatches,
            103 => Self::GetEphemerals,
            106 => Self::AddWatch,
            -11 => Self::CloseSession,
            _ => Self::Other,
        }
    }

    /// Whether the counts of requests and replies include it.
    pub(crate) fn is_counted(self) -> bool {
        !matches!(self, Self::Ping | Self::Auth)
    }

    /// Whether `self`, asked for by a test, includes requests of kind `request`.
    pub(crate) fn matches(self, request: Self) -> bool {
        self == request || (self == Self::Any && request.is_counted())
    }
}
