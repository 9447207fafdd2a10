//! Each scenario once: nobody is granted the lock while another guard is valid.

macro_rules! scenarios {
    ($($name:ident,)*) => {
        $(#[test]
        fn $name() {
            let output = crate::proof(&["margins", "--repetitions", "1", stringify!($name)]);
            println!("{}", String::from_utf8_lossy(&output.stdout));
            assert!(output.status.success(), "{}", output.status);
        })*

        /// A scenario that is not listed here would not be tested.
        #[test]
        fn every_scenario_is_tested() {
            let help = crate::proof(&["margins", "--help"]);
            let help = String::from_utf8(help.stdout).unwrap();
            let (_, known) = help.split_once("[possible values: ").expect("a list of scenarios");
            let (known, _) = known.split_once(']').unwrap();
            assert_eq!(known.split_whitespace().collect::<String>(), [$(stringify!($name)),*].join(","));
        }
    };
}

scenarios![
    the_holders_follower_is_cut_off,
    the_holders_server_is_the_leader_and_cut_off,
    a_holder_that_reconnects_to_a_leader_which_is_cut_off,
    the_leaders_word_comes_late_to_the_holders_follower,
    the_holders_client_is_cut_off_from_every_server,
    the_holders_server_is_paused,
    the_leader_dies_before_it_gets_a_release,
    the_leader_dies_before_its_answer_to_a_release_is_seen,
    the_leader_dies_before_it_gets_a_create,
    the_leader_dies_before_its_answer_to_a_create_is_seen,
    a_create_that_was_stuck_does_not_block_the_lock,
    a_create_of_several_locks_that_was_stuck_blocks_none_of_them,
    a_create_of_several_locks_that_was_stuck_and_has_no_caller_blocks_none_of_them,
    the_holders_session_moves_to_a_server_with_a_lower_limit,
    the_limit_is_lowered_by_a_rolling_change,
    an_operator_deletes_the_holders_node,
    an_operator_deletes_the_holders_node_and_waiters_delay,
    an_operator_closes_the_holders_session,
    an_operator_closes_the_holders_session_and_waiters_delay,
    a_rolling_restart_costs_nobody_the_lock,
];
