//! When the servers last answered a session, by the four-letter word `cons`.
//!
//! A server prints each connection with the id and the timeout of its session, and when it last sent a response on it
//! (`lresp`), pings included ([`ServerCnxn`]). That is a time since an arbitrary moment. So zklock has the server respond to a
//! session of its own, and compares.
//!
//! A server keeps the connection of a session that has gone on to another server, until it finds out. So the last
//! contact is known only if every server answers, and if none of them has the session without a known time. If a server
//! does not answer, the last contact is that of the others or a later one.
//!
//! [`ServerCnxn`]: https://github.com/apache/zookeeper/blob/release-3.9.5/zookeeper-server/src/main/java/org/apache/zookeeper/server/ServerCnxn.java

use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, timeout_at};
use zklock::session::ServerAddress;

use super::answers;
use super::questioner::Questioner;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::{closing, word};

/// How long the servers may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the servers know of a session's last sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contact {
    Heard {
        ago: Duration,
        timeout: Duration,
        by: String,
        /// Why another server does not say. That one may have heard of the session later.
        but: Option<String>,
    },
    /// No server has a connection of it.
    Gone,
    /// A server does not say, for this reason, and no other has heard of it.
    Unknown(String),
}

impl Contact {
    /// How long from now the session lasts at most if its client is dead, unless the leader changes. The leader rounds an
    /// expiry up to its next tick (`ExpiryQueue`). It may learn of the client's last sign of life half a tick later, because
    /// followers tell it when it asks. If no server has a connection of it, its session timeout is taken to be `assumed`.
    pub(crate) fn expires_in(&self, tick: Duration, assumed: Duration) -> Option<Duration> {
        match self {
            Self::Heard { ago, timeout, but: None, .. } => {
                Some((*timeout + tick * 3 / 2).saturating_sub(*ago))
            }
            Self::Gone => Some(assumed + tick * 3 / 2),
            Self::Heard { .. } | Self::Unknown(_) => None,
        }
    }

    /// Whether a client that works would have been heard of since: zklock sends four heartbeats in a session timeout. `None` if
    /// nobody knows.
    pub(crate) fn is_silent(&self) -> Option<bool> {
        match self {
            Self::Heard { ago, timeout, .. } if *ago <= *timeout / 2 => Some(false),
            Self::Heard { but, .. } => but.is_none().then_some(true),
            Self::Gone => Some(true),
            Self::Unknown(_) => None,
        }
    }

    /// How long ago it was. `None` if nobody knows.
    fn ago(&self) -> Option<Duration> {
        match self {
            Self::Heard { ago, .. } => Some(*ago),
            Self::Gone | Self::Unknown(_) => None,
        }
    }
}

/// The sessions that a server has a connection of, or why it does not say.
type Answer = Result<Vec<(i64, Contact)>, String>;

/// A connection, in an answer to `cons`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConsLine {
    session: i64,
    timeout: Duration,
    /// The time of the last response, in milliseconds.
    responded: u64,
    /// Whether the server has responded to every request on it. A request is a sign of life when it arrives.
    is_answered: bool,
}

/// What the servers of the connect string know of these sessions.
pub(crate) async fn ask_contacts(connection: &Connection, sessions: &[i64]) -> Result<Vec<Contact>, Failure> {
    let questioner = Questioner::new(connection)?;
    let deadline = Instant::now() + PATIENCE;
    let servers = connection.servers()?;
    let number = servers.len();
    let answers = join_all(servers.into_iter().enumerate().map(|(index, address)| {
        let questioner = &questioner;
        async move {
            // One of them says whether all are named, also if none has a connection of these sessions.
            let is_first = index == 0;
            let asking = ask_server(questioner, &address, (number, is_first), sessions, deadline);
            let answer = timeout_at(deadline, asking).await;
            answer.unwrap_or_else(|_| Err(format!("{address} did not answer in time")))
        }
    }))
    .await;
    Ok(sessions.iter().map(|session| contact_by_all(*session, &answers)).collect())
}

/// What the answers of all servers say of a session. One that is missing may be of the server that heard of it last.
fn contact_by_all(session: i64, answers: &[Answer]) -> Contact {
    let missing = answers.iter().find_map(|answer| answer.as_ref().err()).cloned();
    let contacts = answers.iter().flatten().flatten().filter(|(known, _)| *known == session);
    // An unknown time is less than any other.
    let latest = contacts.map(|(_, contact)| contact).min_by_key(|contact| contact.ago());
    match (latest.cloned(), missing) {
        (Some(Contact::Heard { ago, timeout, by, .. }), but) => Contact::Heard { ago, timeout, by, but },
        (_, Some(why)) => Contact::Unknown(why),
        (latest, None) => latest.unwrap_or(Contact::Gone),
    }
}

