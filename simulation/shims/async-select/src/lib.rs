//! tokio's `select!`, in the place of async-select's, which has the same form. Async-select's begins with the branch that
//! the address of its futures names; tokio's begins with a random one, and the simulation seeds tokio's randomness.

pub use tokio::select;
