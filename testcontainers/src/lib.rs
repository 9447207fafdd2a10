//! Real ZooKeeper servers for tests, and the faults to test against.
//!
//! Start a server or an ensemble, run the code under test against it, and do to it what production will: kill a server,
//! freeze it, cut it off from the others, lose a reply, add a round trip. Servers start in seconds on ports of their own,
//! tests may run in parallel, and everything is gone when its value is dropped, also when the test panics.
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
//! // Its next `create` is done by the server, and it will never know.
//! let lost = link.lose_reply(RequestKind::Create);
//! // ... let the service do its work ...
//! lost.happened().await;
//!
//! // Its server is cut off from the others, while its own connection stays.
//! ensemble.isolate(follower).await?;
//! // ... what does the service believe now? ...
//! ensemble.heal().await?;
//! ensemble.wait_until_serving().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where servers run
//!
//! | backend | servers are | needs |
//! |---|---|---|
//! | [`Backend::Docker`] | containers of `zookeeper:3.9`, through the `testcontainers` crate | an engine on this machine |
//! | [`Backend::Local`] | processes on loopback | Java, and the distribution's `zookeeper` package or `ZOOKEEPER_HOME` |
//!
//! The environment variable `ZKLOCK_TEST_BACKEND`, `docker` or `local`, forces one. Unset, containers are used if the
//! engine answers and has the image, else local processes, else an image that can be pulled; a line on standard error
//! says which and why. Where no registry can be reached, `image/build.sh` (`make image` in the repository) builds a
//! stand-in of the same name from Debian packages.
//!
//! A local server ends with its test process in every case. A container is removed on drop; those of a process that
//! could not drop, because it was killed or keeps a server in a `static`, are removed by a waiting shell where there is
//! a `docker` command, and otherwise when the next process starts.
//!
//! # How servers are set up
//!
//! Ticks of 2 s, `initLimit` 10, `syncLimit` 5, any number of clients, all four-letter words, no admin server. A machine
//! crash is not among the faults here, so transactions are not forced to disk (`zookeeper.forceSync=no`), and log files
//! start small (`zookeeper.preAllocSize`). [`EnsembleBuilder`] and [`ZooKeeperBuilder`] change any of it. Shorter
//! ticks make servers notice partitions sooner: 200 ms instead of 2 s turns ten seconds into one.
//! [`tls`](EnsembleBuilder::tls) has servers speak TLS, too. [`property_of`](EnsembleBuilder::property_of) has servers
//! differ, and [`Ensemble::reconfigure`] changes one of them for its next restart.
//!
//! # What the faults are
//!
//! - [`Ensemble::kill`] is `SIGKILL`; [`Ensemble::restart`] starts the server again with its data at its old address.
//! - [`Ensemble::pause`] freezes a server; its kernel still accepts connections and acknowledges bytes.
//! - [`Ensemble::isolate`] drops every byte between a server and the other servers. Its clients notice nothing: for up to
//!   `syncLimit` ticks it serves them reads, and takes writes it cannot commit. Servers reach each other only through
//!   proxies in the test process, so this needs neither root nor firewall rules.
//! - [`Ensemble::close_session`] ends a client's session as an operator would: at once, whatever its client does.
//! - A [`Link`] is between one client and one server: delay, black hole, cut, a lost or held reply, and counts of what
//!   passed.
//!
//! Proxies run on threads of their own, so tests may block their runtime, and servers may outlive the runtime that
//! started them.

#![cfg_attr(not(test), warn(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]

mod backend;
mod builder;
mod config;
mod ensemble;
mod error;
mod link;
mod listener;
mod mesh;
mod ports;
mod server;
mod session;
mod snapshot;
mod zookeeper;

pub use backend::Backend;
pub use builder::{EnsembleBuilder, ZooKeeperBuilder};
pub use ensemble::Ensemble;
pub use error::Error;
pub use link::{Counts, HeldReply, HeldRequest, Link, LostReply, RequestKind};
pub use snapshot::Snapshot;
pub use zookeeper::ZooKeeper;
