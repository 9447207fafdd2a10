//! Why a command of the program failed, and which error has which exit code.

use std::fmt::{self, Display};
use std::panic;
use std::process::{self, ExitCode};
use std::thread;

use zklock::{
    AcquireError, ConnectError, InvalidLock, InvalidMultiLock, QueryError,
    election::{AnnounceError, CampaignError},
    fence::InvalidSequencer,
    once::{ClaimError, InvalidOnce, RecordError},
    semaphore::{InvalidPool, PoolError},
};
use zookeeper_client::Permission;

use crate::console::Console;
use crate::exit::Code;
use crate::{duration, text};

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

/// What is said of credentials that the servers do not accept.
pub(crate) const REJECTED: &str = "\
the servers reject the credentials; check --digest-file or ZKLOCK_DIGEST; also check that digest authentication is enabled \
on the servers, and whether they demand SASL: then add --sasl digest-md5";

/// The permissions that a contender needs in its queue.
const QUEUE: &[Permission] = &[Permission::READ, Permission::CREATE, Permission::DELETE];

/// The permissions of those who keep records in a directory.
const RECORDS: &[Permission] = &[Permission::READ, Permission::WRITE, Permission::CREATE, Permission::DELETE];

/// Why a command of the program failed, and what the program exits with.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    message: String,
    /// The exit code that the user wants in place of `code`.
    status: Option<u8>,
    /// Whether the exit code is enough for a user who wants only errors.
    is_expected: bool,
    /// The path that an ACL keeps from this client, and the permissions that the client needs there.
    forbidden: Option<(String, &'static [Permission])>,
    /// Whether somebody deleted the contender's node.
    pub(crate) has_lost_its_place: bool,
}

