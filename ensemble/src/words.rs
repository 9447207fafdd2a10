//! Four-letter words: what a server says about itself to anybody.

use crate::config::Config;

/// What a server that serves says.
pub(crate) struct Standing<'a> {
    pub(crate) config: &'a Config,
    pub(crate) mode: &'a str,
    pub(crate) zxid: i64,
    pub(crate) nodes: usize,
    pub(crate) ephemerals: usize,
    pub(crate) connections: usize,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// The answer to a word. `standing` is `None` if the server does not serve.
pub(crate) fn answer(word: &str, config: &Config, standing: Option<&Standing<'_>>) -> String {
    let enabled = word == "srvr" || config.words.iter().any(|enabled| enabled == "*" || enabled == word);
    if !enabled {
        return format!("{word} is not executed because it is not in the whitelist.\n");
    }
    match (word, standing) {
        ("ruok", _) => "imok".into(),
        ("isro", Some(_)) => "rw".into(),
        ("isro", None) => "null".into(),
        (_, None) => NOT_SERVING.into(),
        ("srvr", Some(standing)) => standing.server(),
        ("conf", Some(standing)) => standing.configuration(),
        ("mntr", Some(standing)) => standing.figures(),
        _ => String::new(),
    }
}

impl Standing<'_> {
    fn server(&self) -> String {
        let proposals = if self.mode == "leader" {
            "Proposal sizes last/min/max: -1/-1/-1\n"
        } else {
            Default::default()
        };
        format!(
            "Zookeeper version: {}-simulated, built on 1970-01-01 00:00 UTC\nLatency min/avg/max: 0/0.0/0\n\
             Received: {}\nSent: {}\nConnections: {}\nOutstanding: 0\nZxid: 0x{:x}\nMode: {}\n{proposals}\
             Node count: {}\n",
            self.config.version.name(),
            self.received,
            self.sent,
            self.connections,
            self.zxid,
            self.mode,
            self.nodes,
        )
    }

    fn configuration(&self) -> String {
        let Config { id, tick, min_session_timeout, max_session_timeout, .. } = self.config;
        let mut answer = format!(
            "clientPort=2181\nsecureClientPort=-1\ndataDir=/data/version-2\ndataDirSize=0\ndataLogDir=/data/version-2\n\
             dataLogSize=0\ntickTime={}\nmaxClientCnxns=60\nminSessionTimeout={}\nmaxSessionTimeout={}\n\
             clientPortListenBacklog=-1\n",
            tick.as_millis(),
            min_session_timeout.as_millis(),
            max_session_timeout.as_millis(),
        );
        if self.config.voters == 1 {
            answer += "serverId=0\n";
        } else {
            answer += &format!(
                "serverId={}\ninitLimit={}\nsyncLimit={}\nelectionAlg=3\nelectionPort=3888\nquorumPort=2888\n\
                 peerType=0\nmembership: \n{}\n",
                id.0, self.config.init_limit, self.config.sync_limit, self.config.members,
            );
        }
        answer
    }

    fn figures(&self) -> String {
        format!(
            "zk_version\t{}-simulated\nzk_server_state\t{}\nzk_znode_count\t{}\nzk_ephemerals_count\t{}\n\
             zk_num_alive_connections\t{}\n",
            self.config.version.name(),
            self.mode,
            self.nodes,
            self.ephemerals,
            self.connections,
        )
    }
}
