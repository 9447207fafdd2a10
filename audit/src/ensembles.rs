//! Which servers are one ensemble, by the server lists of the sessions on record, and what shows that these are wrong.

use std::collections::{BTreeMap, BTreeSet};

use zklock_recipe::flight::Stamp;

use crate::clocks::raw;
use crate::order::Order;

/// The clocks of leaders may be wrong by half of this, in milliseconds. Nobody takes them for those of two ensembles by that.
const APART: i64 = 60_000;

/// The servers of each ensemble.
#[derive(Debug, Default)]
pub(crate) struct Ensembles(Vec<BTreeSet<String>>);

impl Ensembles {
    /// By server lists, each with the boot id of its machine. Lists that share a server are of one ensemble.
    pub(crate) fn new<'a>(lists: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut all = Vec::<BTreeSet<String>>::new();
        for (boot, list) in lists {
            let mut found = servers(boot, list);
            if all.iter().any(|ensemble| ensemble.is_superset(&found)) {
                continue;
            }
            let (same, others) = all.into_iter().partition::<Vec<_>, _>(|it| !it.is_disjoint(&found));
            all = others;
            found.extend(same.into_iter().flatten());
            all.push(found);
        }
        Self(all)
    }

    /// Of all servers.
    pub(crate) fn one() -> Self {
        Self::default()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The ensemble of a server list on this machine.
    pub(crate) fn of(&self, boot: &str, list: &str) -> usize {
        let servers = servers(boot, list);
        self.0.iter().position(|it| !it.is_disjoint(&servers)).unwrap_or(self.0.len())
    }
}

/// The servers of a list, without the chroot. A loopback address means another server on each machine.
fn servers(boot: &str, list: &str) -> BTreeSet<String> {
    let (servers, _chroot) = list.split_once('/').unwrap_or((list, ""));
    let name = |server: &str| {
        let server = server.trim().to_ascii_lowercase();
        match ["localhost", "127.", "[::1]", "::1"].iter().any(|begin| server.starts_with(begin)) {
            true => format!("{server} of {boot}"),
            false => server,
        }
    };
    servers.split(',').map(name).collect()
}

/// What shows that these stamps are of several ensembles, each with its machine. One ensemble has one order of transactions, also after
/// an election, and a transaction has one time.
pub(crate) fn doubt<'a>(stamps: impl Iterator<Item = (&'a str, &'a Stamp)>) -> Option<String> {
    let mut machines = BTreeMap::<&str, Vec<&Stamp>>::new();
    stamps.for_each(|(boot, stamp)| machines.entry(boot).or_default().push(stamp));
    let is_disordered = machines.values().any(|all| {
        let order = Order::of(all.iter().copied());
        all.iter().any(|stamp| order.before(raw(stamp.sent)).is_some_and(|last| last >= stamp.zxid))
    });
    let mut stamps = machines.into_values().flatten().collect::<Vec<_>>();
    stamps.sort_by_key(|stamp| stamp.zxid);
    let has_two_times = stamps.windows(2).any(|it| it[0].zxid == it[1].zxid && it[0].time != it[1].time);
    let mut latest = i64::MIN;
    let is_turned_back = stamps.iter().any(|stamp| {
        latest = latest.max(stamp.time);
        stamp.time < latest.saturating_sub(APART)
    });
    let (found, cause) = match (is_disordered, has_two_times, is_turned_back) {
        (true, ..) => (
            "a machine's transactions are in another order than its requests",
            "one that was restored from a backup, or the processes of one machine have different clocks",
        ),
        (_, true, _) => ("one transaction has two times", "one that was restored from a backup"),
        (.., true) => (
            "a later transaction has a time that is more than a minute earlier",
            "one that had a leader whose clock was wrong or was set by as much, or that was restored from a backup",
        ),
        (false, false, false) => return None,
    };
    Some(format!(
        "whether the clients of this path use one ensemble: {found}. So these are several ensembles, or {cause}. Give `audit` the \
         records of one ensemble at a time, and those from before and after such a change apart"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_share_a_server_are_of_one_ensemble() {
        let lists = ["a:1,b:1/app", "c:1,d:1", "B:1,c:1", "e:1", "localhost:1"];
        let ensembles =
            Ensembles::new(lists.map(|list| ("x", list)).into_iter().chain([("y", "localhost:1")]));
        let of = |boot, list| ensembles.of(boot, list);
        assert_eq!(of("x", "a:1"), of("y", "d:1"));
        let others =
            BTreeSet::from([of("x", "a:1"), of("x", "e:1"), of("x", "localhost:1"), of("y", "localhost:1")]);
        assert_eq!(others.len(), 4);
        assert_eq!(Ensembles::one().of("x", "a:1"), Ensembles::one().of("y", "localhost:1"));
    }
}
