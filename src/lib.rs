//! A strict distributed lock on Apache ZooKeeper.
