//! The last leader: when all contenders have finished, every observer is to be told of one more, and of its end.

use std::time::Duration;

use anyhow::Context;
use zklock::Session;
use zklock_contest::announcements::{Announcement, Announcements};
use zklock_contest::member::Member;
use zklock_contest::members::TICK;
use zklock_contest::record::Who;

use super::servers::{LESSER_TIMEOUT, Servers};
use super::state::State;
use crate::harness::now;

/// How long it may take to lead, and to tell all observers, when all servers serve.
const BOUND: Duration = Duration::from_secs(20);

/// What it announces.
const VALUE: &str = "the last leader";

/// The coordinator has no client's number.
const LEADER: Who = Who { client: 0, task: 1 };

/// Leads, and resigns. Returns what it announced, and the observers that were not told of it.
pub(super) async fn lead(
    servers: &Servers,
    state: &State,
    observers: &[(Member, Who)],
) -> anyhow::Result<Announcements> {
    // Every server grants this timeout.
    let session = Session::builder(servers.ensemble.connect_string()).session_timeout(LESSER_TIMEOUT);
    let session = session.tick(TICK).connect_timeout(BOUND).connect().await.context("no session")?;
    let at = now();
    let leadership = session.election(&Member::Election.root())?.campaign_timeout(VALUE, BOUND).await?;
    let leadership = leadership.context("an idle election has no leader in time")?;
    let token = leadership.token();
    let mut uninformed = state.uninformed_within(BOUND, observers, Some(token)).await;
    leadership.resign().await?;
    uninformed.extend(state.uninformed_within(BOUND, observers, None).await);
    uninformed.sort();
    uninformed.dedup();
    session.close().await?;
    let announcement = Announcement { at, who: LEADER, token: Some(token), is_campaign: true };
    let values = [(VALUE.to_owned(), announcement)].into();
    let uninformed = uninformed.into_iter().map(|(_, who)| who).collect();
    Ok(Announcements { values, uninformed, ..Announcements::default() })
}
