//! Whom an operator may strike at this moment, so that the waiters' takeover delay covers it. Pure.
//!
//! A newcomer who finds an empty queue is granted the lock at once, with a takeover delay or without. So no act may leave a
//! queue empty while the victim may believe that it holds the lock:
//!
//! - Behind a node of a holder, somebody of another session waits, and stays.
//! - A contender that waits is behind a holder that stays and is in conflict with it. So it does not hold the lock, whatever
//!   it is about to be told.

use zklock_contest::history::Hold;
use zklock_contest::nodes::Node;

use super::schedule::{Kind, Planned};

/// One of the holders, and the node to delete, or one whose session is to be closed. The holders have been told to stay.
pub(super) fn victim(
    planned: Planned,
    holders: &[Hold],
    queues: &[Vec<Node>],
    stays: impl Fn(&Node) -> bool,
) -> Option<(Hold, Node)> {
    let Planned { kind, pick, .. } = planned;
    let view = View { holders, queues, stays };
    let nodes: Vec<_> = queues.iter().flatten().filter(|node| view.may_be_struck(kind, node)).collect();
    let victim = nodes.get(pick as usize % nodes.len().max(1))?;
    let holder = holders.iter().find(|holder| holder.has(&victim.path)).or(holders.first())?;
    Some((holder.clone(), Node::clone(victim)))
}

/// As [`victim`], of a pool with these permits, behind this turnstile. An acquisition that has to wait observes its delay once it
/// sees room, and one that finds room at once does not. So a permit may go if the first in the turnstile is of another session,
/// has waited for room, and stays. The turnstile keeps nobody out of the pool, so each node in it may go.
pub(super) fn pool_victim(
    planned: Planned,
    holders: &[Hold],
    turnstile: &[Node],
    permits: &[Node],
    stays: impl Fn(&Node) -> bool,
) -> Option<(Hold, Node)> {
    let Planned { kind, pick, .. } = planned;
    let first = turnstile.first().filter(|first| stays(first));
    let holder = |node: &Node| holders.iter().find(|holder| holder.has(&node.path));
    let is_covered = |node: &&Node| first.is_some_and(|first| first.session != node.session);
    let has_permit = |node: &&Node| permits.iter().any(|permit| permit.session == node.session);
    let nodes: Vec<_> = match kind {
        Kind::DeleteHolder | Kind::CloseHolder => {
            permits.iter().filter(|node| holder(node).is_some()).filter(is_covered).collect()
        }
        Kind::DeleteWaiter => turnstile.iter().collect(),
        // The first may have a permit at any moment.
        Kind::CloseWaiter => turnstile.iter().filter(is_covered).filter(|node| !has_permit(node)).collect(),
        _ => Vec::new(),
    };
    let victim = Node::clone(nodes.get(pick as usize % nodes.len().max(1))?);
    Some((holder(&victim).or(holders.first())?.clone(), victim))
}

struct View<'a, F> {
    holders: &'a [Hold],
    queues: &'a [Vec<Node>],
    stays: F,
}

