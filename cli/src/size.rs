//! Sizes as people write them.

/// Parses `67108864`, `64K`, `64M` and `2G`: bytes, or so many times 1024 of them.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(number) if text.ends_with('K') => (number, 10),
        Some(number) if text.ends_with('M') => (number, 20),
        Some(number) => (number, 30),
        None => (text, 0),
    };
    let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "write a size as 512K, 64M or 2G; a number without a unit is in bytes".to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_unit_is_a_power_of_1024() {
        for (text, bytes) in [("65536", 65_536), ("64K", 65_536), ("64M", 67_108_864), ("2G", 2_147_483_648)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text:?}");
        }
        for text in ["", "M", "64MB", "-1K", "1.5G", "64 M", "99999999999999G"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