/// The sessions among these that have a connection to this server, and when it last answered each. The connect string
/// names so many servers, and this may be the first one of them.
async fn ask_server(
    questioner: &Questioner,
    address: &ServerAddress,
    (servers, is_first): (usize, bool),
    sessions: &[i64],
    deadline: Instant,
) -> Answer {
    let cons = async || {
        let answer = word::ask_word(address, questioner.tls.as_ref(), "cons", deadline).await;
        let answer = answer.map_err(|why| format!("{address}: {why}"))?;
        let answer = answer.map_err(|mode| format!("{address} is {mode}"))?;
        parse_cons(&answer, &address.to_string())
    };
    let is_asked_for = |line: &ConsLine| sessions.contains(&line.session);
    if !cons().await?.iter().any(is_asked_for) && !is_first {
        return Ok(Vec::new());
    }
    let client = questioner.client(address).await.map_err(|why| format!("{address}: {why}"))?;
    let ours = client.session_id().0;
    let config = client.get_config().await;
    let responded = client.check_stat("/").await;
    let lines = cons().await;
    closing::close_client(client).await;
    match config.map(|(config, _)| answers::parse_members(&String::from_utf8_lossy(&config)).len()) {
        Ok(members) if members <= servers => {}
        Ok(members) => {
            return Err(format!("--servers names {servers} of the {members} servers of the ensemble"));
        }
        Err(_) => return Err(format!("{address} does not say which servers the ensemble has")),
    }
    let (Ok(_), lines) = (responded, lines?) else {
        return Err(format!("{address} does not answer a session"));
    };
    let now = lines.iter().find(|line| line.session == ours).map(|line| line.responded);
    let now = now.ok_or_else(|| format!("{address} does not show this session"))?;
    let told = |line: &ConsLine| (line.session, contact_of(line, now, address.to_string()));
    Ok(lines.iter().filter(|line| is_asked_for(line)).map(told).collect())
}

/// What a connection says, if the server responded to another one at this time. Before the first response on it, a
/// session has just been resumed there, and may have been anywhere meanwhile. A request without a response may have come
/// later than the last response.
fn contact_of(line: &ConsLine, now: u64, by: String) -> Contact {
    match line.responded {
        0 => Contact::Unknown(format!("its session was resumed at {by}, which has not answered it yet")),
        _ if !line.is_answered => {
            Contact::Unknown(format!("{by} has requests of it that it has not answered yet"))
        }
        responded => {
            let ago = Duration::from_millis(now.saturating_sub(responded));
            Contact::Heard { ago, timeout: line.timeout, by, but: None }
        }
    }
}

/// The connections of sessions in this server's answer to `cons`, or why it does not show all of them.
fn parse_cons(answer: &str, by: &str) -> Result<Vec<ConsLine>, String> {
    if answer.contains("not currently serving requests") {
        return Err(format!("{by} has no quorum"));
    }
    if answer.contains("not in the whitelist") {
        return Err(format!("4lw.commands.whitelist of {by} does not have cons"));
    }
    if answer.len() as u64 >= word::LONGEST {
        return Err(format!("the answer of {by} to cons is longer than 4 MiB"));
    }
    // The answer ends with an empty line.
    let is_whole = answer.contains("](queued=") && answer.ends_with("\n\n");
    if !is_whole && !answer.trim().is_empty() {
        return Err(format!("the answer of {by} to cons cannot be read"));
    }
    Ok(answer.lines().filter_map(parse_connection).collect())
}

