//! Measures zklock against its peers.
fn main() {}
