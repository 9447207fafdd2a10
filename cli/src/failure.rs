//! Why a command of the program failed, and which error has which exit code.

use std::fmt::{self, Display};
use std::panic;
use std::process::{self, ExitCode};
use std::thread;
use std::time::Duration;

use zklock::{
    AcquireError, AnnounceError, CampaignError, ClaimError, ConnectError, InvalidLock, InvalidOnce,
    InvalidSequencer, QueryError, SemaphoreError, SequencerError, TurnError,
};

use crate::console::Console;
use crate::duration;
use crate::exit::Code;

/// Makes a panic end the program at once, as an internal error.
///
/// Unwinding would release the lock while the command still runs. If the program ends instead, its warden ends the command,
/// and the session expires later.
pub(crate) fn exit_at_once_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |bug| {
        report(bug);
        // A panic of another thread is an error of its task, which the main thread awaits.
        if thread::current().name() == Some("main") {
            process::exit(Code::Internal as i32);
        }
    }));
}

/// Why a command of the program failed, and what the program exits with.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    message: String,
    /// The exit code that the user wants in place of `code`.
    status: Option<u8>,
    /// Whether the exit code is enough for a user who wants only errors.
    is_expected: bool,
    /// The path that an ACL keeps from this client.
    forbidden: Option<String>,
}

/// The result of a command of the program.
pub(crate) type Outcome = Result<ExitCode, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, message: impl Display) -> Self {
        Self { code, message: message.to_string(), status: None, is_expected: false, forbidden: None }
    }

    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(Code::Usage, message)
    }

    pub(crate) fn internal(message: impl Display) -> Self {
        Self::new(Code::Internal, message)
    }

    /// Another holder kept the lock for as long as the user wanted to wait.
    pub(crate) fn not_acquired(message: impl Display) -> Self {
        Self { is_expected: true, ..Self::new(Code::NotAcquired, message) }
    }

    /// No server answered a plain client in time.
    pub(crate) fn unreachable(servers: &str, patience: Duration) -> Self {
        let patience = duration::text(patience);
        Self::new(
            Code::Unreachable,
            format_args!("no server of {servers:?} answered within --connect-timeout {patience}"),
        )
    }

    /// The program cannot write to standard output.
    pub(crate) fn output(error: &std::io::Error) -> Self {
        Self::internal(format_args!("the result cannot be written: {error}"))
    }

    /// The same failure, with `status` in place of 75 if the lock was not acquired.
    pub(crate) fn with_conflict_status(self, status: Option<u8>) -> Self {
        let status = status.filter(|_| self.code == Code::NotAcquired);
        Self { status, ..self }
    }

    /// Tells the user, unless the exit code is all that this user wants to know.
    pub(crate) fn tell(&self, console: Console) {
        if self.is_expected && console.is_quiet() {
            return;
        }
        console.error(self);
    }

    pub(crate) fn exit(&self) -> ExitCode {
        self.status.map_or_else(|| self.code.into(), ExitCode::from)
    }
}

impl Failure {
    /// A refusal by the ACL of this path.
    pub(crate) fn forbidden(path: &str, message: impl Display) -> Self {
        Self { forbidden: Some(path.to_owned()), ..Self::new(Code::NotAuthorized, message) }
    }

    /// An answer rather than an error, so that a quiet console prints nothing.
    pub(crate) fn expected(self) -> Self {
        Self { is_expected: true, ..self }
    }

    /// The path that an ACL keeps from this client.
    pub(crate) fn forbidden_path(&self) -> Option<&str> {
        self.forbidden.as_deref()
    }

