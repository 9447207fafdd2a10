//! The files that options name.

use std::fs;
use std::path::Path;

use crate::failure::Failure;

/// The text of a file.
pub(super) fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file)
        .map_err(|error| Failure::usage(format_args!("{} cannot be read: {error}", file.display())))
}
