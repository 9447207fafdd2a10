//! The transactions of contenders on their own nodes: they create them, confirm them and release them, all or none.
//!
//! A [companion](crate::companion) says how a single node goes.

use alloc::vec::Vec;

use crate::companion::{CompanionTarget, removal};
use crate::transaction::Operation;

/// A node of the transaction that enters queues, of this contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entered<C> {
    /// The contender's own node, which gets the queue's next number.
    Own(C),
    /// The queue's directory.
    Directory(C),
}

/// The transaction that enters queues: of these contenders, each with whether the transaction writes nothing to its queue's directory.
///
/// The answer to that write is the directory's stat. It comes behind the create, so it counts our own node.
pub fn entry<C: Copy>(contenders: impl IntoIterator<Item = (C, bool)>) -> Vec<Operation<Entered<C>>> {
    let enter = |(contender, counts): (C, bool)| {
        let count = counts.then_some(Operation::Set(Entered::Directory(contender), None));
        [Operation::Create(Entered::Own(contender))].into_iter().chain(count)
    };
    contenders.into_iter().flat_map(enter).collect()
}

/// The transaction that asks a quorum whether these nodes exist in this version. It knows their names only. A transaction that is to take
/// effect only while a lock is held begins with this, for the holder's nodes as nobody has touched them.
pub fn confirmation<N>(
    nodes: impl IntoIterator<Item = N>,
    version: Option<i32>,
) -> impl Iterator<Item = Operation<N>> {
    nodes.into_iter().map(move |node| Operation::Check(node, version))
}

/// The transaction that releases these nodes. None of them has a companion.
pub fn release<N: Copy>(nodes: impl IntoIterator<Item = N>) -> Vec<Operation<N>> {
    let removal = |node| {
        removal(true, false).into_iter().map(move |operation| operation.map(|_: CompanionTarget| node))
    };
    nodes.into_iter().flat_map(removal).collect()
}

/// The transaction that releases a node in a queue that another client shares. The directory has no data in the version `trace`, if
/// that is given. Then the release writes nothing to it. This shows a contender that comes later that it was a release
/// ([`shows_release`](crate::Directory::shows_release)). The other client's contenders look again at any event of the node.
pub fn release_shared(trace: Option<i32>) -> Vec<Operation<Entered<()>>> {
    let own = Entered::Own(());
    let directory = Entered::Directory(());
    let trace = trace.map(|version| Operation::Set(directory, Some(version)));
    [Operation::Set(own, None), Operation::Delete(own, None)].into_iter().chain(trace).collect()
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn each_transaction_is_as_it_must_be() {
        use Entered::{Directory, Own};
        use Operation::{Check, Create, Delete, Set};

        assert_eq!(
            entry([(7, true), (8, false), (9, true)]),
            [
                Create(Own(7)),
                Set(Directory(7), None),
                Create(Own(8)),
                Create(Own(9)),
                Set(Directory(9), None)
            ]
        );
        assert_eq!(confirmation([7, 8], Some(0)).collect::<Vec<_>>(), [Check(7, Some(0)), Check(8, Some(0))]);
        assert_eq!(release([7, 8]), [Set(7, None), Delete(7, None), Set(8, None), Delete(8, None)]);
        assert_eq!(release_shared(None), [Set(Own(()), None), Delete(Own(()), None)]);
        let traced = [Set(Own(()), None), Delete(Own(()), None), Set(Directory(()), Some(3))];
        assert_eq!(release_shared(Some(3)), traced);
        assert_eq!(removal(false, false), vec![Delete(CompanionTarget::Own, None)]);
    }
}