impl<F: Fn(&Node) -> bool> View<'_, F> {
    fn may_be_struck(&self, kind: Kind, node: &Node) -> bool {
        let of_session = || self.queues.iter().flatten().filter(|other| other.session == node.session);
        match kind {
            Kind::DeleteHolder => self.holder(node).is_some() && self.is_covered(node),
            Kind::CloseHolder => {
                self.holder(node).is_some() && of_session().all(|other| self.is_covered(other))
            }
            Kind::DeleteWaiter => self.waits(node) && !self.holds(node.session),
            Kind::CloseWaiter => !self.holds(node.session) && of_session().all(|other| self.waits(other)),
            _ => false,
        }
    }

    fn holder(&self, node: &Node) -> Option<&Hold> {
        self.holders.iter().find(|holder| holder.has(&node.path))
    }

    fn holds(&self, session: i64) -> bool {
        self.holders.iter().any(|holder| holder.session == session)
    }

    /// Whether the queue is not empty if this node goes, and stays so.
    fn is_covered(&self, node: &Node) -> bool {
        let Some((queue, place)) = self.place(node) else { return false };
        let behind = queue.get(place + 1..).unwrap_or_default();
        let covered = behind.iter().any(|other| other.session != node.session && (self.stays)(other));
        match self.holder(node) {
            Some(_) => covered,
            None => covered || self.waits(node),
        }
    }

    /// Whether the contender with this node waits for a holder in one of its queues. Those that the tasks of a process
    /// share have one queue each.
    fn waits(&self, node: &Node) -> bool {
        let its = |other: &Node| {
            other.path == node.path
                || (other.session == node.session
                    && other.who == node.who
                    && other.who.is_some_and(|who| !who.is_process()))
        };
        self.queues.iter().flatten().filter(|other| its(other)).any(|node| {
            let (queue, place) = self.place(node).unwrap_or((&[], 0));
            let before = queue.get(..place).unwrap_or_default();
            before.iter().any(|other| self.holder(other).is_some() && !(other.shared && node.shared))
        })
    }

    fn place(&self, node: &Node) -> Option<(&[Node], usize)> {
        self.queues.iter().find_map(|queue| {
            let place = queue.iter().position(|other| other.path == node.path)?;
            Some((queue.as_slice(), place))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zklock_contest::record::Who;

    use super::super::schedule::Aim;
    use super::*;

    fn node(queue: &str, name: &str, client: u16) -> Node {
        let who = Some(Who { client, task: 1 });
        let (path, czxid, age) = (format!("/{queue}/{name}"), 0, Duration::ZERO);
        Node { path, shared: name.starts_with('r'), session: client.into(), czxid, who, age }
    }

    fn holder(client: u16, nodes: &[&str]) -> Hold {
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        Hold { nodes, ..Hold::sample(Who { client, task: 1 }, 1, 0, 0, &[]) }
    }

    fn planned(kind: Kind) -> Planned {
        let (at, lasts, stay) = Default::default();
        Planned { at, lasts, kind, aim: Aim::Holder, pick: 0, stay }
    }

    /// The paths of all who may be struck, by whatever is picked, if these clients stay.
    fn victims(kind: Kind, holders: &[Hold], queues: &[Vec<Node>], staying: &[u16]) -> Vec<String> {
        let planned = |pick| Planned { pick, ..planned(kind) };
        let picked = |pick| {
            victim(planned(pick), holders, queues, |node| {
                node.who.is_some_and(|who| staying.contains(&who.client))
            })
        };
        let mut victims: Vec<_> = (0..8).filter_map(picked).map(|(_, node)| node.path).collect();
        victims.sort();
        victims.dedup();
        victims
    }

    #[test]
    fn a_holder_is_struck_only_if_another_session_waits_and_stays() {
        let holders = [holder(1, &["/a/l1"])];
        let queues = [vec![node("a", "l1", 1), node("a", "l2", 1), node("a", "l3", 2)]];
        for kind in [Kind::DeleteHolder, Kind::CloseHolder] {
            assert_eq!(victims(kind, &holders, &queues, &[2]), ["/a/l1"]);
            assert_eq!(victims(kind, &holders, &queues, &[1]), [""; 0], "its own session goes with it");
        }
        for kind in [Kind::DeleteWaiter, Kind::CloseWaiter] {
            assert_eq!(victims(kind, &holders, &queues, &[]), ["/a/l3"], "the holder stays in front");
        }
    }

    #[test]
    fn one_node_of_several_is_deleted_if_its_queue_is_covered_and_the_session_closed_if_all_are() {
        let holders = [holder(1, &["/a/l1", "/b/l1"])];
        let half = [vec![node("a", "l1", 1), node("a", "l2", 2)], vec![node("b", "l1", 1)]];
        assert_eq!(victims(Kind::DeleteHolder, &holders, &half, &[2]), ["/a/l1"]);
        assert_eq!(victims(Kind::CloseHolder, &holders, &half, &[2]), [""; 0]);
        let whole = [half[0].clone(), vec![node("b", "l1", 1), node("b", "l4", 2)]];
        assert_eq!(victims(Kind::CloseHolder, &holders, &whole, &[2]), ["/a/l1", "/b/l1"]);
    }

    /// It is alone in its other queue, and is not granted that one alone.
    #[test]
    fn each_node_of_one_that_waits_for_a_holder_may_be_deleted() {
        let holders = [holder(1, &["/a/l1"])];
        let queues = [vec![node("a", "l1", 1), node("a", "l2", 2)], vec![node("b", "l1", 2)]];
        for kind in [Kind::DeleteWaiter, Kind::CloseWaiter] {
            assert_eq!(victims(kind, &holders, &queues, &[]), ["/a/l2", "/b/l1"]);
        }
        let free = [queues[0][..1].to_vec(), queues[1].clone()];
        assert_eq!(victims(Kind::DeleteWaiter, &holders, &free, &[]), [""; 0], "it is about to be granted");
    }

    #[test]
    fn a_permit_is_taken_only_if_another_session_waits_for_room_and_stays() {
        let holders = [holder(1, &["/p/permit-1-1"]), holder(2, &["/p/permit-2-2"])];
        let permits = [node("p", "permit-1-1", 1), node("p", "permit-2-2", 2)];
        let turnstile = [node("q", "l1", 1), node("q", "l2", 3), node("q", "l3", 2)];
        let struck = |kind, stays: bool| {
            let planned = |pick| Planned { pick, ..planned(kind) };
            let picked = |pick| pool_victim(planned(pick), &holders, &turnstile, &permits, |_| stays);
            let mut struck: Vec<_> = (0..8).filter_map(picked).map(|(_, node)| node.path).collect();
            struck.sort();
            struck.dedup();
            struck
        };
        for kind in [Kind::DeleteHolder, Kind::CloseHolder] {
            assert_eq!(struck(kind, true), ["/p/permit-2-2"]);
            assert_eq!(struck(kind, false), [""; 0]);
        }
        assert_eq!(struck(Kind::CloseWaiter, true), ["/q/l2"], "the others have permits");
        assert_eq!(struck(Kind::DeleteWaiter, false).len(), 3);
    }

    #[test]
    fn a_reader_behind_a_reader_may_hold_and_a_writer_behind_it_waits() {
        let holders = [holder(1, &["/a/r1"])];
        let queues = [vec![node("a", "r1", 1), node("a", "r2", 2), node("a", "l3", 3)]];
        assert_eq!(victims(Kind::DeleteWaiter, &holders, &queues, &[]), ["/a/l3"]);
        assert_eq!(victims(Kind::DeleteHolder, &holders, &queues, &[3]), ["/a/r1"]);
    }
}
