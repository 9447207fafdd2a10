//! How a session stands, where no clock says so.

use std::sync::LazyLock;
use std::time::Duration;

use zklock_recipe::{Lapse, Lease, Moment, Present, Reckoning, Term};

/// How a session stands that has this connection, and a lease that is valid or not.
pub(crate) fn present(connection: Option<u64>, valid: bool) -> Present {
    let term = if valid { Ok(*TERM) } else { Err(Lapse::Unconfirmed) };
    Present { connection, term, is_ample: valid }
}

/// The term of every such lease.
pub(crate) static TERM: LazyLock<Term> = LazyLock::new(|| {
    let reckoning = Reckoning { tick: Duration::from_secs(2), drift_ppm: 0 };
    let lease = Lease::established(reckoning, Duration::from_secs(200), Moment::default()).ok();
    lease.and_then(|lease| lease.term(Moment::default()).ok()).expect("a lease of a long session")
});
