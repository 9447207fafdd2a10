//! What a recorder of the crate `metrics` gets, and the span of an acquisition.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use support::{enqueue, eventually, granted, linked, operator, patient, server, within};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};
use zklock::{LockOptions, LocksOptions, LostReason};

/// What was recorded under each name with its labels: the sum of counters and gauges, and the values of histograms. A snapshot
/// takes away what it shows.
struct Recorded {
    snapshotter: Snapshotter,
    seen: BTreeMap<String, Vec<f64>>,
}

impl Recorded {
    fn look(&mut self) {
        for (key, _, description, value) in self.snapshotter.snapshot().into_vec() {
            let labels = key.key().labels().map(|label| format!("{}={}", label.key(), label.value()));
            let name = format!("{}{{{}}}", key.key().name(), labels.collect::<Vec<_>>().join(","));
            assert!(description.is_some(), "{name} is described");
            let values = self.seen.entry(name).or_default();
            match value {
                DebugValue::Counter(more) => values.push(more as f64),
                DebugValue::Gauge(more) => values.push(more.into_inner()),
                DebugValue::Histogram(more) => values.extend(more.into_iter().map(|it| it.into_inner())),
            }
        }
    }

    fn sum(&mut self, name: &str) -> Option<f64> {
        self.look();
        self.seen.get(name).map(|values| values.iter().sum())
    }

    /// How many values a histogram has, all of them between these bounds.
    fn values(&mut self, name: &str, least: f64, most: f64) -> usize {
        self.look();
        let Some(values) = self.seen.get(name) else { return 0 };
        assert!(values.iter().all(|it| (least..=most).contains(it)), "{name}: {values:?}");
        values.len()
    }
}

#[tokio::test]
async fn acquisitions_holds_losses_and_leaders_are_counted() {
    let recorder = DebuggingRecorder::new();
    let mut recorded = Recorded { snapshotter: recorder.snapshotter(), seen: BTreeMap::new() };
    recorder.install().expect("the only recorder of the process");
    let server = server().await;
    let timeout = Duration::from_secs(4);
    let [one, two] = [(); 2].map(|()| patient(server.connect_string(), timeout));
    let [one, two] = [one.connect().await.unwrap(), two.connect().await.unwrap()];
    let options = LockOptions::new().name("orders");
    let [lock, other] =
        [&one, &two].map(|it| it.lock("/lock/orders").unwrap().with_options(options.clone()).unwrap());

    let guard = lock.acquire().await.unwrap();
    let short = Duration::from_millis(100);
    assert!(other.acquire_timeout(short).await.unwrap().is_none());
    assert!(other.try_acquire().await.unwrap().is_none());
    let waiter = enqueue(&other).await;
    assert_eq!(recorded.sum("zklock.waiters{name=orders}"), Some(1.0));
    guard.release().await.unwrap();
    let guard = granted(waiter).await;
    assert_eq!(recorded.sum("zklock.waiters{name=orders}"), Some(0.0));
    assert_eq!(recorded.values("zklock.acquire.wait_time{name=orders}", 0.0, 60.0), 2);
    assert_eq!(recorded.values("zklock.hold_time{name=orders}", 0.1, 60.0), 1, "the first holder");
    assert_eq!(recorded.sum("zklock.acquire.timeouts{name=orders}"), Some(1.0));

    assert_eq!(
        recorded.sum("zklock.lost{name=orders,reason=node_deleted}"),
        Some(0.0),
        "no rate misses the first"
    );
    operator(&server).await.delete(&guard.node(), None).await.unwrap();
    within("the loss", guard.lost()).await;
    assert_eq!(recorded.sum("zklock.lost{name=orders,reason=node_deleted}"), Some(1.0));
    drop(guard);
    assert_eq!(recorded.values("zklock.hold_time{name=orders}", 0.0, 60.0), 2, "a loss ends a hold once");

    let (link, three) = linked(&server, timeout).await;
    let options = options.stop_margin(Duration::from_millis(500));
    let guard = three.lock("/lock/cut").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    link.black_hole();
    assert!(matches!(within("the margin", guard.lost()).await, LostReason::Ending { .. }));
    drop(guard);
    let lost = recorded.sum("zklock.lost{name=orders,reason=unconfirmed}");
    assert_eq!(lost, Some(1.0), "it let go because of that");
    assert_eq!(recorded.values("zklock.hold_time{name=orders}", 0.0, 60.0), 3);

    // All without a name are one. The turnstile of a pool is no hold.
    one.lock("/lock/unnamed").unwrap().acquire().await.unwrap().release().await.unwrap();
    one.semaphore("/permits", 1).unwrap().acquire().await.unwrap().release().await.unwrap();
    assert_eq!(recorded.values("zklock.hold_time{}", 0.0, 60.0), 2);
    assert_eq!(recorded.values("zklock.acquire.wait_time{}", 0.0, 60.0), 2);
    // A task that waits for a key is counted, and the contender of its process is not.
    let locks = one.locks("/keys").unwrap();
    let locks = locks.with_options(LocksOptions::new().lock(LockOptions::new().name("keys"))).unwrap();
    let key = locks.acquire("a").await.unwrap();
    assert!(locks.acquire_timeout("a", short).await.unwrap().is_none());
    key.release().await.unwrap();
    assert_eq!(recorded.values("zklock.acquire.wait_time{name=keys}", 0.0, 60.0), 1);
    assert_eq!(recorded.sum("zklock.acquire.timeouts{name=keys}"), Some(1.0));

    let leads = "leader_election_master_status{name=service}";
    let options = LockOptions::new().name("service");
    let election = one.election("/service").unwrap().with_options(options).unwrap();
    let other = two.election("/service").unwrap().campaign("somebody else").await.unwrap();
    assert_eq!(recorded.sum(leads), None, "an election without a name");
    let campaign = tokio::spawn({
        let election = election.clone();
        async move { election.campaign("me").await }
    });
    eventually("a candidate", async || election.candidates().await.unwrap().len() == 2).await;
    assert_eq!(recorded.sum(leads), Some(0.0));
    other.resign().await.unwrap();
    let leadership = granted(campaign).await;
    assert_eq!(recorded.sum(leads), Some(1.0));

    let lease = "zklock.lease.remaining{}";
    let least = one.longest_stop_margin().as_secs_f64() / 2.0;
    eventually("a heartbeat", async || recorded.values(lease, least, timeout.as_secs_f64()) > 0).await;
    one.close().await.unwrap();
    // Nobody asks the leadership, and nobody awaits its end.
    let closed = "zklock.lost{name=service,reason=session_closed}";
    eventually("the loss", async || recorded.sum(closed) == Some(1.0)).await;
    assert_eq!(recorded.sum(leads), Some(0.0));
    assert!(!leadership.is_held());
    assert_eq!(recorded.sum(closed), Some(1.0), "a loss counts once");
}

