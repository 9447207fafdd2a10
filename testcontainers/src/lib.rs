//! Real ZooKeeper servers for tests, and the faults to test against.
//!
//! Start a server or an ensemble, run the code under test against it, and do to it what production will: kill a server,
//! freeze it, cut it off from the others, lose a reply, add a round trip. Servers start in seconds, each on a port of its
//! own, so tests may run in parallel. Dropping a value removes its servers, also when the test panics.
//!
//! ```no_run
//! use std::time::Duration;
//! use zklock_testcontainers::{Ensemble, Link, RequestKind};
//!
//! # async fn example() -> Result<(), zklock_testcontainers::Error> {
//! let ensemble = Ensemble::start(3).await?;
//!
//! // A client of one particular server, through a link that can misbehave.
//! let follower = ensemble.followers().await?[0];
//! let link = Link::start(ensemble.address(follower)).await?;
//! link.set_round_trip(Duration::from_millis(1));
//! // ... connect the service under test to link.address() ...
//!
//! // The server carries out the client's next `create`, and the client never hears of it.
//! let lost = link.lose_reply(RequestKind::Create);
//! // ... let the service do its work ...
//! lost.happened().await;
//!
//! // The server is cut off from the others, while the client's connection to it stays.
//! ensemble.isolate(follower).await?;
//! // ... what does the service believe now? ...
//! ensemble.heal().await?;
//! ensemble.wait_until_serving().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What to start
//!
//! | type | starts | for |
//! |---|---|---|
//! | [`ZooKeeperImage`] | a container, by the runners of the [`testcontainers`] crate | tests that use that crate already, and need no faults |
//! | [`ZooKeeper`] | one server, as a container or as a process | most tests |
//! | [`Ensemble`] | several servers, each as [`ZooKeeper`] does | elections, and servers that are cut off |
//! | [`Link`] | a proxy in front of any server | what the network does to one client |
//!
//! # Where servers run
//!
//! | backend | servers are | needs |
//! |---|---|---|
//! | [`Backend::Docker`] | containers of [`ZooKeeperImage`] | an engine on this machine |
//! | [`Backend::Local`] | processes on loopback | Java, and the distribution's `zookeeper` package or `ZOOKEEPER_HOME` |
//!
//! The environment variable `ZKLOCK_TEST_BACKEND`, `docker` or `local`, forces one. If it is unset, this crate takes the
//! first of these that works, and a line on standard error says which, and why: containers of an image that the engine
//! has, local processes, containers of an image that the engine pulls. Where the engine reaches no registry,
//! `image/build.sh` (`make image` in the repository) builds a stand-in of the same name from Debian packages.
//!
//! A local server ends with its test process in every case. A container of [`ZooKeeper`] or [`Ensemble`] is removed on
//! drop. A process cannot drop if it is killed, or if it keeps a server in a `static`. Then a waiting shell removes its
//! containers if there is a `docker` command, and the next process that starts servers removes them otherwise.
//!
//! # How servers are set up
//!
//! Servers have ticks of 2 s, `initLimit` 10, `syncLimit` 5, any number of clients, all four-letter words, and no admin
//! server. A crash of the machine is not among the faults here, so servers do not force transactions to disk
//! (`zookeeper.forceSync=no`), and their log files start small (`zookeeper.preAllocSize`). [`ZooKeeperBuilder`],
//! [`EnsembleBuilder`] and [`ZooKeeperImage`] change any of it. With [`tls`](EnsembleBuilder::tls), servers speak TLS, too.
//! [`property_of`](EnsembleBuilder::property_of) makes servers differ, and [`Ensemble::reconfigure`] changes one of them
//! for its next restart.
//!
//! # Short ticks
//!
//! Shorter ticks make servers notice partitions sooner, and sessions expire sooner: ten seconds become one. But ZooKeeper
//! counts all its limits in ticks, also the session timeouts that servers grant:
//!
//! | | ticks of 2 s (default) | ticks of 200 ms |
//! |---|---|---|
//! | servers grant session timeouts (2 to 20 ticks) | from 4 s to 40 s | from 0.4 s to 4 s |
//! | an expired session may stay this much longer (1 tick, half a tick more for a client of a follower) | 3 s | 0.3 s |
//! | a server that is cut off gives up after (`syncLimit`, 5 ticks) | 10 s | 1 s |
//! | a follower may take this long to connect and to catch up (`initLimit`, 10 ticks) | 20 s | 2 s |
//!
//! A server does not refuse a timeout outside its limits. It grants the nearest one within them, and names it in its
//! answer. So with ticks of 200 ms, a service that asks for its default of 10 s, or of 30 s, gets 4 s. Some clients refuse
//! that. The others go on with 4 s. ZooKeeper's own client, for instance, then leaves a server that is silent for two
//! thirds of 4 s, and not of 10 s. Do one of these:
//!
//! - Set the service's session timeout for the test: 0.4 s to 4 s with ticks of 200 ms. Lower the timeouts that have to be
//!   shorter than it, such as those of leases, requests and attempts to connect. With less than 1 s, a busy machine alone
//!   may make sessions expire.
//! - Or raise the limit, and leave the service as it is: `max_session_timeout(Duration::from_secs(60))`. Servers then give
//!   up after 1 s, and a session of 10 s lives for 10 s.
//!
//! In both cases, a server that hears nothing for `syncLimit` ticks looks for another leader, also if the machine is merely
//! busy. With ticks of 200 ms that is after 1 s. If elections come by themselves, use longer ticks.
//!
//! # What the faults are
//!
//! - [`Ensemble::kill`] is `SIGKILL`. [`Ensemble::restart`] starts the server again, with its data, at its old address.
//! - [`Ensemble::pause`] freezes a server. Its kernel still accepts connections and acknowledges bytes.
//! - [`Ensemble::isolate`] drops every byte between a server and the other servers. The server's clients notice nothing:
//!   for up to `syncLimit` ticks it answers their reads, and takes writes that it cannot commit. Servers reach each other
//!   only through proxies in the test process, so this needs neither root nor firewall rules.
//! - [`Ensemble::close_session`] ends a client's session as an operator would: at once, whatever its client does.
//! - A [`Link`] stands between clients and one server: delay, black hole, cut, a lost or held reply, and counts of what
//!   passed.
//!
//! Proxies run on threads of their own. So tests may block their runtime, and servers may outlive the runtime that started
//! them.

#![cfg_attr(not(test), warn(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]

mod backend;
mod builder;
mod config;
mod ensemble;
mod error;
mod image;
mod link;
mod listener;
mod mesh;
mod node;
mod platform;
mod ports;
mod server;
mod session;
mod snapshot;
mod zookeeper;

/// The crate that runs [`ZooKeeperImage`], in the version for which that is an image.
pub use testcontainers;

pub use backend::Backend;
pub use builder::{EnsembleBuilder, ZooKeeperBuilder};
pub use ensemble::Ensemble;
pub use error::Error;
pub use image::ZooKeeperImage;
pub use link::{Counts, HeldReply, HeldRequest, Link, LostReply, RequestKind};
pub use snapshot::Snapshot;
pub use zookeeper::ZooKeeper;

// The README's code is compiled with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
