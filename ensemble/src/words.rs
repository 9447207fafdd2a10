//! Four-letter words: what a server says about itself to anybody.

use crate::config::Config;
use crate::server::Server;

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

impl Server {
    /// The answer to a word.
    pub(crate) fn answer_word(&self, word: &str) -> String {
        let words = &self.config.words;
        if word != "srvr" && !words.iter().any(|enabled| enabled == "*" || enabled == word) {
            return format!("{word} is not executed because it is not in the whitelist.\n");
        }
        match (word, self.role.serves()) {
            ("ruok", _) => "imok".into(),
            ("isro", true) => "rw".into(),
            ("isro", false) => "null".into(),
            (_, false) => NOT_SERVING.into(),
            ("srvr", true) => self.status(),
            ("conf", true) => self.configuration(),
            _ => String::new(),
        }
    }

    fn status(&self) -> String {
        let mode = self.role.name();
        let proposals =
            if mode == "leader" { "Proposal sizes last/min/max: -1/-1/-1\n" } else { Default::default() };
        format!(
            "Zookeeper version: {}-simulated, built on 1970-01-01 00:00 UTC\nLatency min/avg/max: 0/0.0/0\n\
             Received: {}\nSent: {}\nConnections: {}\nOutstanding: 0\nZxid: 0x{:x}\nMode: {}\n{proposals}\
             Node count: {}\n",
            self.config.version.name(),
            self.received,
            self.sent,
            self.connections.len(),
            self.tree.zxid,
            mode,
            self.tree.count(),
        )
    }

    fn configuration(&self) -> String {
        let Config { id, tick, min_session_timeout, max_session_timeout, .. } = &self.config;
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
}