/// Keeps the fields of each span of an acquisition, in one line.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        *self.0 += &format!(" {field}={value:?}");
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "zklock.acquire"
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut spans = self.0.lock().unwrap();
        spans.push(String::new());
        attributes.record(&mut Line(spans.last_mut().unwrap()));
        span::Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Line(&mut self.0.lock().unwrap()[span.into_u64() as usize - 1]));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn each_acquisition_has_one_span() {
    let (_server, [session]) = support::sessions().await;
    let spans = Spans::default();
    let _default = tracing::subscriber::set_default(spans.clone());
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.with_options(LockOptions::new().name("orders")).unwrap().acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(session.rw_lock("/lock/orders").unwrap().read_timeout(Duration::ZERO).await.unwrap().is_none());
    let slot = session.slots("/slots", 1).unwrap().acquire().await.unwrap();
    let key = session.locks("/keys").unwrap().acquire("a").await.unwrap();
    let several = session.lock_all(["/a", "/b"]).unwrap().acquire().await.unwrap();
    let leadership = session.election("/service").unwrap().campaign("me").await.unwrap();
    let expected = [
        r#" member="lock" path=/lock/orders name="orders" wait=forever outcome="granted""#,
        r#" member="lock" path=/lock/orders wait=never outcome="busy""#,
        r#" member="reader" path=/lock/orders wait=0.0ns outcome="timeout""#,
        r#" member="slots" path=/slots wait=forever outcome="granted""#,
        r#" member="key" path=/keys/a wait=forever outcome="granted""#,
        r#" member="several" path=/a, /b wait=forever outcome="granted""#,
        r#" member="election" path=/service wait=forever outcome="granted""#,
    ];
    assert_eq!(*spans.0.lock().unwrap(), expected);
    drop((guard, slot, key, several, leadership));
}
