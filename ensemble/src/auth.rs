//! Who a client is, and what a node lets it do.

use crate::java;
use crate::wire::{Frame, Malformed, Reader};

pub(crate) const READ: i32 = 1;
pub(crate) const WRITE: i32 = 2;
pub(crate) const CREATE: i32 = 4;
pub(crate) const DELETE: i32 = 8;
pub(crate) const ADMIN: i32 = 16;
const ALL: i32 = 31;

/// A client as a scheme names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) scheme: String,
    pub(crate) id: String,
}

/// One line of a node's access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) permissions: i32,
    pub(crate) to: Identity,
}

impl Identity {
    pub(crate) fn new(scheme: &str, id: &str) -> Self {
        Self { scheme: scheme.into(), id: id.into() }
    }

    fn is_anyone(&self) -> bool {
        self.scheme == "world" && self.id == "anyone"
    }

    fn is_valid(&self) -> bool {
        match self.scheme.as_str() {
            // Java's `split` leaves out empty parts at the end.
            "digest" => self.id.trim_end_matches(':').split(':').count() == 2,
            "ip" => self.id.parse::<std::net::IpAddr>().is_ok(),
            _ => false,
        }
    }

    /// What a client becomes that authenticates itself by the scheme `digest`.
    pub(crate) fn digest(secret: &str) -> Self {
        let user = secret.split(':').next().unwrap_or_default();
        Self::new("digest", &format!("{user}:{}", base64(&sha1(secret.as_bytes()))))
    }

    pub(crate) fn write(&self, frame: &mut Frame) {
        frame.string(&self.scheme).string(&self.id);
    }
}

impl Grant {
    pub(crate) fn anyone(permissions: i32) -> Self {
        Self { permissions, to: Identity::new("world", "anyone") }
    }

    pub(crate) fn everything() -> Vec<Self> {
        vec![Self::anyone(ALL)]
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            permissions: reader.int()?,
            to: Identity { scheme: reader.string()?, id: reader.string()? },
        })
    }
}

/// Adds what a client has shown. ZooKeeper keeps identities in a hash set, in whose order `auth` and `whoAmI` name them.
pub(crate) fn show(client: &mut Vec<Identity>, shown: Identity) {
    if !client.contains(&shown) {
        client.push(shown);
        client.sort_by_key(|identity| java::bucket(&[&identity.scheme, &identity.id]));
    }
}

/// Whether this list lets a client with these identities do this.
pub(crate) fn allows(list: &[Grant], permission: i32, client: &[Identity]) -> bool {
    list.is_empty()
        || list.iter().any(|grant| {
            grant.permissions & permission != 0 && (grant.to.is_anyone() || client.contains(&grant.to))
        })
}

/// The list that a node gets if a client asks for this one: `auth` stands for each identity that the client has shown.
/// `None` if the list is not valid.
pub(crate) fn settle(list: &[Grant], client: &[Identity]) -> Option<Vec<Grant>> {
    let mut settled = Vec::new();
    for (index, grant) in list.iter().enumerate() {
        if list[..index].contains(grant) {
            continue;
        }
        if grant.to.scheme == "auth" {
            let shown = client.iter().filter(|identity| identity.scheme == "digest");
            let before = settled.len();
            settled.extend(shown.map(|to| Grant { permissions: grant.permissions, to: to.clone() }));
            if settled.len() == before {
                return None;
            }
        } else if grant.to.is_anyone() || grant.to.is_valid() {
            settled.push(grant.clone());
        } else {
            return None;
        }
    }
    (!settled.is_empty()).then_some(settled)
}

fn sha1(message: &[u8]) -> [u8; 20] {
    let mut state = [0x6745_2301_u32, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0];
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks(64) {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks(4)) {
            *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for index in 16..80 {
            words[index] =
                (words[index - 3] ^ words[index - 8] ^ words[index - 14] ^ words[index - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (index, word) in words.into_iter().enumerate() {
            let (mixed, constant) = match index / 20 {
                0 => ((b & c) | (!b & d), 0x5A82_7999),
                1 => (b ^ c ^ d, 0x6ED9_EBA1),
                2 => ((b & c) | (b & d) | (c & d), 0x8F1B_BCDC),
                _ => (b ^ c ^ d, 0xCA62_C1D6_u32),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(mixed)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (total, part) in state.iter_mut().zip([a, b, c, d, e]) {
            *total = total.wrapping_add(part);
        }
    }
    let mut digest = [0; 20];
    for (bytes, word) in digest.chunks_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group =
            (0..3).fold(0_u32, |group, index| group << 8 | u32::from(*chunk.get(index).unwrap_or(&0)));
        for index in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * index) & 63) as usize];
            text.push(if index <= chunk.len() { letter.into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_one_that_zookeeper_documents() {
        assert_eq!(Identity::digest("user:pass").id, "user:smGaoVKd/cQkjm7b88GyorAUz20=");
    }
}
