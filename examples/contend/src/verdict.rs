//! The verdict on what was recorded.

use zklock::FencingToken;

/// A time during which the guard of one process said that the lock is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) process: usize,
    pub(crate) token: FencingToken,
    /// When the guard was first and last known to be held, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) from: i64,
    pub(crate) until: i64,
}

/// All that counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) holds: Vec<Hold>,
    /// The store's count, and how many writes it accepted. They differ if a write was based on an old count.
    pub(crate) count: u64,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    /// The processes that did not end by themselves after a last hold.
    pub(crate) waiting: Vec<usize>,
}

impl Record {
    /// Says what is wrong.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut holds = self.holds.clone();
        holds.sort_by_key(|hold| hold.from);
        for (index, next) in holds.iter().enumerate() {
            for earlier in &holds[..index] {
                let (one, other) = (earlier.process, next.process);
                if next.from <= earlier.until {
                    faults.push(format!("p{one} and p{other} held the lock at once"));
                }
                if next.token <= earlier.token {
                    faults.push(format!("p{other} came after p{one} with a token that is not higher"));
                }
            }
        }
        if self.count != self.accepted {
            faults.push(format!("the count is {} after {} writes", self.count, self.accepted));
        }
        if self.refused == 0 {
            faults.push("no late write was refused".to_owned());
        }
        faults.extend(self.waiting.iter().map(|process| format!("p{process} was left waiting")));
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Harm = fn(&mut Record);

    fn record() -> Record {
        let hold =
            |process, token, from, until| Hold { process, token: FencingToken::new(token), from, until };
        let holds = vec![hold(1, 5, 10, 20), hold(2, 7, 21, 30), hold(1, 9, 31, 40)];
        Record { holds, count: 2, accepted: 2, refused: 1, waiting: vec![] }
    }

    #[test]
    fn each_fault_is_found() {
        assert_eq!(record().faults(), [""; 0]);
        let cases: [(Harm, &str); 5] = [
            (|it| it.holds[0].until = 21, "p1 and p2 held the lock at once"),
            (
                |it| it.holds[1].token = FencingToken::new(5),
                "p2 came after p1 with a token that is not higher",
            ),
            (|it| it.count = 1, "the count is 1 after 2 writes"),
            (|it| it.refused = 0, "no late write was refused"),
            (|it| it.waiting.push(3), "p3 was left waiting"),
        ];
        for (breaks, fault) in cases {
            let mut record = record();
            breaks(&mut record);
            assert_eq!(record.faults(), [fault]);
        }
    }
}
