//! The message that opens an election connection, and the address in it.
//!
//! It consists of a protocol version, the sender's id, a length, and the address that the sender announces as its own.

use std::io::{self, Read};

/// The versions of the message: one announced address, or several.
const VERSIONS: [i64; 2] = [-65_536, -65_535];

/// Longer than any address that a server announces.
const LONGEST: usize = 64 * 1024;

/// Reads the message and puts `address` in place of the one that its sender announces.
pub(super) fn read_and_replace(mut client: impl Read, address: &str) -> io::Result<Vec<u8>> {
    let mut head = [0; 20];
    client.read_exact(&mut head)?;
    let mut fields = &head[..];
    let mut version = [0; 8];
    fields.read_exact(&mut version)?;
    let mut sender = [0; 8];
    fields.read_exact(&mut sender)?;
    let mut length = [0; 4];
    fields.read_exact(&mut length)?;
    if !VERSIONS.contains(&i64::from_be_bytes(version)) {
        // A server older than 3.5 announces no address.
        return Ok(head.to_vec());
    }
    let mut announced = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap_or(0).min(LONGEST)];
    client.read_exact(&mut announced)?;
    let length = i32::try_from(address.len()).map_err(io::Error::other)?;
    Ok([&version[..], &sender, &length.to_be_bytes(), address.as_bytes()].concat())
}

/// A message that announces `address`, as server 1 sends it.
#[cfg(test)]
pub(super) fn message(address: &str) -> Vec<u8> {
    [
        &VERSIONS[0].to_be_bytes()[..],
        &1_i64.to_be_bytes(),
        &(address.len() as u32).to_be_bytes(),
        address.as_bytes(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn a_message_without_an_address_passes_as_it_is() {
        // What a server older than 3.5 sends: its id, then votes.
        let old = [&3_i64.to_be_bytes()[..], &[7; 12]].concat();
        assert_eq!(read_and_replace(&old[..], "127.0.0.1:1").unwrap(), old);
    }

    proptest! {
        #[test]
        fn any_address_is_replaced_and_any_bytes_are_read_to_their_end_at_most(
            announced in "\\PC{0,20}",
            head in prop::sample::select(vec![0, -65_536, -65_535, i64::MIN]),
            bytes in vec(any::<u8>(), 0..40),
            address in "[a-z]{1,9}:[0-9]{1,5}",
        ) {
            prop_assert_eq!(read_and_replace(&message(&announced)[..], &address).unwrap(), message(&address));
            let bytes = [&head.to_be_bytes()[..], &bytes].concat();
            let sent = read_and_replace(&bytes[..], &address);
            prop_assert!(sent.is_err() || sent.unwrap()[..16] == bytes[..16]);
        }
    }
}
