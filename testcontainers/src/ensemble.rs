//! An ensemble of servers, and what a test can do to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{join_all, try_join_all};

use crate::config::Options;
use crate::mesh::Mesh;
use crate::node::Node;
use crate::platform::Platform;
use crate::server::{Server, Standing, State, poll};
use crate::session::{self, Closing};
use crate::{Backend, Error};

/// Ports are taken in competition with everybody else on the machine.
const ATTEMPTS: usize = 4;
const LEADER_WAIT: Duration = Duration::from_secs(60);
const CLOSING_WAIT: Duration = Duration::from_secs(60);

/// Several ZooKeeper servers that form one ensemble. Dropping the ensemble ends the servers and removes their
/// data.
///
/// Servers are counted from 0. Methods take `&self`, so that tests can share an ensemble.
///
/// # Errors
/// Methods that name a server fail with [`Error::NoSuchServer`] if the ensemble has none of that index. Methods that act on
/// a server fail with [`Error::Docker`] or [`Error::Io`] if the engine or the operating system refuses.
///
/// # Cancellation
/// If a future of `start`, `kill`, `restart`, `pause`, `unpause`, `reconfigure` or `close_session` is dropped, the operation
/// may be done, or not, or half. Servers of a cancelled `start` are removed. The other operations may be repeated. All other
/// methods change nothing, or change it at once.
#[derive(Debug)]
pub struct Ensemble {
    // Servers end before the network between them does.
    servers: Vec<Server>,
    mesh: Mesh,
    backend: Backend,
}

impl Ensemble {
    /// Starts `size` servers with default options and waits until all of them serve.
    ///
    /// # Errors
    /// When neither backend works on this machine, or a server does not serve within a minute.
    pub async fn start(size: usize) -> Result<Self, Error> {
        Self::start_with(size, &Options::default()).await
    }

