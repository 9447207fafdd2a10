//! Crates that look for `getrandom` at run time find the simulation's.

fn main() {
    println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=getrandom");
    println!("cargo::rerun-if-changed=build.rs");
}
