//! A runtime that shuts down under everything: no panic gets out of zklock, and the lock is free after a session timeout.

use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use support::{Server, patient, server, until_nothing_is_left, within};
use tokio::runtime::{Builder, Runtime};
use zklock::{
    Session,
    ask::Request,
    once::{Claim, RunEnd},
};

use super::family::FAMILY;

static PANICS: AtomicUsize = AtomicUsize::new(0);

const TIMEOUT: Duration = Duration::from_secs(6);

fn count_panics() {
    panic::set_hook(Box::new(|panicked| {
        eprintln!("{panicked}");
        // zookeeper-client's watcher does when its client's task is gone; zklock catches that.
        if !panicked.location().is_some_and(|it| it.file().contains("zookeeper-client")) {
            PANICS.fetch_add(1, Ordering::SeqCst);
        }
    }));
}

/// A call of the library, and what its outcome shows once the session's runtime is gone.
struct Call {
    what: &'static str,
    gone: &'static str,
    outcome: BoxFuture<'static, String>,
}

impl Call {
    /// Polls it once.
    fn begin(&mut self) {
        if let Some(outcome) = (&mut self.outcome).now_or_never() {
            self.outcome = std::future::ready(outcome).boxed();
        }
    }
}

/// Adds a call. It begins at the first poll, with clones of these variables, or else with what it moves.
macro_rules! call {
    ($calls:ident, $gone:literal, $($used:ident)* => $call:expr) => {{
        $(let $used = $used.clone();)*
        let outcome = async move { format!("{:?}", $call) }.boxed();
        $calls.push(Call { what: stringify!($call), gone: $gone, outcome });
    }};
}

