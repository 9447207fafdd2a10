//! What the servers say of themselves and of sessions: each server by its own, in answers to four-letter words and to a session
//! with it alone.

mod answers;
mod contact;
mod questioner;

pub(crate) use crate::word::Mode;
pub(crate) use answers::{Member, Settings, Words, parse_members};
pub(crate) use contact::{Contact, ask_contacts};
pub(crate) use questioner::{Questioner, REJECTED, ask_conf, ask_srvr, refusal_text};
