//! Locks by key over several ensembles. Each key is locked in one of them, and it is the same one in every process.
//!
//!     cargo run --example spread -- 127.0.0.1:2181 127.0.0.1:2182
//!
//! docs/SCALE.md says when that is worth it, what it is not good for, and how the list of ensembles changes.

use std::error::Error;
use std::time::Duration;

use zklock::{Guard, Locks, Session};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// How long each ensemble has to confirm the list.
const PATIENCE: Duration = Duration::from_secs(30);

/// Locks by key, over ensembles that have names.
pub(crate) struct Spread {
    ensembles: Vec<(String, Locks)>,
}

impl Spread {
    /// Agrees on the list with all processes that share an ensemble with this one, and returns the locks below `root`. It fails
    /// if one of the ensembles knows another list, or is known to others by another name, or does not answer.
    ///
    /// Each ensemble keeps a number that stands for the list and for its own name in it, as the capacity of a semaphore: all
    /// processes must state the same one, until an operator deletes the node. A process uses no key before every ensemble
    /// of its list has that list's number. So if two lists share an ensemble, one of them is refused.
    pub(crate) async fn open(root: &str, ensembles: &[(&str, Session)]) -> Result<Self, Failure> {
        let mut names: Vec<&str> = ensembles.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        if names.is_empty() || names.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(format!("each ensemble needs a name of its own: {names:?}").into());
        }
        let mut spread = Self { ensembles: Vec::new() };
        for (name, session) in ensembles {
            let list = format!("{root}.list");
            let number = hash(format!("{name:?} of {names:?}").as_bytes()) >> 33;
            let agreed = session.semaphore(&list, u32::try_from(number)? + 1)?;
            match agreed.acquire_many_timeout(1, PATIENCE).await {
                Ok(Some(permit)) => permit.release().await?,
                Ok(None) => return Err(format!("the ensemble {name} does not answer").into()),
                Err(error) => {
                    return Err(format!("the ensemble {name} of {names:?}: {error}").into());
                }
            }
            spread.ensembles.push(((*name).to_owned(), session.locks(root)?));
        }
        Ok(spread)
    }

    /// The name of a key's ensemble, and the locks there: of all ensembles, the one whose name and the key have the greatest
    /// hash. If a name joins the list, only keys move that go to the new one.
    pub(crate) fn of(&self, key: &str) -> (&str, &Locks) {
        let score = |name: &str| hash(format!("{name:?} has {key:?}").as_bytes());
        let most = self.ensembles.iter().max_by_key(|(name, _)| score(name));
        most.map(|(name, locks)| (name.as_str(), locks)).expect("a list of one name or more")
    }

    /// Acquires the lock of a key, for as long as that takes.
    pub(crate) async fn acquire(&self, key: &str) -> Result<Guard, zklock::AcquireError> {
        self.of(key).1.acquire(key).await
    }
}

/// FNV-1a of 64 bits, and SplitMix64's last step, which spreads it. Rust's own hashers may change with any version of Rust.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut addresses = std::env::args().skip(1);
    let (one, other) = (addresses.next(), addresses.next());
    let (one, other) = one.zip(other).ok_or("usage: spread SERVERS-OF-ONE SERVERS-OF-ANOTHER")?;
    let (one, other) = (Session::connect(one).await?, Session::connect(other).await?);

    let orders = Spread::open("/spread/orders", &[("red", one.clone()), ("blue", other.clone())]).await?;
    for key in ["4711", "4712", "4713", "4714"] {
        let guard = orders.acquire(key).await?;
        println!("{key} is locked in {}, token {}", orders.of(key).0, guard.token());
        guard.release().await?;
    }

    // A process that was deployed with another list.
    match Spread::open("/spread/orders", &[("red", one.clone())]).await {
        Ok(_) => return Err("the other list was accepted".into()),
        Err(refusal) => println!("refused: {refusal}"),
    }
    one.close().await?;
    other.close().await?;
    Ok(())
}
