//! Transactions of the recipe, as the client's.

use zklock_recipe::transaction::{Operation, Problem};
use zookeeper_client as zk;
use zookeeper_client::{Client, CreateMode, CreateOptions, Error, MultiWriter};

/// Adds an operation on the node at a path. It writes these data, and creates a node with these options.
pub(super) fn add(
    transaction: &mut MultiWriter<'_>,
    operation: Operation<(&str, &[u8])>,
    options: &CreateOptions<'_>,
) -> Result<(), Error> {
    match operation {
        // On the wire, -1 stands for any version.
        Operation::Check((path, _), version) => transaction.add_check_version(path, version.unwrap_or(-1)),
        Operation::Create((path, data)) => transaction.add_create(path, data, options),
        Operation::Set((path, data), version) => transaction.add_set_data(path, data, version),
        Operation::Delete((path, _), version) => transaction.add_delete(path, version),
    }
}

/// Makes a transaction that creates nothing, and writes nothing to the nodes at these paths. `Err` says which operation is wrong.
pub(crate) fn plain<'a>(
    client: &'a Client,
    operations: impl IntoIterator<Item = Operation<&'a str>>,
) -> Result<MultiWriter<'a>, (usize, Error)> {
    let mut transaction = client.new_multi_writer();
    let unused = CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
    for (index, operation) in operations.into_iter().enumerate() {
        let operation = operation.map(|path| (path, [].as_slice()));
        add(&mut transaction, operation, &unused).map_err(|error| (index, error))?;
    }
    Ok(transaction)
}

/// Why an operation failed; `None` if the servers refuse it, or nobody knows.
pub(super) fn problem(error: &Error) -> Option<Problem> {
    match error {
        Error::NoNode => Some(Problem::NoNode),
        Error::NodeExists => Some(Problem::NodeExists),
        Error::BadVersion => Some(Problem::BadVersion),
        Error::NotEmpty => Some(Problem::NotEmpty),
        _ => None,
    }
}
