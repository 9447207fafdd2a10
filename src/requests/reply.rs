//! Turns replies and errors into the events of the protocol.

use futures::future::BoxFuture;
use zklock_recipe::{Event, Refusal, SessionEnd};
use zookeeper_client::{Error, SessionState};

/// The result of a request: its event, and the watch that it left, if any.
pub(crate) struct Reply {
    pub(crate) event: Event,
    pub(crate) watch: Option<BoxFuture<'static, Event>>,
}

impl From<Event> for Reply {
    fn from(event: Event) -> Self {
        Self { event, watch: None }
    }
}

/// Returns how a session in this state has ended, if it has.
pub(crate) fn end(state: SessionState) -> Option<SessionEnd> {
    match state {
        SessionState::Expired => Some(SessionEnd::Expired),
        SessionState::Closed => Some(SessionEnd::Closed),
        // One server that rejects the credentials ends a connection. Another one may accept them.
        SessionState::AuthFailed
        | SessionState::Disconnected
        | SessionState::SyncConnected
        | SessionState::ConnectedReadOnly => None,
    }
}

/// Returns the event for an error. Only a server's own code is a definite answer. After a stalled or lost connection,
/// or any other unexpected error, the outcome is unknown.
pub(crate) fn failure(error: Error) -> Event {
    match error {
        Error::SessionExpired => Event::SessionOver(SessionEnd::Expired),
        Error::ClientClosed => Event::SessionOver(SessionEnd::Closed),
        Error::NoAuth => Event::Refused(Refusal::NotAuthorized),
        Error::NoChildrenForEphemerals => Event::Refused(Refusal::EphemeralParent),
        Error::NotReadOnly => Event::Refused(Refusal::ReadOnly),
        Error::InvalidAcl => Event::Refused(Refusal::InvalidAcl),
        error if is_definite(&error) => Event::Refused(Refusal::Other(worded(&error))),
        // One of these is `Throttled`: the server did nothing, and asks for a retry.
        _ => Event::Unanswered,
    }
}

/// A server's error that no other refusal stands for: what it means for a lock, and its remedy.
pub(crate) fn worded(error: &Error) -> String {
    let meaning = match error {
        Error::QuotaExceeded => {
            "the quota of this path or of one above is used up; show it with `listquota` of zkCli.sh, and raise it"
        }
        Error::Unimplemented => {
            "the server does not know this request, because it is older than ZooKeeper 3.6, or is no ZooKeeper; update it"
        }
        Error::UnexpectedErrorCode(LOCAL_SESSION) => {
            "the servers keep this session as a local one (localSessionsEnabled), which can have no ephemeral nodes; set \
             localSessionsUpgradingEnabled=true on each server"
        }
        Error::UnexpectedErrorCode(NEEDS_SASL) => {
            "the servers serve only clients that authenticate by SASL; give the session SASL credentials"
        }
        error => return error.to_string(),
    };
    meaning.to_owned()
}

/// Codes of `KeeperException` for which zookeeper-client has no name.
const LOCAL_SESSION: i32 = -120;
const NEEDS_SASL: i32 = -124;

fn is_definite(error: &Error) -> bool {
    match error {
        Error::BadArguments(_)
        | Error::BadVersion
        | Error::NoNode
        | Error::NodeExists
        | Error::NotEmpty
        | Error::NoWatcher
        | Error::QuotaExceeded
        | Error::ReconfigDisabled
        | Error::Unimplemented => true,
        // `MarshallingError` is not definite: a server also reports it if it fails to answer a request that it has
        // carried out. The codes of API errors are below -100 (`KeeperException.Code`). With -122 the server gives up
        // on a request that may still be under way.
        Error::UnexpectedErrorCode(code) => *code < -100 && *code != -122,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_servers_own_codes_are_definite() {
        assert_eq!(failure(Error::NoAuth), Event::Refused(Refusal::NotAuthorized));
        for (error, remedy) in [
            (Error::QuotaExceeded, "listquota"),
            (Error::Unimplemented, "older than ZooKeeper 3.6"),
            (Error::UnexpectedErrorCode(-120), "localSessionsUpgradingEnabled=true"),
            (Error::UnexpectedErrorCode(-124), "SASL"),
            (Error::BadVersion, "version"),
        ] {
            let Event::Refused(Refusal::Other(cause)) = failure(error) else { panic!("{remedy}") };
            assert!(cause.contains(remedy), "{cause}");
        }
        for unknown in [
            Error::ConnectionLoss,
            Error::Timeout,
            Error::SessionMoved,
            Error::Throttled,
            Error::UnexpectedError("no reply".into()),
            Error::UnexpectedErrorCode(-7),
            Error::UnexpectedErrorCode(-122),
        ] {
            assert_eq!(failure(unknown.clone()), Event::Unanswered, "{unknown:?}");
        }
        assert_eq!(failure(Error::SessionExpired), Event::SessionOver(SessionEnd::Expired));
    }
}