    pub(crate) async fn start_with(size: usize, options: &Options) -> Result<Self, Error> {
        options.check()?;
        if size == 0 || size > 15 {
            return Err(Error::InvalidOption(format!("an ensemble of {size} servers: ask for 1 to 15")));
        }
        if let Some((index, ..)) = options.properties_of.iter().find(|(index, ..)| *index >= size) {
            return Err(Error::NoSuchServer { index: *index, len: size });
        }
        let platform = Platform::choose(options.backend).await?;
        let mut attempt = 1;
        loop {
            match Self::start_once(&platform, size, options).await {
                Err(error) if error.is_port_collision() && attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    async fn start_once(platform: &Platform, size: usize, options: &Options) -> Result<Self, Error> {
        let mesh = Mesh::start(size, platform.proxy_host(), platform.proxy_name())?;
        let mut servers = Vec::new();
        for index in 0..size {
            let options = options.of(index);
            let node = platform.node(index, &mesh.peers_of(index), &options)?;
            servers.push(Server::new(index, node, options));
        }
        let ensemble = Self { servers, mesh, backend: platform.backend() };
        try_join_all(ensemble.servers.iter().map(|server| ensemble.launch(server))).await?;
        try_join_all(ensemble.servers.iter().map(Server::wait_until_serving)).await?;
        Ok(ensemble)
    }

    /// Starts a server's process and tells the others where it is.
    async fn launch(&self, server: &Server) -> Result<(), Error> {
        server.launch().await?;
        if let Some((quorum, election)) = server.node.peer_addresses() {
            self.mesh.locate(server.index, &quorum, &election);
        }
        Ok(())
    }

    /// All client addresses, separated by commas.
    pub fn connect_string(&self) -> String {
        let addresses: Vec<_> = self.servers.iter().map(|server| server.node.client_address()).collect();
        addresses.join(",")
    }

    /// The client address of server `index`, as `host:port`. It stays the same for as long as the ensemble lives.
    ///
    /// # Panics
    /// When there is no such server.
    pub fn address(&self, index: usize) -> String {
        // Like indexing a slice: an index out of range is a mistake in the test's own text.
        #[allow(clippy::panic)]
        match self.server(index) {
            Ok(server) => server.node.client_address(),
            Err(error) => panic!("{error}"),
        }
    }

    /// The number of servers, whatever their state.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// How the servers are run.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Ends server `index` without notice, as `kill -9` does. Its data stays. Killing a killed server does nothing.
    pub async fn kill(&self, index: usize) -> Result<(), Error> {
        self.server(index)?.kill().await
    }

    /// Kills server `index` if it still runs, and starts it again, with its data, at its old address.
    ///
    /// Returns once the server serves. It cannot serve if the servers that run and are not isolated are too few for a quorum,
    /// or if it is isolated itself. Then this returns once the server answers at all.
    pub async fn restart(&self, index: usize) -> Result<(), Error> {
        let server = self.server(index)?;
        server.kill().await?;
        self.launch(server).await?;
        if self.has_quorum().await && !self.mesh.is_isolated(index) {
            server.wait_until_serving().await
        } else {
            server.wait_until_up().await
        }
    }

    /// Returns true if server `index` has ended by itself, as ZooKeeper does if it finds that it cannot go on, or if somebody
    /// else ended it. It stays true until the server is [restarted](Self::restart) or [killed](Self::kill).
    pub async fn has_exited(&self, index: usize) -> Result<bool, Error> {
        Ok(self.server(index)?.has_exited().await)
    }

    /// Changes a line of the `zoo.cfg` of server `index`, or adds it. The server reads it when it is
    /// [restarted](Self::restart), so one server after the other makes a rolling change of configuration.
    ///
    /// # Errors
    /// When there is no such server, or the line cannot be one of `zoo.cfg`.
    pub async fn reconfigure(
        &self,
        index: usize,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<(), Error> {
        self.server(index)?.reconfigure(key.into(), value.into()).await
    }

    /// Freezes server `index`: its connections stay open, and it does nothing.
    ///
    /// # Errors
    /// [`Error::Exited`] if the server [has ended by itself](Self::has_exited), [`Error::NotRunning`] if it is killed.
    pub async fn pause(&self, index: usize) -> Result<(), Error> {
        self.server(index)?.pause().await
    }

    /// Lets a paused server go on, as if no time had passed for it. Nothing happens if it was not paused.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn unpause(&self, index: usize) -> Result<(), Error> {
        self.server(index)?.unpause().await
    }

    /// Cuts server `index` off from the other servers, as if every packet between them were dropped. Its clients stay
    /// connected to it. Several servers may be isolated; each is then alone.
    ///
    /// Returns at once. The servers notice by themselves: a follower and the leader after `syncLimit` ticks at most.
    pub async fn isolate(&self, index: usize) -> Result<(), Error> {
        self.server(index)?;
        self.mesh.isolate(index);
        Ok(())
    }

    /// Holds back all that server `from` sends to server `to`, election messages too, as a network does that loses these
    /// packets. They arrive later, as TCP would send them again. What `to` sends still reaches `from`.
    pub async fn stall(&self, from: usize, to: usize) -> Result<(), Error> {
        self.server(from)?;
        self.server(to)?;
        self.mesh.set_stalled(from, to, true);
        Ok(())
    }

    /// Ends [`stall`](Self::stall): what was held back goes on, and what comes passes. [`heal`](Self::heal) does so for all
    /// servers.
    pub async fn flow(&self, from: usize, to: usize) -> Result<(), Error> {
        self.server(from)?;
        self.server(to)?;
        self.mesh.set_stalled(from, to, false);
        Ok(())
    }

    /// Connects server `index` again with those that are not isolated themselves. What is [stalled](Self::stall) stays so.
    pub async fn rejoin(&self, index: usize) -> Result<(), Error> {
        self.server(index)?;
        self.mesh.rejoin(index);
        Ok(())
    }

    /// Connects all servers again. Returns at once. [`wait_until_serving`](Self::wait_until_serving) waits until they have
    /// found together.
    pub async fn heal(&self) -> Result<(), Error> {
        self.mesh.heal();
        Ok(())
    }

    /// Waits until every server that runs and is neither paused nor isolated serves clients.
    ///
    /// # Errors
    /// When one of them does not within a minute.
    pub async fn wait_until_serving(&self) -> Result<(), Error> {
        try_join_all(self.reachable().await.into_iter().map(Server::wait_until_serving)).await?;
        Ok(())
    }

    /// The server that leads. Waits up to a minute for an election to end.
    ///
    /// Servers that are killed, paused or isolated are not asked. So this is the leader that a majority follows, even while
    /// an isolated old leader still believes that it leads.
    pub async fn leader(&self) -> Result<usize, Error> {
        poll("a leader", LEADER_WAIT, || async {
            let leaders = self.standings().await.into_iter().filter(|standing| standing.mode == "leader");
            // For a moment after healing, two servers may say that they lead. The one with the later epoch does.
            leaders.max_by_key(|standing| standing.epoch).map(|standing| standing.index)
        })
        .await
    }

    /// The servers that follow at this moment, among those that are not killed, paused or isolated.
    pub async fn followers(&self) -> Result<Vec<usize>, Error> {
        let followers = self.standings().await.into_iter().filter(|standing| standing.mode == "follower");
        Ok(followers.map(|standing| standing.index).collect())
    }

    /// What the servers that can be asked say of themselves, as far as they serve.
    async fn standings(&self) -> Vec<Standing> {
        let answers = join_all(self.reachable().await.into_iter().map(Server::standing)).await;
        answers.into_iter().flatten().collect()
    }

    /// Asks server `index` a four-letter word: `srvr`, `mntr`, `wchs`, `cons`, `dump`, `ruok`; all are enabled. A server has
    /// half a minute to answer.
    pub async fn admin(&self, index: usize, word: &str) -> Result<String, Error> {
        self.server(index)?.admin(word).await
    }

    /// Ends session `id` as an operator would: its ephemeral nodes are gone once this returns, and its client is told
    /// that it has expired.
    ///
    /// This call resumes the session and closes it, if possible at another server than the client's. So the client hears of
    /// it by nothing but the end itself. Servers that are killed, paused or isolated are not asked.
    ///
    /// # Errors
    /// When there is no such session, or no server closes it within a minute.
    pub async fn close_session(&self, id: i64) -> Result<(), Error> {
        // An attempt that was not answered may have closed it.
        let tried = AtomicBool::new(false);
        let what = format!("a server to close session {id:#x}");
        let closing = poll(&what, CLOSING_WAIT, || async {
            for server in self.strangers_first(id).await {
                match session::close(&server.node.client_address(), id).await {
                    Ok(closing) => return Some(closing),
                    Err(_) => tried.store(true, Ordering::SeqCst),
                }
            }
            None
        });
        match closing.await? {
            Closing::Unknown if !tried.load(Ordering::SeqCst) => Err(Error::NoSuchSession { id }),
            _ => Ok(()),
        }
    }

    /// The servers that can be asked. The one that session `id` is connected to comes last.
    async fn strangers_first(&self, id: i64) -> Vec<&Server> {
        let mut servers = Vec::new();
        for server in self.reachable().await {
            let connections = server.admin("cons").await.unwrap_or_default();
            servers.push((connections.contains(&format!("sid={id:#x},")), server));
        }
        servers.sort_by_key(|(connected, _)| *connected);
        servers.into_iter().map(|(_, server)| server).collect()
    }

    fn server(&self, index: usize) -> Result<&Server, Error> {
        self.servers.get(index).ok_or(Error::NoSuchServer { index, len: self.servers.len() })
    }

    async fn reachable(&self) -> Vec<&Server> {
        let mut reachable = Vec::new();
        for server in &self.servers {
            if server.state().await == State::Running && !self.mesh.is_isolated(server.index) {
                reachable.push(server);
            }
        }
        reachable
    }

    async fn has_quorum(&self) -> bool {
        let exited = join_all(self.reachable().await.into_iter().map(Server::has_exited)).await;
        exited.into_iter().filter(|exited| !exited).count() > self.servers.len() / 2
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        let nodes: Vec<Node> = self.servers.drain(..).map(|server| server.node).collect();
        // Each takes a moment, so end them side by side.
        std::thread::scope(|scope| {
            for node in nodes {
                scope.spawn(move || drop(node));
            }
        });
    }
}