fn parse_connection(line: &str) -> Option<ConsLine> {
    let (_, fields) = line.split_once("](")?;
    let field = |name: &str| {
        let mut fields = fields.trim_end_matches(')').split(',');
        fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    };
    let number = |name: &str| field(name)?.parse::<i64>().ok();
    let is_idle = number("queued").is_some_and(|queued| queued <= 0);
    // A server sends a response to each packet that it receives, and notifications.
    let is_even = number("recved").zip(number("sent")).is_some_and(|(received, sent)| received <= sent);
    let session = u64::from_str_radix(field("sid")?.trim_start_matches("0x"), 16).ok()?;
    Some(ConsLine {
        session: session.cast_signed(),
        timeout: Duration::from_millis(field("to")?.parse().ok()?),
        responded: field("lresp")?.parse().ok()?,
        is_answered: is_idle && is_even,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONS: &str = " /127.0.0.1:51904[1](queued=0,recved=7,sent=7,sid=0x9000a2c1d0b0002,lop=PING,est=1795595201338,to=10000,\
        lcxid=0x3,lzxid=0x100000012,lresp=5177309,llat=0,minlat=0,avglat=1,maxlat=9)\n\
        /127.0.0.1:51910[0](queued=0,recved=1,sent=0)\n\n";

    const TICK: Duration = Duration::from_secs(2);
    const TIMEOUT: Duration = Duration::from_secs(10);

    fn heard(ago: u64, by: &str) -> Contact {
        Contact::Heard { ago: Duration::from_secs(ago), timeout: TIMEOUT, by: by.to_owned(), but: None }
    }

    #[test]
    fn cons_names_sessions_and_its_own_connection_has_none() {
        let session = 0x0900_0a2c_1d0b_0002;
        let known = ConsLine { session, timeout: TIMEOUT, responded: 5_177_309, is_answered: true };
        assert_eq!(parse_cons(CONS, "zk2"), Ok(vec![known]));
    }

    #[test]
    fn an_answer_that_does_not_show_all_connections_is_refused_with_the_reason() {
        let refused = |answer: &str| parse_cons(answer, "zk2").unwrap_err();
        let unlisted = "cons is not executed because it is not in the whitelist.\n";
        assert_eq!(refused(unlisted), "4lw.commands.whitelist of zk2 does not have cons");
        let alone = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(refused(alone), "zk2 has no quorum");
        let long = CONS.repeat(30_000);
        assert_eq!(refused(&long), "the answer of zk2 to cons is longer than 4 MiB");
        // A part of an answer says nothing of those who are not in it.
        assert_eq!(refused(CONS.trim_end()), "the answer of zk2 to cons cannot be read");
        assert_eq!(refused("who are you?"), "the answer of zk2 to cons cannot be read");
    }

    #[test]
    fn a_request_that_waits_for_its_response_makes_the_time_unknown() {
        let behind = ["queued=1,recved=7,sent=7", "queued=0,recved=8,sent=7", "queued=0,sent=7"];
        for fields in behind {
            let cons = CONS.replacen("queued=0,recved=7,sent=7", fields, 1);
            let [line] = parse_cons(&cons, "zk2").unwrap()[..] else { panic!("{fields}") };
            let why = "zk2 has requests of it that it has not answered yet";
            assert_eq!(contact_of(&line, 5_179_309, "zk2".to_owned()), Contact::Unknown(why.to_owned()));
        }
        // Notifications are no responses.
        let notified = CONS.replacen("sent=7", "sent=9", 1);
        assert!(parse_cons(&notified, "zk2").unwrap()[0].is_answered);
    }

    #[test]
    fn the_last_contact_is_known_only_if_every_server_says_all() {
        let unknown = |why: &str| Contact::Unknown(why.to_owned());
        let [old, new, resumed] = [heard(8, "zk1"), heard(2, "zk3"), unknown("resumed at zk2")];
        let said = |contact: &Contact| Ok(vec![(7, contact.clone()), (8, heard(0, "zk4"))]);
        let none = || Ok(vec![]);
        assert_eq!(contact_by_all(7, &[said(&old), none(), said(&new)]), new);
        assert_eq!(contact_by_all(7, &[said(&old), none(), none()]), old);
        assert_eq!(contact_by_all(9, &[said(&old), none()]), Contact::Gone);
        // It went on to zk2, and zk1 keeps its old connection.
        assert_eq!(contact_by_all(7, &[said(&old), said(&resumed)]), resumed);
        assert_eq!(contact_by_all(7, &[said(&resumed), said(&new)]), resumed);
        let refused = || Err("zk2 has no quorum".to_owned());
        assert_eq!(contact_by_all(9, &[none(), refused()]), unknown("zk2 has no quorum"));
        assert_eq!(contact_by_all(7, &[said(&resumed), refused()]), unknown("zk2 has no quorum"));
        // It lives, whatever the other server has heard; or nobody knows, because that one may have heard of it since.
        let [new, old] = [new, old].map(|known| contact_by_all(7, &[said(&known), refused()]));
        assert!(
            matches!(&new, Contact::Heard { by, but: Some(why), .. } if by == "zk3" && why == "zk2 has no quorum")
        );
        assert_eq!((new.is_silent(), old.is_silent()), (Some(false), None));
        assert_eq!(old.expires_in(TICK, TIMEOUT), None);
    }

    #[test]
    fn a_session_that_was_just_resumed_has_no_last_answer() {
        let [line] = parse_cons(CONS, "zk2").unwrap()[..] else { panic!() };
        assert_eq!(contact_of(&line, 5_179_309, "zk2".to_owned()), heard(2, "zk2"));
        let resumed = contact_of(&ConsLine { responded: 0, ..line }, 5_179_309, "zk2".to_owned());
        assert_eq!(resumed.expires_in(TICK, TIMEOUT), None);
        assert!(matches!(resumed, Contact::Unknown(why) if why.contains("resumed")));
    }

    #[test]
    fn a_session_expires_at_a_tick_behind_its_timeout() {
        let seconds = Duration::from_secs;
        assert_eq!(heard(4, "zk1").expires_in(TICK, seconds(20)), Some(seconds(9)));
        assert_eq!(heard(20, "zk1").expires_in(TICK, seconds(20)), Some(Duration::ZERO));
        assert_eq!(Contact::Gone.expires_in(TICK, seconds(20)), Some(seconds(23)));
        assert_eq!([5, 6].map(|ago| heard(ago, "zk1").is_silent()), [Some(false), Some(true)]);
    }
}
