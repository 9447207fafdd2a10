//! Random faults by seed: what was acknowledged stays, and in the end all servers have the same.

use std::time::Duration;

use zklock_ensemble::{Config, ServerId};

use crate::net::{Net, TICK};

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

/// Plays a seed, and returns everything that the servers sent to each other.
fn play(seed: u64) -> Vec<String> {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let apply_delay = Duration::from_millis(seed % 3 * 200);
    let mut net = Net::with(3, |config| Config { apply_delay, ..config });
    let everything = (1..=3_u8).flat_map(|from| (1..=3).map(move |to| (from, to)));
    net.held.extend(everything.filter(|(from, to)| from != to));
    let mut clients: Vec<(u64, Vec<String>)> = Vec::new();
    let mut created = Vec::new();
    for step in 0..600 {
        let server = dice.below(3) as u8 + 1;
        match dice.below(100) {
            0 => net.crash(server),
            1 => net.cut(server, server % 3 + 1),
            2 => net.paused.extend([server]),
            3..8 => net.wake(server),
            8..14 => net.appoint(),
            14 => clients.push((net.open(server, None, 0), Vec::new())),
            15..30 if !clients.is_empty() => {
                let index = dice.below(clients.len());
                let (client, paths) = &mut clients[index];
                let path = format!("/node-{step}");
                paths.push(path.clone());
                let xid = paths.len() as i32;
                net.create(*client, xid, &path, 0);
            }
            30..33 => net.tick(Duration::from_millis(dice.below(1_500) as u64)),
            _ => net.deliver_some(dice.below(6)),
        }
        for (client, paths) in &clients {
            for heard in net.heard(*client) {
                let Some((xid, "0")) = heard.split_once(": ") else { continue };
                // The answer to the session's request reads as number 0.
                if let Some(index) = xid.parse::<usize>().ok().and_then(|xid| xid.checked_sub(1)) {
                    created.push(paths[index].clone());
                }
            }
        }
    }
    net.held.clear();
    for server in 1..=3 {
        net.wake(server);
        net.cut(server, server % 3 + 1);
    }
    net.pass(TICK * 12);
    net.appoint();
    net.settle();
    let (reader, _) = net.connect(1);
    for (index, path) in created.iter().enumerate() {
        net.exists(reader, index as i32 + 1, path, false);
    }
    for heard in net.heard(reader) {
        assert!(heard.ends_with(": 0"), "seed {seed} lost an acknowledged create: {heard} of {created:?}");
    }
    let logged = |id| net.server(id).standing().logged;
    assert!((1..=3).all(|id| net.server(id).serves() && logged(id) == logged(1)), "seed {seed}");
    let children = [1, 2, 3].map(|server| net.children(server));
    assert!(children.iter().all(|other| *other == children[0]), "seed {seed}: the trees differ");
    let leader = net.server(1).standing().leader;
    assert!((1..=3).any(|id| leader == Some(ServerId(id))));
    net.trace
}

#[test]
fn what_is_acknowledged_survives_random_faults() {
    let sent: usize = (1..=150).map(|seed| play(seed).len()).sum();
    assert!(sent > 10_000, "the servers have hardly talked: {sent}");
}

#[test]
fn a_seed_plays_the_same_twice() {
    assert_eq!(play(7), play(7));
}
