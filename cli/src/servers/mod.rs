//! What the servers say of themselves and of sessions: each server by its own, in answers to four-letter words and to a session
//! with it alone.

mod answers;
mod contact;
mod questioner;
mod word;

pub(crate) use answers::{Member, Mode, Settings, Words, members};
pub(crate) use contact::{Contact, contacts};
pub(crate) use questioner::{Questioner, REJECTED, conf, explained, refusal, srvr};
