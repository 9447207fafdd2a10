//! What a process of the simulated system is to do.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zklock_contest::contender::Pace;
use zklock_contest::member::Member;
use zklock_contest::members::rules;
use zookeeper_client::Client;

/// A holder begins to watch its node so long after its grant at the latest (docs/DESIGN.md).
pub(crate) const SETTLING: Duration = Duration::from_millis(40);

/// Whether its caller has the guard in the step in which that is granted. Otherwise zklock writes to a server in between, and the
/// process may be stopped.
pub(crate) fn is_given_at_once(member: Member) -> bool {
    !matches!(member, Member::Election | Member::Once)
}

#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// What its tasks contend for.
    pub member: Member,
    /// The connect string.
    pub servers: String,
    /// The longest session timeout that servers grant.
    pub timeout: Duration,
    /// Whether the process asks for that one, and takes no shorter one.
    pub is_exact: bool,
    /// The servers' tick.
    pub tick: Duration,
    /// How many tasks contend.
    pub tasks: u16,
    /// How fast they contend.
    pub pace: Pace,
    /// How far clocks may drift, in parts per million.
    pub drift: Option<u32>,
    /// Whether servers forget what they have acknowledged.
    pub forgets: bool,
    /// How long it takes at most until a holder hears that its node is gone, while nothing else is wrong.
    pub told: Duration,
    /// For how long it waits before it takes over, if it is zklock's.
    pub delay: Option<Duration>,
}

impl Part {
    /// Connects a plain client, such as an operator has.
    pub(crate) async fn connect(&self) -> Client {
        loop {
            let connector = Client::connector().with_session_timeout(self.timeout);
            match timeout(self.timeout, connector.connect(&self.servers)).await {
                Ok(Ok(client)) => return client,
                Ok(Err(_)) | Err(_) => sleep(self.timeout / 20).await,
            }
        }
    }

    /// Whether the process of this client is another client's, in whose queue zklock contends.
    pub(crate) fn is_foreign(&self, client: u16) -> bool {
        (rules(self.member).is_foreign)(client)
    }
}
