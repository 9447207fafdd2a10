//! ZooKeeper as an image of the `testcontainers` crate.
//!
//! This file is the only place that says how a container of ZooKeeper is set up. Servers that `testcontainers` starts and
//! the members of an ensemble both come from here. They differ in two points only: a member has peers, and does not wait
//! until it serves, because it serves only with the others.

use std::borrow::Cow;

use testcontainers::core::{CmdWaitFor, ContainerPort, ContainerState, ExecCommand, WaitFor};
use testcontainers::{CopyToContainer, Image, TestcontainersError};

use crate::config::{Layout, Member, Options};

const NAME: &str = "zookeeper";
const TAG: &str = "3.9";

pub(crate) const CLIENT: u16 = 2181;
pub(crate) const QUORUM: u16 = 2888;
pub(crate) const ELECTION: u16 = 3888;

pub(crate) const CONF: &str = "/conf";
pub(crate) const CONFIG: &str = "zoo.cfg";
const DATA: &str = "/data";
const DATA_LOG: &str = "/datalog";

/// The image, as an engine calls it.
pub(crate) fn descriptor() -> String {
    format!("{NAME}:{TAG}")
}

/// What [`wait`] prints in the end.
const SERVING: &str = "serving";

/// The image `zookeeper:3.9`, for the runners of the [`testcontainers`] crate: one server, standalone.
///
/// ```no_run
/// # async fn example() -> Result<(), testcontainers::TestcontainersError> {
/// use testcontainers::runners::AsyncRunner;
/// use zklock_testcontainers::ZooKeeperImage;
///
/// let server = ZooKeeperImage::default().start().await?;
/// let host = server.get_host().await?;
/// let port = server.get_host_port_ipv4(ZooKeeperImage::CLIENT_PORT).await?;
/// println!("connect to {host}:{port}");
/// # Ok(())
/// # }
/// ```
///
/// `start` returns once the server serves clients. Its options are those of a [`ZooKeeperBuilder`](crate::ZooKeeperBuilder):
/// `ZooKeeperImage::from(ZooKeeper::builder().tick_time(tick))`. A list for `4lw.commands.whitelist` has to contain `srvr`, by
/// which `start` sees that the server serves. Another name, another tag, a network and the like come from
/// [`testcontainers::ImageExt`].
///
/// The server is configured by a `zoo.cfg` of its own. So the variables of the image that describe a `zoo.cfg`, such as
/// `ZOO_TICK_TIME`, have no effect; use [`property`](crate::ZooKeeperBuilder::property).
///
/// `testcontainers` owns the container: it removes the container when the handle is dropped. For faults, several servers,
/// or a container that is gone even if the test process is killed, use [`ZooKeeper`](crate::ZooKeeper) or
/// [`Ensemble`](crate::Ensemble). They start this same image.
#[derive(Clone, Debug)]
#[must_use = "an image does nothing until it is started"]
pub struct ZooKeeperImage {
    options: Options,
    layout: Layout,
    /// What stands in the file `myid`.
    id: usize,
    waits: bool,
    /// `zoo.cfg`, the files that it names, and the data to start from.
    files: Vec<CopyToContainer>,
}

impl ZooKeeperImage {
    /// The port at which the server takes clients inside its container.
    pub const CLIENT_PORT: ContainerPort = ContainerPort::Tcp(CLIENT);

    /// Server `index` of an ensemble, or of none if it has no `peers`. The ensemble waits until it serves.
    pub(crate) fn member(index: usize, peers: &[Member], options: &Options) -> Self {
        let own =
            Member { id: index + 1, host: "0.0.0.0".into(), quorum_port: QUORUM, election_port: ELECTION };
        Self::new(own.id, own.among(peers), options.clone(), false)
    }

    pub(crate) fn zoo_cfg(&self, options: &Options) -> String {
        options.zoo_cfg(&self.layout)
    }

    pub(crate) fn new(id: usize, members: Vec<Member>, options: Options, waits: bool) -> Self {
        let layout = Layout {
            conf: CONF.into(),
            data: DATA.into(),
            data_log: DATA_LOG.into(),
            client_host: "0.0.0.0".into(),
            client_port: CLIENT,
            members,
        };
        let files = files(&options, &layout);
        Self { options, layout, id, waits, files }
    }
}

impl Default for ZooKeeperImage {
    fn default() -> Self {
        Self::new(1, Vec::new(), Options::default(), true)
    }
}

impl Image for ZooKeeperImage {
    fn name(&self) -> &str {
        NAME
    }

    fn tag(&self) -> &str {
        TAG
    }

    /// None: no line of ZooKeeper's log is common to all its versions and log levels.
    /// [`exec_after_start`](Self::exec_after_start) waits in their place.
    fn ready_conditions(&self) -> Vec<WaitFor> {
        Vec::new()
    }

    fn env_vars(&self) -> impl IntoIterator<Item = (impl Into<Cow<'_, str>>, impl Into<Cow<'_, str>>)> {
        [
            ("ZOO_MY_ID", self.id.to_string()),
            ("JVMFLAGS", self.options.jvm_flags().join(" ")),
            ("JMXDISABLE", "true".to_owned()),
        ]
    }

    /// The image keeps a `zoo.cfg` that is there already, and writes one from its variables otherwise.
    fn copy_to_sources(&self) -> impl IntoIterator<Item = &CopyToContainer> {
        &self.files
    }

    fn expose_ports(&self) -> &[ContainerPort] {
        &[Self::CLIENT_PORT]
    }

    /// Refuses options that cannot work. A server may well have ended by them already.
    fn exec_before_ready(&self, _: ContainerState) -> Result<Vec<ExecCommand>, TestcontainersError> {
        self.options.check().map_err(TestcontainersError::other)?;
        Ok(Vec::new())
    }

    /// Waits until the server serves, at its first start and at every later one.
    fn exec_after_start(&self, _: ContainerState) -> Result<Vec<ExecCommand>, TestcontainersError> {
        Ok(if self.waits { vec![wait()] } else { Vec::new() })
    }
}

/// Waits inside the container until the server answers `srvr` with its mode. A server that does not serve yet answers
/// something else, or nothing. bash is in every image that has ZooKeeper's own scripts, and speaks TCP; `nc` is not in all of
/// them.
fn wait() -> ExecCommand {
    let script = format!(
        "until {{ exec 3<>/dev/tcp/127.0.0.1/{CLIENT} && printf srvr >&3 && timeout 2 grep -q '^Mode: ' <&3; }} 2>/dev/null
         do sleep 0.1; done
         echo {SERVING}"
    );
    ExecCommand::new(["bash", "-c", &script]).with_cmd_ready_condition(CmdWaitFor::message_on_stdout(SERVING))
}

fn files(options: &Options, layout: &Layout) -> Vec<CopyToContainer> {
    let mut files =
        vec![CopyToContainer::new(options.zoo_cfg(layout).into_bytes(), format!("{CONF}/{CONFIG}"))];
    for (name, bytes) in options.conf_files() {
        files.push(CopyToContainer::new(bytes.to_owned(), format!("{CONF}/{name}")));
    }
    for (name, bytes) in &options.data_files {
        let directory = if name.starts_with("log.") { DATA_LOG } else { DATA };
        files.push(CopyToContainer::new(bytes.clone(), format!("{directory}/version-2/{name}")));
    }
    files
}
