//! Records of two ensembles that were taken for those of one.

use zklock_recipe::flight::{Line, Stamp};

use super::scene::*;

/// A request that is sent at this instant, with the leader's time and the transaction.
type Request = (i64, i64, i64);

fn written((sent, time, zxid): Request) -> Line {
    Line::Stamp(Stamp { time: LEADER + time, zxid, ..stamp(sent) })
}

/// Whether a request of each of two processes, on these machines, shows that there are several ensembles.
fn is_doubted(machines: [&str; 2], requests: [Request; 2]) -> bool {
    let [mut one, mut other] = machines.map(Writer::new);
    one.write(written(requests[0]));
    other.write(written(requests[1]));
    other.holds(0, node(0, 10), 300);
    other.lets_go(0, 310);
    let audit = audited(vec![one.closed(), other.closed()]);
    assert_eq!(audit.verdict == Proven, audit.paths[0].unknown.is_empty());
    !audit.paths[0].unknown.is_empty()
}

#[test]
fn a_request_that_was_sent_behind_an_answer_has_a_later_transaction() {
    let first = (100, 100, zxid(100));
    assert!(is_doubted(["a", "a"], [first, (101, 101, zxid(99))]));
    assert!(is_doubted(["a", "a"], [first, (101, 100, zxid(100))]), "two requests are two transactions");
    assert!(!is_doubted(["a", "a"], [first, (100, 100, zxid(99))]), "both were under way at once");
    assert!(!is_doubted(["a", "b"], [first, (101, 101, zxid(99))]), "their clocks have nothing in common");
    assert!(!is_doubted(["a", "a"], [first, (101, 101, 2 << 32 | 1)]), "another leader");
}

#[test]
fn a_transaction_has_one_time() {
    let first = (100, 100, zxid(100));
    assert!(is_doubted(["a", "b"], [first, (100, 101, zxid(100))]));
    assert!(!is_doubted(["a", "b"], [first, (100, 100, zxid(100))]));
}

#[test]
fn a_later_transaction_is_not_a_minute_earlier() {
    let first = (100, 70_000, zxid(100));
    for later in [2 << 32 | 1, zxid(101)] {
        assert!(is_doubted(["a", "b"], [first, (100, 9_999, later)]));
        assert!(!is_doubted(["a", "b"], [first, (100, 10_000, later)]), "a leader's clock may be wrong");
    }
}
