//! The page that Prometheus reads.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::time::UNIX_EPOCH;

use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use zklock::inspect::Contender;

use super::scan::{Scan, ServerAnswer, Tree};
use crate::pool::Stock;
use crate::queue::access_text;
use crate::text;

type Labels = Vec<(&'static str, String)>;

struct Page(Registry);

/// The page of a scan. Without a scan, or if ZooKeeper did not answer it, nothing is said of locks.
pub(super) fn page_of(scan: Option<&Scan>) -> String {
    let mut page = Page(Registry::with_prefix("zklock"));
    let tree = scan.and_then(|scan| scan.tree.as_ref());
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    page.add_all("build_info", "The version of zklock. The value is always 1.", [(version, 1.0)]);
    if let Some(scan) = scan {
        // Before the first scan has ended, nothing is known.
        page.add_one("up", "Whether ZooKeeper answered the latest scan.", flag(tree.is_some()));
        page.add_one(
            "scan_age_seconds",
            "Time since the latest scan ended.",
            scan.ended.elapsed().as_secs_f64(),
        );
        page.add_one("scan_duration_seconds", "How long the latest scan took.", scan.took.as_secs_f64());
        page.add_servers(&scan.servers);
    }
    if let Some(tree) = tree {
        page.add_tree(tree);
        page.add_locks(tree);
        page.add_pools(tree);
        page.add_elections(tree);
    }
    let mut text = String::new();
    // A string takes all that is written to it.
    let _infallible = encode(&mut text, &page.0);
    text
}

impl Page {
    fn add_all(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, f64)>) {
        let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).set(value);
        }
        // The registry ends it with a full stop.
        self.0.register(name, help.trim_end_matches('.'), family);
    }

    fn add_one(&mut self, name: &str, help: &str, value: f64) {
        self.add_all(name, help, [(Vec::new(), value)]);
    }

    /// A value of each of these, which have paths.
    fn add_each<'a, T: 'a>(
        &mut self,
        (name, help): (&str, &str),
        of: impl IntoIterator<Item = (&'a String, &'a T)>,
        value: impl Fn(&T) -> Option<f64>,
    ) {
        self.add_all(
            name,
            help,
            of.into_iter().filter_map(|(path, one)| Some((path_label(path), value(one)?))),
        );
    }

    fn add_servers(&mut self, servers: &[ServerAnswer]) {
        let of = |server: &ServerAnswer| vec![("server", server.address.to_string())];
        let answers = servers.iter().filter_map(|server| Some((server, server.words.as_ref().ok()?)));
        self.add_all(
            "server_up",
            "Whether the server answers and serves clients.",
            servers.iter().map(|server| {
                (of(server), flag(server.words.as_ref().is_ok_and(|words| words.mode.serves())))
            }),
        );
        self.add_all(
            "server_answer_seconds",
            "How long the server took to answer `srvr`.",
            answers.clone().map(|(server, _)| (of(server), server.took.as_secs_f64())),
        );
        self.add_all(
            "server_slowest_request_seconds",
            "The longest time that a request has taken since the server started, as it says.",
            answers.clone().filter_map(|(server, words)| Some((of(server), words.slowest?.as_secs_f64()))),
        );
        self.add_all(
            "server_role",
            "The server's role. The value is always 1.",
            answers
                .map(|(server, words)| ([of(server), vec![("role", words.mode.to_string())]].concat(), 1.0)),
        );
    }

    fn add_tree(&mut self, tree: &Tree) {
        self.add_all(
            "root_readable",
            "Whether the root exists and these credentials may list it.",
            tree.roots.iter().map(|(root, readable)| (vec![("root", label(root))], flag(*readable))),
        );
        self.add_one("hidden_nodes", "Nodes that these credentials may not list.", count(tree.hidden));
        let bounds = ["max-locks", "max-nodes"].map(|bound| vec![("bound", bound.to_owned())]);
        self.add_all(
            "scan_cut",
            "Whether the scan ended at the bound of this option, so some is missing.",
            bounds.into_iter().zip(tree.cut.map(flag)),
        );
        self.add_one("scan_nodes", "How many nodes the latest scan read.", count(tree.read));
    }

    fn add_locks(&mut self, tree: &Tree) {
        let locks = &tree.locks;
        let kind = |path, holder: &Contender| {
            [path_label(path), vec![("kind", access_text(holder.kind).to_owned())]].concat()
        };
        self.add_all(
            "lock_held",
            "A lock that is held. The value is always 1: a lock that nobody holds has no series.",
            locks.iter().map(|(path, lock)| (kind(path, &lock.holder), 1.0)),
        );
        let holders = ("lock_holders", "How many hold the lock: one, or several readers.");
        self.add_each(holders, locks, |lock| Some(count(lock.holders)));
        let waiters = ("lock_waiters", "How many wait for the lock.");
        self.add_each(waiters, locks, |lock| Some(count(lock.waiting)));
        let foreign = (
            "lock_foreign_contenders",
            "Contenders of other clients that keep zklock's out. A scan that was cut does not know.",
        );
        self.add_each(foreign, locks, |lock| (!tree.is_cut()).then(|| count(lock.foreign)));
        self.add_all(
            "lock_holder_info",
            "The first holder of the lock. The value is always 1.",
            locks.iter().map(|(path, lock)| {
                // Each grant has another session: with it as a label, each would be a series of its own.
                let owner = label(lock.holder.owner.as_deref().unwrap_or_default());
                ([path_label(path), vec![("owner", owner)]].concat(), 1.0)
            }),
        );
        let arrival = (
            "lock_holder_arrival_timestamp_seconds",
            "When the first holder began to contend, by its own clock. Its grant may have been later.",
        );
        self.add_each(arrival, locks, |lock| {
            Some(lock.holder.since?.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
        });
        let token = ("lock_holder_token", "The zxid of the first holder's fencing token.");
        self.add_each(token, locks, |lock| lock.holder.token.map(|token| zxid(token.zxid())));
    }

    fn add_pools(&mut self, tree: &Tree) {
        let kind = |stock| match stock {
            Stock::Semaphore { .. } => "semaphore",
            Stock::Slots { .. } => "slots",
        };
        self.add_all(
            "pool_capacity",
            "The capacity of a semaphore, or the number of slots. What nobody holds has no series.",
            tree.pools.iter().map(|(path, pool)| {
                let kind = kind(Stock::from(pool)).to_owned();
                ([path_label(path), vec![("kind", kind)]].concat(), f64::from(pool.capacity))
            }),
        );
        let held = ("pool_held", "How much of the capacity, or how many of the slots, are held.");
        self.add_each(held, &tree.pools, |pool| Some(pool.held as f64));
        let waiters =
            ("pool_waiters", "How many wait for a permit or a slot. A scan that was cut does not know.");
        self.add_each(waiters, &tree.pools, |pool| (!tree.is_cut()).then(|| count(pool.waiting)));
    }

    fn add_elections(&mut self, tree: &Tree) {
        let of = |path: &str, value: &str| [path_label(path), vec![("value", label(value))]].concat();
        self.add_all(
            "election_leader_info",
            "The leader of an election. The value is always 1. An election without a leader has no series.",
            tree.elections.iter().map(|it| (of(&it.path, &it.leader.value), 1.0)),
        );
        self.add_all(
            "election_leader_token",
            "The zxid of the leader's fencing token. It changes with the leader.",
            tree.elections.iter().map(|it| (path_label(&it.path), zxid(it.leader.token))),
        );
    }
}

fn path_label(path: &str) -> Labels {
    vec![("path", label(path))]
}

/// A text of another client as the value of a label. Two paths that are cut stay two.
fn label(text: &str) -> String {
    let mut shown = text::harmless(text);
    if shown.ends_with('…') {
        let mut hash = DefaultHasher::new();
        text.hash(&mut hash);
        let _infallible = write!(shown, "{:016x}", hash.finish());
    }
    shown
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// A number of something. The page has floating-point numbers, which are exact up to 2^53. Tokens are so up to epoch 2^21.
fn count(number: usize) -> f64 {
    number as f64
}

fn zxid(token: i64) -> f64 {
    token as f64
}
