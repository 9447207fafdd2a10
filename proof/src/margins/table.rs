// What is played, and by what. The tests read this table, too, so that none is left out.
scenarios![
    the_holders_follower_is_cut_off: cut_off::follower(),
    the_holders_server_is_the_leader_and_cut_off: cut_off::leader(),
    a_holder_that_reconnects_to_a_leader_which_is_cut_off: cut_off::leader_and_reconnects(),
    the_leaders_word_comes_late_to_the_holders_follower: stalled_server::follower_hears_late(),
    the_holders_client_is_cut_off_from_every_server: cut_off::client(),
    a_create_that_was_stuck_does_not_block_the_lock: late_create::until_carried_out(1, Caller::Waits),
    a_create_of_several_locks_that_was_stuck_blocks_none_of_them:
        late_create::until_carried_out(3, Caller::Waits),
    a_create_of_several_locks_that_was_stuck_and_has_no_caller_blocks_none_of_them:
        late_create::until_carried_out(3, Caller::Gone),
    the_holders_session_moves_to_a_server_with_a_lower_limit: differing_servers::move_of_the_session(),
    the_limit_is_lowered_by_a_rolling_change: differing_servers::rolling_change(),
    an_operator_deletes_the_holders_node:
        operator::takes_the_lock("an operator deletes its node", Duration::ZERO, deletes_node),
    an_operator_deletes_the_holders_node_and_waiters_delay:
        operator::takes_the_lock("the same, with a takeover delay of 1 s", DELAY, deletes_node),
    an_operator_closes_the_holders_session:
        operator::takes_the_lock("an operator closes its session", Duration::ZERO, closes_session),
    an_operator_closes_the_holders_session_and_waiters_delay:
        operator::takes_the_lock("the same, with a takeover delay of 1 s", DELAY, closes_session),
    a_rolling_restart_costs_nobody_the_lock: rolling_restart::costs_nobody_the_lock(),
];