/// Each call that a user can make, for a session of the present runtime. A call that waits for others waits for 50 ms.
async fn calls(server: &Server, root: &str) -> Vec<Call> {
    const SOON: Duration = Duration::from_millis(50);
    let address = server.connect_string().to_owned();
    let session = patient(&address, TIMEOUT).connect().await.unwrap();
    let path = |name: &str| format!("{root}/{name}");
    let held = session.lock(&path("held")).unwrap();
    let locks = session.locks(&path("keys")).unwrap();
    let election = session.election(&path("election")).unwrap();
    let other = session.election(&path("other")).unwrap();
    let semaphore = session.semaphore(&path("semaphore"), 2).unwrap();
    let slots = session.slots(&path("slots"), 2).unwrap();
    let once = session.once(&path("once")).unwrap();
    let guard = Arc::new(held.acquire().await.unwrap());
    let several = session.lock_all([path("d"), path("e")]).unwrap().acquire().await.unwrap();
    let leads = Arc::new(election.campaign("me").await.unwrap());
    let resigns = other.campaign("me").await.unwrap();
    let key = locks.acquire("held").await.unwrap();
    let turn = async |name: &str| match session.once(&path(name)).unwrap().claim("1").await.unwrap() {
        Claim::Run(turn) => turn,
        Claim::Recorded(_) => panic!("it has run"),
    };
    let (succeeds, fails) = (turn("ran").await, turn("fails").await);
    let (records, gives_up) = (turn("records").await, turn("gives-up").await);
    let sequencer = guard.sequencer().unwrap();
    let (holders, observed) = (held.holders(), election.observe());
    let (lost, events) = (guard.lost(), session.events());
    let asked = session.ask(guard.path(), Request::new("why", support::BOUND)).await.unwrap().unwrap();

    let mut calls = Vec::new();
    call!(calls, "", address => Session::connect(&address).await.map(drop));
    call!(calls, "", address => patient(&address, TIMEOUT).connect().await.map(drop));
    call!(calls, "", address => patient(&address, TIMEOUT).connect_lazy().map(drop));
    call!(calls, "Failed", session => (session.id(), session.timeout(), session.heartbeat(), session.tick(), session.state()));
    call!(calls, "RuntimeGone", session => (session.failure(), session.longest_stop_margin(), session.longest_validity(), session.requeued()));
    call!(calls, "SessionOver", session sequencer => session.verify_sequencer(&sequencer).await);
    call!(calls, "SessionOver", session => session.ask("/lock/x", Request::new("", SOON)).await.map(drop));
    call!(calls, "SessionOver", session => session.child_count("/").await);
    call!(calls, "SessionOver", session => session.identities().await);
    call!(calls, "SessionOver", session => session.locks_below("/").await.map(|below| below.locks.len()));
    call!(calls, "SessionOver", session => session.locks_below_up_to("/", 1, 1).await.map(|below| below.locks.len()));
    call!(calls, "Failed", session => session.events().next().await);
    call!(calls, "Failed", => { let mut events = events; events.next().await });

    for member in FAMILY {
        let free = member.handle(&session, &path(&format!("free/{}", member.name)));
        let taken = path(&format!("taken/{}", member.name));
        let holds = member.rival(&session, &taken).acquire().await.unwrap();
        let waits = member.handle(&session, &taken);
        call!(calls, "RuntimeGone", free => free.acquire().await.map(drop));
        call!(calls, "RuntimeGone", free => free.try_acquire().await.map(drop));
        call!(calls, "RuntimeGone", free => free.acquire_timeout(support::BOUND).await.map(drop));
        call!(calls, "RuntimeGone", waits => waits.acquire_timeout(SOON).await.map(drop));
        call!(calls, "SessionClosed", => holds.release().await);
    }

    call!(calls, "SessionOver", held => held.contenders().await.map(|all| all.len()));
    call!(calls, "SessionOver", held => held.holder().await.map(drop));
    call!(calls, "None", held => held.holders().next().await.and_then(Result::unwrap).map(drop));
    call!(calls, "SessionOver", held => held.foreign_contenders().await);
    call!(calls, "(false,", => { let mut holders = holders; (holders.latest().connected, holders.next().await.map(drop)) });

    call!(calls, "Ok(2)", => several.sequencers().map(|all| all.len()));
    call!(calls, "(true,", locks => (!locks.is_empty(), locks.len(), locks.path("x")));
    call!(calls, "SessionClosed", => key.release().await);

    call!(calls, "SessionOver", election => election.leader().await.map(drop));
    call!(calls, "SessionOver", election => election.candidates().await.map(|all| all.len()));
    call!(calls, "None", election => election.observe().next().await.and_then(Result::unwrap).map(drop));
    call!(calls, "(false,", => { let mut observed = observed; (observed.latest().connected, observed.next().await.map(drop)) });
    call!(calls, "SessionClosed", leads => leads.proclaim("still me").await);
    call!(calls, "SessionClosed", => resigns.resign().await);

    call!(calls, "RuntimeGone", semaphore => semaphore.set_capacity(2).await);
    call!(calls, "SessionOver", semaphore => semaphore.permits().await.map(drop));
    call!(calls, "RuntimeGone", slots => slots.set_count(2).await);
    call!(calls, "SessionOver", slots => slots.slots().await.map(drop));

    call!(calls, "RuntimeGone", once => once.run("3", async |_| Ok::<_, String>(())).await.map(drop));
    call!(calls, "RuntimeGone", once => once.period_name(Duration::from_secs(86_400)).await.map(drop));
    call!(calls, "SessionOver", once => once.records().await.map(drop));
    call!(calls, "RuntimeGone", once => once.now().await.map(drop));
    call!(calls, "SessionClosed", => succeeds.complete().await);
    call!(calls, "SessionClosed", => fails.fail().await);
    call!(calls, "SessionClosed", => records.record(RunEnd::Succeeded).await.map(drop));
    call!(calls, "SessionClosed", => gives_up.into_guard().check());

    call!(calls, "SessionClosed", guard => (guard.check(), guard.is_held(), guard.remaining() > Duration::ZERO));
    call!(calls, "SessionClosed", guard => guard.safe().await);
    call!(calls, "SessionClosed", guard => guard.verify().await);
    call!(calls, "SessionClosed", guard => guard.run(async {}).await);
    call!(calls, "Ok", guard => guard.sequencer().map(drop));
    call!(calls, "SessionClosed", guard => guard.transaction().check("/", None).commit().await);
    call!(calls, "true", guard => guard.cancellation_token().is_cancelled());
    call!(calls, "()", guard => drop(guard.another()));
    call!(calls, "SessionClosed", guard => { drop(guard.release_all().await); (guard.at_risk().await, guard.lost().await, lost.await) });
    call!(calls, "None", guard => guard.asked().await);
    call!(calls, "None", guard => guard.asks().next().await);
    call!(calls, "SessionOver", => asked.answer().await);
    call!(calls, "Unconfirmed", => session.close().await);
    calls
}

