//! `zklock show --watch`: what is at a path, as it changes.

use std::env;
use std::mem;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt};
use jiff::Timestamp;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::screen::{self, Screen};
use super::sight::{Eye, PAUSE, Sight};
use super::view::{Scroll, View};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::signals::{self, CONT};

/// How often ages are redrawn.
const TICK: Duration = Duration::from_secs(1);

/// The kernel sends it when a terminal is gone, but only to the session that the terminal controls.
const HANGUP: SignalKind = SignalKind::hangup();

/// The meaning of a key.
enum Wish {
    End,
    Scroll(Scroll),
}

/// Draws what is there until a key or a signal ends that. It fails if the path cannot be read at first. If it cannot be read
/// later, the last look stays on the screen.
pub(super) async fn watch(mut eye: Eye<'_>) -> Outcome {
    let (session, first) = (eye.session(), eye.look().await?);
    // `ratatui` would leave out bold text as well as colours.
    let colours = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut view = View::new(colours);
    view.look(Timestamp::now(), first);

    // Before the screen is opened, so that no signal leaves it open.
    let mut signals = signals::arriving(signals::FATAL).map_err(Failure::internal)?;
    let mut continued = signal(SignalKind::from_raw(CONT)).map_err(Failure::internal)?;
    signals::insist()?;
    let mut screen = Screen::open().map_err(|error| Failure::output(&error))?;
    let mut events = screen::events().map_err(Failure::internal)?;
    let mut looks = pin!(looks(eye));
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut was_stopped = false;
    loop {
        let state = session.state();
        let reopened = if mem::take(&mut was_stopped) { screen.reopen() } else { Ok(()) };
        let drawn = reopened.and_then(|()| screen.draw(|frame| view.draw(frame, state, Timestamp::now())));
        if let Err(error) = drawn {
            return if screen::is_gone() {
                Ok(exit::after_signal(HANGUP.as_raw_value()))
            } else {
                Err(Failure::output(&error))
            };
        }
        tokio::select! {
            Some(event) = events.recv() => match wish(&event) {
                Some(Wish::End) => return Ok(ExitCode::SUCCESS),
                Some(Wish::Scroll(by)) => view.scroll(by),
                // A new size is such an event. The next drawing asks for the size.
                None => {}
            },
            Some((at, seen)) = looks.next() => match seen {
                Ok(sight) => view.look(at, sight),
                Err(failure) => match session.failure() {
                    Some(cause) => return Err(cause.into()),
                    None => view.failed(failure.to_string()),
                },
            },
            _ = ticks.tick() => if screen::is_gone() {
                return Ok(exit::after_signal(HANGUP.as_raw_value()));
            },
            _ = continued.recv() => was_stopped = true,
            // The terminal is restored before the end. In raw mode Ctrl-C is a key.
            Some(signal) = signals.next() => return Ok(exit::after_watching(signal).into()),
        }
    }
}

/// Looks again and again. Each look has the time at which its answer came.
fn looks(eye: Eye<'_>) -> impl Stream<Item = (Timestamp, Result<Sight, Failure>)> {
    stream::unfold(eye, |mut eye| async move {
        sleep(PAUSE).await;
        let seen = eye.look().await;
        Some(((Timestamp::now(), seen), eye))
    })
}

fn wish(event: &Event) -> Option<Wish> {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press | KeyEventKind::Repeat, .. }) =
        event
    else {
        return None;
    };
    Some(match code {
        KeyCode::Char('q') | KeyCode::Esc => Wish::End,
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Wish::End,
        KeyCode::Up => Wish::Scroll(Scroll::Up),
        KeyCode::Down => Wish::Scroll(Scroll::Down),
        KeyCode::PageUp => Wish::Scroll(Scroll::PageUp),
        KeyCode::PageDown => Wish::Scroll(Scroll::PageDown),
        KeyCode::Home => Wish::Scroll(Scroll::Start),
        KeyCode::End => Wish::Scroll(Scroll::End),
        _ => return None,
    })
}
