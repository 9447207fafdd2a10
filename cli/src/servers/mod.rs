//! What the servers say of themselves and of sessions: each server by its own, in answers to four-letter words and to a session
//! with it alone.

mod answers;
mod contact;
mod questioner;

pub(crate) use crate::word::Mode;
pub(crate) use answers::{Member, Settings, Words, members};
pub(crate) use contact::{Contact, contacts};
pub(crate) use questioner::{Questioner, REJECTED, conf, refusal, srvr};
