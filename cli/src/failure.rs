//! How the program ends: the one table of exit codes, and which error means which.

use std::fmt::{self, Display};
use std::panic;
use std::process::{self, ExitCode};
use std::thread;
use std::time::Duration;

use zklock::{AcquireError, ConnectError, InvalidLock, InvalidSequencer, QueryError, SequencerError};

use crate::duration;

/// What the program ends with when there is no command's own status to pass on. From `sysexits.h` where that has a word
/// for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The question was answered, with no.
    No = 1,
    Usage = 64,
    Unreachable = 69,
    Internal = 70,
    NotAcquired = 75,
    Lost = 76,
    NotAuthorized = 77,
    NotExecutable = 126,
    NotFound = 127,
}

/// Behind `--help`.
pub(crate) const TABLE: &str = "\
Exit codes:
  CMD's own  what `run` ends with if CMD ran; 128+N if signal N ended it
  0    done; the answer is yes
  1    the answer is no: an outdated claim (verify), nothing released (release), something to mend (doctor)
  64   usage: a wrong option, or one that does not fit the session
  69   ZooKeeper cannot be reached, does not answer in time, or has no quorum
  70   an internal error, or one of ZooKeeper's that has no code here
  75   the lock was not acquired in time, or a contender of another client is in its queue
  76   the lock was lost while CMD ran
  77   not authorized: rejected credentials, or an ACL
  126  CMD was found, but cannot be run
  127  CMD was not found
  128+N  signal N ended the wait for the lock";

/// Has a bug end the program at once, as an internal error. Unwinding would release the lock while the command is there;
/// without us its warden ends it, and our session expires later.
pub(crate) fn at_once_on_panic() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |bug| {
        tell(bug);
        // What other threads do, their tasks' owners learn of.
        if thread::current().name() == Some("main") {
            process::exit(Code::Internal as i32);
        }
    }));
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// Why a command of the program failed, and what it ends with.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    message: String,
}

/// What a command of the program comes to.
pub(crate) type Outcome = Result<ExitCode, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, message: impl Display) -> Self {
        Self { code, message: message.to_string() }
    }

    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(Code::Usage, message)
    }

    pub(crate) fn internal(message: impl Display) -> Self {
        Self::new(Code::Internal, message)
    }

    /// No server of these answered in time.
    pub(crate) fn unreachable(servers: &str, patience: Duration) -> Self {
        let patience = duration::text(patience);
        Self::new(Code::Unreachable, format_args!("no server of {servers:?} answered within {patience}"))
    }

    /// Standard output cannot be written to.
    pub(crate) fn output(error: &std::io::Error) -> Self {
        Self::internal(format_args!("the result cannot be written: {error}"))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Errors of which each has a code.
trait Coded: Display {
    fn code(&self) -> Code;
}

impl<E: Coded> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error.code(), error)
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
            Self::EphemeralParent { .. } | Self::InvalidAcl { .. } => Code::Usage,
            Self::ReadOnly { .. } | Self::Unanswered { .. } => Code::Unreachable,
            Self::ForeignContender { .. } => Code::NotAcquired,
            Self::SessionFailed { cause, .. } => cause.code(),
            _ => Code::Internal,
        }
    }
}

impl Coded for QueryError {
    fn code(&self) -> Code {
        match self {
            Self::NotAuthorized { .. } => Code::NotAuthorized,
            Self::SessionOver { .. } | Self::Disconnected { .. } | Self::Unanswered { .. } => {
                Code::Unreachable
            }
            _ => Code::Internal,
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
    fn the_table_has_each_code() {
        for code in [
            Code::No,
            Code::Usage,
            Code::Unreachable,
            Code::Internal,
            Code::NotAcquired,
            Code::Lost,
            Code::NotAuthorized,
            Code::NotExecutable,
            Code::NotFound,
        ] {
            let line = format!("\n  {:<3}  ", code as u8);
            assert!(TABLE.contains(&line), "{code:?}");
        }
    }

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
}