pub(crate) type Outcome = Result<ExitCode, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, message: impl Display) -> Self {
        let message = message.to_string();
        Self { code, message, status: None, is_expected: false, forbidden: None, has_lost_its_place: false }
    }

    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(Code::Usage, message)
    }

    pub(crate) fn internal(message: impl Display) -> Self {
        Self::new(Code::Internal, message)
    }

    /// The same failure, with `status` in place of 75 if the lock was not acquired.
    pub(crate) fn with_conflict_status(self, status: Option<u8>) -> Self {
        let status = status.filter(|_| self.code == Code::NotAcquired);
        Self { status, ..self }
    }

    /// Tells the user, unless the exit code is all that this user wants to know.
    pub(crate) fn print(&self, console: Console) {
        if self.is_expected && console.is_quiet() {
            return;
        }
        console.error(self);
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        self.status.map_or_else(|| self.code.into(), ExitCode::from)
    }

    pub(crate) fn forbidden(path: &str, needed: &'static [Permission], message: impl Display) -> Self {
        Self { forbidden: Some((path.to_owned(), needed)), ..Self::new(Code::NotAuthorized, message) }
    }

    /// An answer rather than an error, so that a quiet console prints nothing.
    pub(crate) fn expected(self) -> Self {
        Self { is_expected: true, ..self }
    }

    /// The path that an ACL keeps from this client, and the permissions that the client needs there.
    pub(crate) fn forbidden_path(&self) -> Option<(&str, &'static [Permission])> {
        self.forbidden.as_ref().map(|(path, needed)| (path.as_str(), *needed))
    }

    /// The same, for a client with this chroot. So far the path is from the servers' root.
    pub(crate) fn below_chroot(self, chroot: &str) -> Self {
        let known = self.forbidden_path();
        let known =
            known.and_then(|(path, all)| Some((path.strip_prefix(chroot.trim_end_matches('/'))?, all)));
        let known = known.filter(|(path, _)| path.starts_with('/'));
        Self { forbidden: known.map(|(path, needed)| (path.to_owned(), needed)), ..self }
    }

    pub(crate) fn with_fact(self, fact: impl Display) -> Self {
        Self { message: format!("{}: {fact}", self.message), ..self }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error of the library or of the client.
///
/// The library's own message may name the library's options, which the program's users do not have. Then the program has
/// a message of its own. Unless its type says more, it is a matter of usage.
trait Cause: Display + Sized {
    fn failure(&self) -> Failure {
        Failure::usage(self)
    }
}

impl<E: Cause> From<E> for Failure {
    fn from(error: E) -> Self {
        error.failure()
    }
}

impl Cause for ConnectError {
    fn failure(&self) -> Failure {
        match self {
            Self::Unreachable { .. } | Self::ReadOnly { .. } => Failure::new(Code::Unreachable, self),
            Self::AuthFailed => Failure::new(Code::NotAuthorized, REJECTED),
            Self::NoChroot { chroot } => Failure::new(
                Code::Nothing,
                format_args!(
                    "the chroot {chroot} does not exist; check --servers, or create the chroot: `zklock run` and `zklock lead` \
                     do so with --create-chroot"
                ),
            ),
            Self::Servers { .. } => Failure::usage(self),
            Self::SessionTimeout { timeout, shortest, longest } => Failure::usage(format_args!(
                "a session timeout of {} is out of range; give one from {} to {}",
                duration::text(*timeout),
                duration::text(*shortest),
                duration::text(*longest)
            )),
            Self::TimeoutNotGranted { asked, granted } => Failure::usage(format_args!(
                "the servers grant a session timeout of {0} instead of {1}; give --session-timeout {0}, or change \
                 minSessionTimeout or maxSessionTimeout of the servers",
                duration::text(*granted),
                duration::text(*asked)
            )),
            Self::LeaseTooShort { timeout, lag, margin, heartbeat } => Failure::usage(format_args!(
                "a session timeout of {} is too short for these servers: the leader may take {} to ask for a \
                 heartbeat, clock drift takes {} (--clock-drift), and three heartbeats of {} do not fit into the rest; give a \
                 longer --session-timeout, or give --tick if the servers' tickTime is shorter",
                duration::text(*timeout),
                duration::text(*lag),
                duration::text(*margin),
                duration::text(*heartbeat)
            )),
            Self::TickUnknown { shorter, longer } => Failure::usage(format_args!(
                "zklock cannot tell whether the servers' tick is {} or {}; look at tickTime in zoo.cfg, and give it as \
                 --tick or ZKLOCK_TICK",
                duration::text(*shorter),
                duration::text(*longer)
            )),
            _ => Failure::internal(self),
        }
    }
}

impl Cause for InvalidLock {}

impl Cause for InvalidMultiLock {}

impl Cause for InvalidOnce {}

impl Cause for InvalidPool {}

impl Cause for InvalidSequencer {}

impl Cause for AcquireError {
    fn failure(&self) -> Failure {
        match self {
            Self::NotAuthorized { path } => Failure::forbidden(path, QUEUE, self),
            Self::EphemeralParent { .. } | Self::OtherKind { .. } => Failure::usage(self),
            Self::InvalidAcl { path } => Failure::usage(format_args!(
                "the server does not accept the ACL for {path}; --acl creator needs credentials: give --digest-file, ZKLOCK_DIGEST \
                 or --tls-cert. With --sasl, `zklock doctor` shows whether the servers have taken them"
            )),
            Self::ReadOnly { .. } | Self::Unanswered { .. } => Failure::new(Code::Unreachable, self),
            Self::NoChroot { path } => Failure::new(
                Code::Nothing,
                format_args!(
                    "somebody has deleted the chroot of --servers, so nothing can be acquired at {path}; create the chroot \
                     again, or give --create-chroot"
                ),
            ),
            Self::ForeignContender { .. } => Failure::new(Code::NotAcquired, self),
            Self::Asked { .. } => Failure::new(Code::NotAcquired, text::harmless(&self.to_string())),
            Self::SessionFailed { path, cause } => {
                let cause = cause.failure();
                let message = format!(
                    "the servers refuse to open another session, so zklock cannot queue at {path}: {cause}"
                );
                Failure::new(cause.code, message)
            }
            Self::NodeDeleted { .. } => Failure { has_lost_its_place: true, ..Failure::internal(self) },
            _ => Failure::internal(self),
        }
    }
}

impl Cause for PoolError {
    fn failure(&self) -> Failure {
        match self {
            Self::Acquire(error) => error.failure(),
            Self::Capacity { path, stated, found } => Failure::usage(format_args!(
                "the semaphore at {path} has a capacity of {found}, but --permits states {stated}. If the capacity was changed to \
                 {found}, state {found}. If it must be {stated}, run `zklock resize {path} {stated}`"
            )),
            Self::Count { path, stated, found } => Failure::usage(format_args!(
                "{path} has {}, but --slot states {stated}. If the number was changed to {found}, state {found}. If it must be \
                 {stated}, run `zklock resize {path} {stated}`",
                text::counted(*found, "slot")
            )),
            Self::Weight { .. }
            | Self::Index { .. }
            | Self::Number { .. }
            | Self::UnknownData { .. }
            | Self::Mixed { .. } => Failure::usage(self),
            _ => Failure::internal(self),
        }
    }
}

impl Cause for CampaignError {
    fn failure(&self) -> Failure {
        match self {
            Self::Acquire(error) => error.failure(),
            Self::Announce(AnnounceError::NotAuthorized { path }) => {
                Failure::forbidden(path, &[Permission::CREATE, Permission::DELETE], self)
            }
            Self::Announce(AnnounceError::TooLong { length, longest, .. }) => {
                Failure::usage(format_args!("--value has {length} bytes; shorten it to {longest} at most"))
            }
            _ => Failure::internal(self),
        }
    }
}

impl Cause for ClaimError {
    fn failure(&self) -> Failure {
        match self {
            Self::Acquire(error) => error.failure(),
            Self::RecordNotAuthorized { path } => Failure::forbidden(path, RECORDS, self),
            Self::InvalidName { .. } | Self::Forgotten { .. } => Failure::usage(self),
            Self::Unconfirmed { .. } => Failure::new(Code::Unreachable, self),
            _ => Failure::internal(self),
        }
    }
}

impl Cause for RecordError {
    fn failure(&self) -> Failure {
        match self {
            Self::Lost { .. } | Self::Unconfirmed { .. } => Failure::new(Code::Lost, self),
            Self::NotAuthorized { path } => Failure::forbidden(path, RECORDS, self),
            _ => Failure::internal(self),
        }
    }
}

impl Cause for QueryError {
    fn failure(&self) -> Failure {
        match self {
            Self::NotAuthorized { path } => Failure::forbidden(path, &[Permission::READ], self),
            Self::Path { .. } => Failure::usage(self),
            Self::Outdated { .. } => Failure::new(Code::No, self),
            Self::SessionOver { .. } | Self::Disconnected { .. } | Self::Unanswered { .. } => {
                Failure::new(Code::Unreachable, self)
            }
            _ => Failure::internal(self),
        }
    }
}

impl Cause for zookeeper_client::Error {
    fn failure(&self) -> Failure {
        match self {
            Self::NoAuth | Self::AuthFailed => Failure::new(Code::NotAuthorized, self),
            Self::BadArguments(_) => Failure::usage(self),
            Self::NoHosts | Self::Timeout | Self::ConnectionLoss | Self::SessionExpired => {
                Failure::new(Code::Unreachable, self)
            }
            _ => Failure::internal(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_session_that_has_failed_ends_with_the_code_of_its_cause() {
        let second = Duration::from_secs(1);
        let cause = ConnectError::TimeoutNotGranted { asked: second * 8, granted: second * 4 };
        let error = AcquireError::SessionFailed { path: "/lock".into(), cause: Box::new(cause) };
        let failure = Failure::from(error);
        assert_eq!(failure.code, Code::Usage);
        assert!(failure.to_string().contains("maxSessionTimeout"), "{failure}");
        assert_eq!(ConnectError::TickUnknown { shorter: second, longer: second }.failure().code, Code::Usage);
    }

    #[test]
    fn a_path_from_the_servers_root_is_told_to_a_client_below_a_chroot() {
        let below = |path: &str, chroot| {
            let forbidden = Failure::forbidden(path, &[Permission::READ], "").below_chroot(chroot).forbidden;
            forbidden.map(|(path, _)| path)
        };
        assert_eq!(below("/app/lock", "/app").as_deref(), Some("/lock"));
        assert_eq!(below("/app/lock", "/").as_deref(), Some("/app/lock"));
        assert_eq!(below("/application/lock", "/app"), None);
        assert_eq!(below("/other/lock", "/app"), None);
    }

    #[test]
    fn no_answer_in_time_is_unreachable() {
        let path = "/lock".to_owned();
        let waited = Duration::from_secs(5);
        assert_eq!(AcquireError::Unanswered { path: path.clone(), waited }.failure().code, Code::Unreachable);
        assert_eq!(QueryError::Unanswered { path, waited }.failure().code, Code::Unreachable);
    }
}
