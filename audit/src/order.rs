//! The order of transactions, as one clock shows it. No other machine's clock matters to it.

use zklock_recipe::flight::Stamp;

use crate::clocks::raw;

/// The transactions of one process or machine in one ensemble, by its own clock.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Of each request when it was sent, with the earliest transaction of those that were sent then or later.
    sent: Vec<(i64, i64)>,
    /// Of each request when it was answered, with the last transaction of those that were answered until then.
    answered: Vec<(i64, i64)>,
}

impl Order {
    pub(crate) fn of<'a>(stamps: impl Iterator<Item = &'a Stamp>) -> Self {
        Self::new(stamps.map(|stamp| (raw(stamp.sent), raw(stamp.answered), stamp.zxid)))
    }

    /// By requests: when each was sent and answered, and its transaction.
    fn new(requests: impl Iterator<Item = (i64, i64, i64)>) -> Self {
        let (mut sent, mut answered): (Vec<_>, Vec<_>) =
            requests.map(|(sent, answered, zxid)| ((sent, zxid), (answered, zxid))).unzip();
        sent.sort_unstable();
        answered.sort_unstable();
        let mut least = i64::MAX;
        sent.iter_mut().rev().for_each(|(_, zxid)| {
            least = least.min(*zxid);
            *zxid = least;
        });
        let mut most = i64::MIN;
        answered.iter_mut().for_each(|(_, zxid)| {
            most = most.max(*zxid);
            *zxid = most;
        });
        Self { sent, answered }
    }

    /// A transaction that came after this instant.
    pub(crate) fn behind(&self, time: i64) -> Option<i64> {
        self.sent.get(self.sent.partition_point(|(sent, _)| *sent < time)).map(|(_, zxid)| *zxid)
    }

    /// A transaction that came before this instant.
    pub(crate) fn before(&self, time: i64) -> Option<i64> {
        let next = self.answered.partition_point(|(answered, _)| *answered <= time);
        next.checked_sub(1).map(|last| self.answered[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_may_be_answered_in_another_order_than_they_were_sent() {
        let order = Order::new([(10, 40, 7), (20, 30, 6), (50, 60, 9)].into_iter());
        assert_eq!([5, 10, 11, 51].map(|time| order.behind(time)), [Some(6), Some(6), Some(6), None]);
        assert_eq!([29, 30, 40, 60].map(|time| order.before(time)), [None, Some(6), Some(7), Some(9)]);
    }
}