/// Awaits calls in a thread without a runtime, one after the other. `outcome` says whether theirs are right.
fn outside(calls: Vec<Call>, outcome: impl Fn(&Call, &str) -> bool) {
    for call in calls {
        let (tell, told) = mpsc::channel();
        let Call { what, gone, outcome: future } = call;
        std::thread::spawn(move || tell.send(futures::executor::block_on(future)));
        let told = told.recv_timeout(support::BOUND).unwrap_or_else(|error| format!("no outcome: {error}"));
        let call = Call { what, gone, outcome: std::future::pending().boxed() };
        assert!(outcome(&call, &told), "{what}: {told}");
    }
}

/// Polls calls once when it is dropped, and hands them on.
struct Dropped(Vec<Call>, mpsc::Sender<Vec<Call>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Call::begin);
        self.1.send(std::mem::take(&mut self.0)).unwrap();
    }
}

#[test]
fn no_call_panics_or_hangs_without_a_runtime_and_each_lock_is_free_in_the_end() {
    let goes_on = Runtime::new().unwrap();
    let server = goes_on.block_on(server());
    count_panics();
    for (kind, mut builder) in
        [Builder::new_current_thread(), Builder::new_multi_thread()].into_iter().enumerate()
    {
        let mut with_calls = |root: &str| {
            let runtime = builder.enable_all().build().unwrap();
            let calls = runtime.block_on(calls(&server, &format!("/{root}-{kind}")));
            (runtime, calls)
        };
        // Once the session's runtime is gone, in another one, and in none.
        let (ended, elsewhere) = with_calls("elsewhere");
        drop(ended);
        for call in elsewhere {
            let outcome = goes_on.block_on(within(call.what, call.outcome));
            assert!(outcome.contains(call.gone), "{}: {outcome}", call.what);
        }
        let (ended, in_none) = with_calls("in-none");
        drop(ended);
        outside(in_none, |call, outcome| outcome.contains(call.gone));
        // Begun before.
        let (ended, mut begun) = with_calls("begun");
        ended.block_on(async { begun.iter_mut().for_each(Call::begin) });
        ended.shutdown_background();
        outside(begun, |_, outcome| !outcome.starts_with("no outcome"));
        // While it shuts down, and afterwards.
        let (ending, dropped) = with_calls("dropped");
        let (tell, told) = mpsc::channel();
        let handed = Dropped(dropped, tell);
        ending.spawn(async move {
            let _dropped = handed;
            std::future::pending::<()>().await;
        });
        drop(ending);
        let dropped = told.recv_timeout(support::BOUND).unwrap();
        outside(dropped, |_, outcome| !outcome.starts_with("no outcome"));
    }
    // While it goes on.
    let calls = goes_on.block_on(calls(&server, "/goes-on"));
    outside(calls, |_, outcome| {
        !outcome.starts_with("no outcome") && (!outcome.contains("Err") || outcome.contains("NoRuntime"))
    });
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
    // The sessions whose runtimes are gone expire.
    goes_on.block_on(until_nothing_is_left(&server));
}
