//! What contenders have in ZooKeeper: nodes in queues, logs and records, as an operator reads them with a plain client.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::member::{LOGS, Member};
use crate::record::{Entry, RunRecord, Who};

#[derive(Clone, Debug)]
pub struct Node {
    /// With its directory.
    pub path: String,
    pub session: i64,
    /// The transaction that created it.
    pub czxid: i64,
    /// Whose it is, unless its data was overwritten.
    pub who: Option<Who>,
}

/// Everything of a member that an operator sees: queues, permits, the announcement.
pub async fn view(operator: &Client, member: Member, locks: usize) -> Result<Vec<Node>, Error> {
    let mut nodes = try_join_all((0..locks).map(|lock| queue(operator, member.path(lock)))).await?.concat();
    nodes.extend(queue(operator, member.permits()).await?);
    nodes.extend(node(operator, member.announcement()).await?);
    Ok(nodes)
}

/// Makes the logs of the locks, unless they are there.
pub async fn make_logs(operator: &Client, member: Member, locks: usize) -> Result<(), Error> {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for path in [LOGS.to_owned()].into_iter().chain((0..locks).map(|lock| member.log(lock))) {
        match operator.create(&path, b"", &options).await {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub async fn logs(operator: &Client, member: Member, locks: usize) -> Result<Vec<Vec<Entry>>, Error> {
    operator.sync("/").await?;
    let mut logs = Vec::new();
    for lock in 0..locks {
        let mut names = operator.list_children(&member.log(lock)).await?;
        names.sort_by(|one, other| number(one).cmp(number(other)));
        logs.push(names.iter().map(|name| name.parse().expect("only holders write there")).collect());
    }
    Ok(logs)
}

/// The records of runs that happen once, by their names, and the ranges of names whose records were dropped.
pub type Records = (BTreeMap<String, RunRecord>, Vec<(String, String)>);

pub async fn records(operator: &Client, member: Member) -> Result<Records, Error> {
    operator.sync("/").await?;
    let records = member.records();
    let (data, names) = match operator.get_data(&records).await {
        Err(Error::NoNode) => return Ok(Records::default()),
        read => (read?.0, operator.list_children(&records).await?),
    };
    let read = "only zklock writes there";
    let ranges: BTreeMap<String, _> =
        if data.is_empty() { BTreeMap::new() } else { serde_json::from_slice(&data).expect(read) };
    let mut kept = BTreeMap::new();
    for name in names {
        let (data, _) = operator.get_data(&format!("{records}/{name}")).await?;
        kept.insert(name, serde_json::from_slice(&data).expect(read));
    }
    Ok((kept, ranges.into_values().next().unwrap_or_default()))
}

/// The contenders in this directory.
pub async fn queue(operator: &Client, directory: String) -> Result<Vec<Node>, Error> {
    let names = match operator.list_children(&directory).await {
        Err(Error::NoNode) => Vec::new(),
        names => names?,
    };
    let mut nodes = Vec::new();
    for name in names {
        nodes.extend(node(operator, format!("{directory}/{name}")).await?);
    }
    Ok(nodes)
}

async fn node(operator: &Client, path: String) -> Result<Option<Node>, Error> {
    match operator.get_data(&path).await {
        Err(Error::NoNode) => Ok(None),
        read => {
            let (data, stat) = read?;
            Ok(Some(Node { path, session: stat.ephemeral_owner, czxid: stat.czxid, who: owner(&data) }))
        }
    }
}

/// Whose node it is that has these data.
pub fn owner(data: &[u8]) -> Option<Who> {
    let data: serde_json::Value = serde_json::from_slice(data).ok()?;
    data.get("owner")?.as_str()?.parse().ok()
}

/// The number of a sequential node: the last ten digits, whatever stands before.
fn number(name: &str) -> &str {
    name.get(name.len().saturating_sub(10)..).unwrap_or(name)
}
