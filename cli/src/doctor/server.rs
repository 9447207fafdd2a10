//! The questions to one server.

use std::net::IpAddr;

use futures::future::{join_all, join3};
use tokio::time::{Instant, timeout_at};
use zklock::session::ServerAddress;

use super::seen::{Server, Visit};
use crate::servers::{Questioner, Words, ask_conf, ask_srvr, parse_members, refusal_text};
use crate::{closing, duration};

pub(super) async fn examine_server(questioner: &Questioner, address: ServerAddress) -> Server {
    let tls = questioner.tls.as_ref();
    let deadline = Instant::now() + questioner.patience;
    let words = async {
        let words = ask_srvr(tls, &address, deadline).await;
        let answers = words.as_ref().is_ok_and(|words| words.mode.problem().is_none());
        let settings = if answers { ask_conf(tls, &address, deadline).await } else { None };
        (words, settings)
    };
    let visit = async {
        let late = |_| Err(format!("no answer within {}", duration::text(questioner.patience)));
        timeout_at(deadline, visit_server(questioner, &address)).await.unwrap_or_else(late)
    };
    let (hosts, (mut words, settings), mut visit) =
        join3(resolve_host(&address.host, deadline), words, visit).await;
    let members = visit.iter_mut().filter_map(|visit| visit.members.as_mut()).flatten();
    join_all(members.map(async |member| member.hosts = resolve_host(&member.host, deadline).await)).await;
    // A proxy on the way may let sessions pass, and no words.
    if visit.is_ok() && !words.as_ref().is_ok_and(|words| words.mode.problem().is_none()) {
        words = Ok(Words::default());
    }
    Server { address, hosts, words, settings, visit }
}

/// A session with this server alone.
async fn visit_server(questioner: &Questioner, address: &ServerAddress) -> Result<Visit, String> {
    let client = questioner.client(address).await?;
    let config = client.get_config().await.ok();
    let identities = client.list_auth_users().await.unwrap_or_default();
    // The session may have ended by now, for instance because the server rejects the credentials.
    let answered = client.check_stat("/").await;
    let longest_timeout = client.session_timeout();
    closing::close_client(client).await;
    answered.map_err(|error| refusal_text(&error))?;
    Ok(Visit {
        longest_timeout,
        members: config.map(|(config, _)| parse_members(&String::from_utf8_lossy(&config))),
        identities: identities.iter().map(|user| format!("{}:{}", user.scheme(), user.user())).collect(),
    })
}

async fn resolve_host(host: &str, deadline: Instant) -> Vec<IpAddr> {
    let named = tokio::net::lookup_host((host, 0));
    match timeout_at(deadline, named).await {
        Ok(Ok(hosts)) => hosts.map(|host| host.ip()).collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}
