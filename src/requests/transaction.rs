//! Sends transactions of the recipe.

use std::borrow::Cow;

use zklock_recipe::transaction::{Operation, Problem};
use zookeeper_client as zk;
use zookeeper_client::{
    Client, CreateMode, CreateOptions, Error, MultiWriteError, MultiWriteResult, MultiWriter,
};

/// A node of an operation: what is written to it, and how it is created, if the operation does that.
pub(crate) struct Operand<'a> {
    pub(crate) path: Cow<'a, str>,
    pub(crate) data: &'a [u8],
    pub(crate) options: CreateOptions<'a>,
}

impl<'a> From<&'a str> for Operand<'a> {
    /// The node at this path, to which nothing is written. It is not created.
    fn from(path: &'a str) -> Self {
        let nothing: &[u8] = &[];
        Self::from((path, nothing))
    }
}

impl<'a> From<(&'a str, &'a [u8])> for Operand<'a> {
    /// The node at this path, to which these data are written. It is not created.
    fn from((path, data): (&'a str, &'a [u8])) -> Self {
        Self { path: path.into(), data, options: CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all()) }
    }
}

/// Sends a transaction, of operations on the nodes that `operand` names. The results are as many as the operations. `Err` says
/// which node was in the way, if one was, and why.
pub(crate) async fn commit<'a, N, O: Into<Operand<'a>>>(
    client: &Client,
    operations: &'a [Operation<N>],
    operand: impl Fn(&'a N) -> O,
) -> Result<Vec<MultiWriteResult>, (Option<&'a N>, Error)> {
    // zookeeper-client would answer that by itself, and the answer would prove nothing.
    if operations.is_empty() {
        return Err((None, Error::BadArguments(&"a transaction without operations")));
    }
    let mut transaction = client.new_multi_writer();
    for operation in operations {
        let node = operation.node();
        let added = add(&mut transaction, operation, operand(node).into());
        added.map_err(|error| (Some(node), error))?;
    }
    match transaction.commit().await {
        Ok(results) if results.len() == operations.len() => Ok(results),
        Ok(_) => Err((None, Error::UnexpectedError("the reply does not fit the transaction".to_owned()))),
        Err(MultiWriteError::OperationFailed { index, source }) => {
            Err((operations.get(index).map(Operation::node), source))
        }
        Err(error) => Err((None, error.into())),
    }
}

fn add<N>(
    transaction: &mut MultiWriter<'_>,
    operation: &Operation<N>,
    Operand { path, data, options }: Operand<'_>,
) -> Result<(), Error> {
    match operation {
        // On the wire, -1 stands for any version.
        Operation::Check(_, version) => transaction.add_check_version(&path, version.unwrap_or(-1)),
        Operation::Create(_) => transaction.add_create(&path, data, &options),
        Operation::Set(_, version) => transaction.add_set_data(&path, data, *version),
        Operation::Delete(_, version) => transaction.add_delete(&path, *version),
    }
}

/// Why an operation failed; `None` if the servers refuse it, or nobody knows.
pub(crate) fn problem(error: &Error) -> Option<Problem> {
    match error {
        Error::NoNode => Some(Problem::NoNode),
        Error::NodeExists => Some(Problem::NodeExists),
        Error::BadVersion => Some(Problem::BadVersion),
        Error::NotEmpty => Some(Problem::NotEmpty),
        _ => None,
    }
}