    /// The same, with a fact more.
    pub(crate) fn with(self, fact: impl Display) -> Self {
        Self { message: format!("{}: {fact}", self.message), ..self }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error of the library or of the client.
trait Coded: Display {
    fn code(&self) -> Code;

    /// The program's message. The library's own message may name the library's options, which the program's users do not
    /// have.
    fn text(&self) -> String {
        self.to_string()
    }

    /// The path that an ACL keeps from this client.
    fn forbidden(&self) -> Option<&str> {
        None
    }
}

impl<E: Coded> From<E> for Failure {
    fn from(error: E) -> Self {
        let forbidden = error.forbidden().map(str::to_owned);
        Self { forbidden, ..Self::new(error.code(), error.text()) }
    }
}

impl Coded for ConnectError {
    fn code(&self) -> Code {
        match self {
            Self::Unreachable { .. } | Self::ReadOnly { .. } => Code::Unreachable,
            Self::AuthFailed => Code::NotAuthorized,
            Self::Servers { .. }
            | Self::SessionTimeout { .. }
            | Self::TimeoutNotGranted { .. }
            | Self::LeaseTooShort { .. }
            | Self::TickUnknown { .. } => Code::Usage,
            _ => Code::Internal,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::AuthFailed => {
                "the servers reject the credentials; check --digest-file or ZKLOCK_DIGEST, and that the servers know digests"
                    .to_owned()
            }
            Self::LeaseTooShort { timeout, lag, margin, heartbeat } => format!(
                "a session timeout of {} is too short for these servers: the leader takes up to {} to ask for a heartbeat, \
                 clocks may drift by {}, and the rest is too short for three heartbeats of {}; give a longer --session-timeout, or \
                 a shorter --tick if the servers have one",
                duration::text(*timeout),
                duration::text(*lag),
                duration::text(*margin),
                duration::text(*heartbeat)
            ),
            Self::TickUnknown { shorter, longer } => format!(
                "the servers' limits of session timeouts fit a tick of {} and one of {}; look at tickTime in zoo.cfg, and give \
                 it as --tick or ZKLOCK_TICK",
                duration::text(*shorter),
                duration::text(*longer)
            ),
            error => error.to_string(),
        }
    }
}

impl Coded for InvalidLock {
    fn code(&self) -> Code {
        Code::Usage
    }
}

impl Coded for InvalidSequencer {
    fn code(&self) -> Code {
        Code::Usage
    }
}

impl Coded for AcquireError {
    fn code(&self) -> Code {
        match self {
            Self::NotAuthorized { .. } | Self::AuthFailed { .. } => Code::NotAuthorized,
            Self::EphemeralParent { .. } | Self::InvalidAcl { .. } | Self::OtherKind { .. } => Code::Usage,
            Self::ReadOnly { .. } | Self::Unanswered { .. } => Code::Unreachable,
            Self::ForeignContender { .. } => Code::NotAcquired,
            Self::SessionFailed { cause, .. } => cause.code(),
            _ => Code::Internal,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::InvalidAcl { path } => format!(
                "the server does not accept the ACL for {path}; --acl creator needs credentials: give --digest-file, ZKLOCK_DIGEST \
                 or --tls-cert"
            ),
            Self::SessionFailed { path, cause } => {
                format!("no session can be opened any more, so nothing can queue at {path}: {}", cause.text())
            }
            error => error.to_string(),
        }
    }

    fn forbidden(&self) -> Option<&str> {
        match self {
            Self::NotAuthorized { path } => Some(path),
            _ => None,
        }
    }
}

impl Coded for InvalidOnce {
    fn code(&self) -> Code {
        Code::Usage
    }
}

impl Coded for ClaimError {
    fn code(&self) -> Code {
        match self {
            Self::Acquire(error) => error.code(),
            Self::Slot { .. } | Self::SlotForgotten { .. } => Code::Usage,
            Self::NotAuthorized { .. } => Code::NotAuthorized,
            Self::Unanswered { .. } | Self::Unconfirmed { .. } => Code::Unreachable,
            _ => Code::Internal,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Acquire(error) => error.text(),
            error => error.to_string(),
        }
    }

    fn forbidden(&self) -> Option<&str> {
        match self {
            Self::Acquire(error) => error.forbidden(),
            Self::NotAuthorized { path } => Some(path),
            _ => None,
        }
    }
}

impl Coded for CampaignError {
    fn code(&self) -> Code {
        match self {
            Self::Acquire(error) => error.code(),
            Self::Announce(AnnounceError::TooLong { .. }) => Code::Usage,
            Self::Announce(AnnounceError::NotAuthorized { .. }) => Code::NotAuthorized,
            _ => Code::Internal,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Acquire(error) => error.text(),
            Self::Announce(AnnounceError::TooLong { length, longest, .. }) => {
                format!("--value has {length} bytes; shorten it to {longest} at most")
            }
            error => error.to_string(),
        }
    }

    fn forbidden(&self) -> Option<&str> {
        match self {
            Self::Acquire(error) => error.forbidden(),
            Self::Announce(AnnounceError::NotAuthorized { path }) => Some(path),
            _ => None,
        }
    }
}

impl Coded for SemaphoreError {
    fn code(&self) -> Code {
        match self {
            Self::Acquire(error) => error.code(),
            Self::Capacity { .. }
            | Self::Count { .. }
            | Self::Weight { .. }
            | Self::Index { .. }
            | Self::UnknownData { .. }
            | Self::Mixed { .. } => Code::Usage,
            _ => Code::Internal,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Acquire(error) => error.text(),
            Self::Capacity { path, stated, found } => format!(
                "the semaphore at {path} has a capacity of {found}, and --permits states {stated}; state {found}, or delete \
                 {path}/permits while nobody holds a permit, so that the next command sets the capacity"
            ),
            Self::Count { path, stated, found } => format!(
                "{path} has {found} slots, and --slot states {stated}; state {found}, or delete {path}/permits while \
                 nobody holds a slot, so that the next command sets the number"
            ),
            error => error.to_string(),
        }
    }

    fn forbidden(&self) -> Option<&str> {
        match self {
            Self::Acquire(error) => error.forbidden(),
            _ => None,
        }
    }
}

impl Coded for TurnError {
    fn code(&self) -> Code {
        match self {
            Self::Lost { .. } | Self::Unconfirmed { .. } => Code::Lost,
            Self::NotAuthorized { .. } => Code::NotAuthorized,
            _ => Code::Internal,
        }
    }
}

impl Coded for QueryError {
    fn code(&self) -> Code {
        match self {
            Self::NotAuthorized { .. } => Code::NotAuthorized,
            Self::Path { .. } => Code::Usage,
            Self::SessionOver { .. } | Self::Disconnected { .. } | Self::Unanswered { .. } => {
                Code::Unreachable
            }
            _ => Code::Internal,
        }
    }

    fn forbidden(&self) -> Option<&str> {
        match self {
            Self::NotAuthorized { path } => Some(path),
            _ => None,
        }
    }
}

impl Coded for SequencerError {
    fn code(&self) -> Code {
        match self {
            Self::Outdated { .. } => Code::No,
            Self::NotAuthorized { .. } => Code::NotAuthorized,
            Self::SessionOver { .. } | Self::Disconnected { .. } | Self::Unanswered { .. } => {
                Code::Unreachable
            }
            _ => Code::Internal,
        }
    }
}

impl Coded for zookeeper_client::Error {
    fn code(&self) -> Code {
        match self {
            Self::NoAuth | Self::AuthFailed => Code::NotAuthorized,
            Self::BadArguments(_) => Code::Usage,
            Self::NoHosts | Self::Timeout | Self::ConnectionLoss | Self::SessionExpired => Code::Unreachable,
            _ => Code::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_has_failed_ends_with_the_code_of_its_cause() {
        let second = Duration::from_secs(1);
        let cause = ConnectError::TimeoutNotGranted { asked: second * 8, granted: second * 4 };
        let error = AcquireError::SessionFailed { path: "/lock".into(), cause: Box::new(cause) };
        let failure = Failure::from(error);
        assert_eq!(failure.code, Code::Usage);
        assert!(failure.to_string().contains("maxSessionTimeout"), "{failure}");
        assert_eq!(ConnectError::TickUnknown { shorter: second, longer: second }.code(), Code::Usage);
    }

    #[test]
    fn no_answer_in_time_is_unreachable() {
        let (path, waited) = ("/lock".to_owned(), Duration::from_secs(5));
        assert_eq!(AcquireError::Unanswered { path: path.clone(), waited }.code(), Code::Unreachable);
        assert_eq!(QueryError::Unanswered { path, waited }.code(), Code::Unreachable);
        let sequencer = "7:a:1:/lock".parse().expect("a sequencer");
        assert_eq!(SequencerError::Unanswered { sequencer, waited }.code(), Code::Unreachable);
    }

    #[test]
    fn a_conflict_status_replaces_no_other_code() {
        let status = |code| Failure::new(code, "").with_conflict_status(Some(9)).exit();
        assert_eq!(status(Code::NotAcquired), ExitCode::from(9));
        assert_eq!(status(Code::Unreachable), ExitCode::from(69));
    }
}
