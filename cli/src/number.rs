//! A number in an option.

use std::fmt::Display;
use std::str::FromStr;

/// Reads a number from `least` to `most`.
pub(crate) fn number<N>(least: N, most: N) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: FromStr + PartialOrd + Display + Copy,
{
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("write a number from {least} to {most}"))
    }
}
