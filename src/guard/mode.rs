//! What a guard holds, as a type: so that a function can ask for exclusivity in its signature.

/// One lock, held alone: what [`Guard`](crate::Guard) stands for by default.
#[derive(Debug)]
pub enum Exclusive {}

/// One read-write lock, held beside other readers: see [`ReadGuard`](crate::ReadGuard).
#[derive(Debug)]
pub enum Shared {}

/// Several locks at once: see [`MultiGuard`](crate::MultiGuard).
#[derive(Debug)]
pub enum Several {}

/// A permit of a semaphore, held beside others: see [`Permit`](crate::Permit).
#[derive(Debug)]
pub enum Weighted {}

/// One of several slots: see [`Slot`](crate::Slot).
#[derive(Debug)]
pub enum Indexed {}

/// Anything that a guard can hold: see [`Guard::into_any`](crate::Guard::into_any).
#[derive(Debug)]
pub enum AnyKind {}

/// A guard of one lock: [`Exclusive`] or [`Shared`]. Nothing else can implement it.
pub trait OneLock: sealed::OneNode {}

impl OneLock for Exclusive {}
impl OneLock for Shared {}

pub(super) mod sealed {
    /// What is held by one node.
    pub trait OneNode {}
    impl OneNode for super::Exclusive {}
    impl OneNode for super::Shared {}
    impl OneNode for super::Weighted {}
    impl OneNode for super::Indexed {}
}
