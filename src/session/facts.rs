//! Single facts that a server tells: whether a node is there, and who its client is.

use crate::acquire::query::query;
use crate::error::QueryError;
use crate::path::check_node;
use crate::requests::failure;
use crate::zk::Succession;

pub(super) async fn child_count(succession: &Succession, path: &str) -> Result<Option<usize>, QueryError> {
    let node = path.to_owned();
    check_node(path).map_err(|problem| QueryError::Path { path: node.clone(), problem })?;
    let stat =
        query(succession, path, |wire| async move { wire.client.check_stat(&node).await.map_err(failure) });
    Ok(stat.await?.map(|stat| usize::try_from(stat.num_children).unwrap_or_default()))
}

pub(super) async fn identities(succession: &Succession) -> Result<Vec<String>, QueryError> {
    let users =
        query(succession, "/", |wire| async move { wire.client.list_auth_users().await.map_err(failure) });
    let users = users.await?;
    Ok(users.iter().map(|user| format!("{}:{}", user.scheme(), user.user())).collect())
}
