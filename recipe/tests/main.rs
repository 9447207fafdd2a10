//! Models: every order in which a few clients, their servers and an operator can act, with the production machines of this crate
//! in the middle.
//!
//! Each model is explored to its end, so the number of its states is a fact about protocol and world; it is pinned, because a
//! model that shrinks has stopped looking somewhere. Each rule is broken once, to see the model fail. The largest models are
//! there in release builds only, for `make model`.

mod model;

/// A state is a clone of another one, so a third of a model's time goes into memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
