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
        error if is_definite(&error) => Event::Refused(Refusal::Other(error.to_string())),
        // One of these is `Throttled`: the server did nothing, and asks for a retry.
        _ => Event::Unanswered,
    }
}

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
        assert!(matches!(failure(Error::QuotaExceeded), Event::Refused(Refusal::Other(_))));
        assert!(matches!(failure(Error::UnexpectedErrorCode(-120)), Event::Refused(Refusal::Other(_))));
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
