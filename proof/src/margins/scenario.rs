//! All scenarios, in the order of the table.

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::{
    cut_off_client, cut_off_server, differing_servers, family, late_create, leader_death, operator,
    paused_server, rolling_restart, stalled_server, stopped_process,
};
use crate::harness::Row;

/// One scenario.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Repeats it so often. Panics if two hold the lock.
    pub(crate) play: fn(usize) -> LocalBoxFuture<'static, Vec<Row>>,
}

macro_rules! scenarios {
    ($($file:ident::$name:ident,)*) => {
        &[$(Scenario { name: stringify!($name), play: |times| $file::$name(times).boxed_local() },)*]
    };
}

pub(crate) const SCENARIOS: &[Scenario] = scenarios![
    cut_off_server::the_holders_follower_is_cut_off,
    cut_off_server::the_holders_server_is_the_leader_and_cut_off,
    cut_off_server::a_holder_that_reconnects_to_a_leader_which_is_cut_off,
    stalled_server::the_leaders_word_comes_late_to_the_holders_follower,
    cut_off_client::the_holders_client_is_cut_off_from_every_server,
    paused_server::the_holders_server_is_paused,
    family::a_follower_is_cut_off_under_the_whole_family,
    leader_death::the_leader_dies_before_it_gets_a_release,
    leader_death::the_leader_dies_before_its_answer_to_a_release_is_seen,
    leader_death::the_leader_dies_before_it_gets_a_create,
    leader_death::the_leader_dies_before_its_answer_to_a_create_is_seen,
    late_create::a_create_that_was_stuck_does_not_block_the_lock,
    late_create::a_create_of_several_locks_that_was_stuck_blocks_none_of_them,
    late_create::a_create_of_several_locks_that_was_stuck_and_has_no_caller_blocks_none_of_them,
    differing_servers::the_holders_session_moves_to_a_server_with_a_lower_limit,
    differing_servers::the_limit_is_lowered_by_a_rolling_change,
    differing_servers::the_answer_of_a_server_with_a_lower_limit_is_lost,
    operator::an_operator_deletes_the_holders_node,
    operator::an_operator_deletes_the_holders_node_and_waiters_delay,
    operator::an_operator_closes_the_holders_session,
    operator::an_operator_closes_the_holders_session_and_waiters_delay,
    stopped_process::the_holders_process_is_stopped,
    rolling_restart::a_rolling_restart_costs_nobody_the_lock,
];
