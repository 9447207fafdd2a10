//! When the servers last answered a session, by the four-letter word `cons`.
//!
//! A server prints each connection with the id and the timeout of its session, and when it last sent a response on it
//! (`lresp`), pings included ([`ServerCnxn`]). That is a time since an arbitrary moment. So the doctor has the server respond to a
//! session of its own, and compares.
//!
//! [`ServerCnxn`]: https://github.com/apache/zookeeper/blob/release-3.9.5/zookeeper-server/src/main/java/org/apache/zookeeper/server/ServerCnxn.java

use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, timeout_at};

use super::seen::Contact;
use super::server::Questioner;
use super::word;
use crate::closing;
use crate::connection::{Address, Connection};
use crate::failure::Failure;

/// How long the servers may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// A connection, in an answer to `cons`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    session: i64,
    timeout: Duration,
    /// The time of the last response, in milliseconds.
    responded: u64,
}

/// What the servers of the connect string know of these sessions.
pub(crate) async fn contacts(connection: &Connection, sessions: &[i64]) -> Result<Vec<Contact>, Failure> {
    let questioner = Questioner::new(connection)?;
    let deadline = Instant::now() + PATIENCE;
    let answers = join_all(connection.servers()?.into_iter().map(|address| {
        let questioner = &questioner;
        async move {
            let answer = timeout_at(deadline, ask(questioner, &address, sessions, deadline)).await;
            answer.unwrap_or_else(|_| Err(format!("{address} did not answer in time")))
        }
    }))
    .await;
    let contact = |session: &i64| {
        let heard = answers.iter().flatten().flatten().filter(|(known, _)| known == session);
        let latest = heard.map(|(_, contact)| contact).min_by_key(|contact| contact.ago());
        match (latest, answers.iter().find_map(|answer| answer.as_ref().err())) {
            (Some(contact), _) => contact.clone(),
            (None, Some(why)) => Contact::Unknown(why.clone()),
            (None, None) => Contact::Gone,
        }
    };
    Ok(sessions.iter().map(contact).collect())
}

/// The sessions among these that have a connection to this server, and when it last answered each.
async fn ask(
    questioner: &Questioner,
    address: &Address,
    sessions: &[i64],
    deadline: Instant,
) -> Result<Vec<(i64, Contact)>, String> {
    let cons = async || {
        let answer = word::ask(address, questioner.tls(), "cons", deadline).await;
        let answer = answer.map_err(|why| format!("{address}: {why}"))?;
        let answer = answer.map_err(|mode| format!("{address} is {mode}"))?;
        lines(&answer).ok_or_else(|| format!("4lw.commands.whitelist of {address} does not have cons"))
    };
    let is_asked_for = |line: &Line| sessions.contains(&line.session);
    if !cons().await?.iter().any(is_asked_for) {
        return Ok(Vec::new());
    }
    let client = questioner.client(address).await.map_err(|why| format!("{address}: {why}"))?;
    let ours = client.session_id().0;
    let responded = client.check_stat("/").await;
    let lines = cons().await;
    closing::client(client).await;
    let (Ok(_), lines) = (responded, lines?) else {
        return Err(format!("{address} does not answer a session"));
    };
    let now = lines.iter().find(|line| line.session == ours).map(|line| line.responded);
    let now = now.ok_or_else(|| format!("{address} does not show this session"))?;
    let told = |line: &Line| (line.session, contact(line, now, address.to_string()));
    Ok(lines.iter().filter(|line| is_asked_for(line)).map(told).collect())
}

/// What a connection says, if the server responded to another one at this time. Before the first response on it, a session has
/// just been resumed there, and may have been anywhere meanwhile.
fn contact(line: &Line, now: u64, by: String) -> Contact {
    match line.responded {
        0 => Contact::Unknown(format!("its session was resumed at {by}, which has not answered it yet")),
        responded => {
            let ago = Duration::from_millis(now.saturating_sub(responded));
            Contact::Heard { ago, timeout: line.timeout, by }
        }
    }
}

/// The connections of sessions in an answer to `cons`. `None` if the server refuses to answer, or if not all was read.
fn lines(answer: &str) -> Option<Vec<Line>> {
    // The answer ends with an empty line.
    let is_whole = answer.ends_with("\n\n") || answer.trim().is_empty();
    let is_answer = answer.trim().is_empty() || answer.contains("](queued=");
    (is_answer && is_whole).then(|| answer.lines().filter_map(line).collect())
}

fn line(line: &str) -> Option<Line> {
    let (_, fields) = line.split_once("](")?;
    let field = |name: &str| {
        let mut fields = fields.trim_end_matches(')').split(',');
        fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    };
    let session = u64::from_str_radix(field("sid")?.trim_start_matches("0x"), 16).ok()?;
    Some(Line {
        session: session.cast_signed(),
        timeout: Duration::from_millis(field("to")?.parse().ok()?),
        responded: field("lresp")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONS: &str = " /127.0.0.1:51904[1](queued=0,recved=7,sent=7,sid=0x9000a2c1d0b0002,lop=PING,est=1795595201338,to=10000,\
        lcxid=0x3,lzxid=0x100000012,lresp=5177309,llat=0,minlat=0,avglat=1,maxlat=9)\n\
        /127.0.0.1:51910[0](queued=0,recved=1,sent=0)\n\n";

    #[test]
    fn cons_names_sessions_and_its_own_connection_has_none() {
        let seconds = Duration::from_secs;
        let known = Line { session: 0x0900_0a2c_1d0b_0002, timeout: seconds(10), responded: 5_177_309 };
        assert_eq!(lines(CONS), Some(vec![known]));
        assert_eq!(lines("cons is not executed because it is not in the whitelist.\n"), None);
        // A part of an answer says nothing of those who are not in it.
        assert_eq!(lines(CONS.trim_end()), None);
    }

    #[test]
    fn a_session_that_was_just_resumed_has_no_last_answer() {
        let [line] = lines(CONS).unwrap()[..] else { panic!() };
        let answered = contact(&line, 5_179_309, "zk2".to_owned());
        let seconds = Duration::from_secs;
        assert_eq!(answered, Contact::Heard { ago: seconds(2), timeout: seconds(10), by: "zk2".to_owned() });
        let resumed = contact(&Line { responded: 0, ..line }, 5_179_309, "zk2".to_owned());
        assert_eq!(resumed.expires_in(seconds(2)), None);
        assert!(matches!(resumed, Contact::Unknown(why) if why.contains("resumed")));
    }

    #[test]
    fn a_session_expires_at_a_tick_behind_its_timeout() {
        let seconds = Duration::from_secs;
        let heard = |ago| Contact::Heard { ago: seconds(ago), timeout: seconds(10), by: String::new() };
        assert_eq!(heard(4).expires_in(seconds(2)), Some(seconds(9)));
        assert_eq!(heard(20).expires_in(seconds(2)), Some(Duration::ZERO));
        assert_eq!(Contact::Gone.expires_in(seconds(2)), None);
        assert_eq!([heard(5), heard(6)].map(|contact| contact.is_silent()), [false, true]);
    }
}
