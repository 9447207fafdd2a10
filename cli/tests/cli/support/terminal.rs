//! A terminal with a user at it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Action, LocalModes, tcflow, tcgetattr};

use zklock_test_support::{BOUND, eventually};

const COLUMNS: NonZeroU16 = NonZeroU16::new(100).unwrap();
const LINES: NonZeroU16 = NonZeroU16::new(24).unwrap();

fn size(lines: NonZeroU16) -> PtySize {
    PtySize { rows: lines.get(), cols: COLUMNS.get(), ..PtySize::default() }
}

/// The output to the terminal.
struct Written {
    /// All of it since the start, or since it was cleared.
    bytes: Vec<u8>,
    /// The screen that it makes.
    screen: vt100::Parser,
}

/// A program on a terminal of its own.
pub(crate) struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    written: Arc<Mutex<Written>>,
    torn: Arc<AtomicBool>,
}

impl Terminal {
    /// Runs the program on a terminal of 100 columns and 24 lines.
    pub(crate) fn start(servers: &str, arguments: &[&str]) -> Self {
        Self::start_with(servers, arguments, |_| {})
    }

    pub(crate) fn start_with(
        servers: &str,
        arguments: &[&str],
        more: impl FnOnce(&mut CommandBuilder),
    ) -> Self {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_zklock"));
        command.env_clear();
        command.args(arguments);
        command.args(["--servers", servers]);
        more(&mut command);
        Self::of(command)
    }

    /// An interactive bash, with `zklock` in its path, for these servers.
    pub(crate) async fn bash(servers: &str) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_zklock")).parent().expect("a directory");
        let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("a path"));
        let mut command = CommandBuilder::new("bash");
        command.args(["--norc", "--noprofile", "-i"]);
        command.env_clear();
        command.env("PATH", path);
        command.env("ZKLOCK_SERVERS", servers);
        // Long enough to continue in time what was stopped.
        command.env("ZKLOCK_SESSION_TIMEOUT", "30s");
        command.env("PS1", "ready> ");
        let terminal = Self::of(command);
        terminal.until("ready> ").await;
        terminal.written.lock().expect("no panic").bytes.clear();
        terminal
    }

    fn of(mut command: CommandBuilder) -> Self {
        let pair = native_pty_system().openpty(size(LINES)).expect("a terminal");
        command.env("TERM", "xterm-256color");
        let child = pair.slave.spawn_command(command).expect("the program");
        drop(pair.slave);
        let screen = vt100::Parser::new(LINES, COLUMNS, 0);
        let written = Arc::new(Mutex::new(Written { bytes: Vec::new(), screen }));
        let mut reader = pair.master.try_clone_reader().expect("what it writes");
        let torn = Arc::new(AtomicBool::new(false));
        let (writing, gone) = (written.clone(), torn.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes)
                && !gone.load(Ordering::SeqCst)
            {
                let mut written = writing.lock().expect("no panic");
                written.bytes.extend_from_slice(&bytes[..read]);
                written.screen.process(&bytes[..read]);
            }
        });
        let keys = pair.master.take_writer().expect("a keyboard");
        Self { child, master: pair.master, keys, written, torn }
    }

    /// All the output, with what has left the screen.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("no panic").bytes).into_owned()
    }

    /// Waits until the output contains this.
    pub(crate) async fn until(&self, text: &str) {
        self.comes_to(text, || self.shown().contains(text)).await;
    }

    /// Presses these keys, and waits until the output contains this.
    pub(crate) async fn press_until(&mut self, keys: &str, text: &str) {
        self.press(keys);
        self.until(text).await;
    }

    /// Presses these keys, and waits until the screen shows this.
    pub(crate) async fn press_to_show(&mut self, keys: &str, text: &str) {
        self.press(keys);
        self.shows(text).await;
    }

    /// Presses these keys, and waits for the program's end with this code.
    pub(crate) async fn press_to_end(&mut self, keys: &str, code: u32) {
        self.press(keys);
        assert_eq!(self.ended().await, code, "{keys:?}");
    }

    /// The text on the screen.
    pub(crate) fn text(&self) -> String {
        self.on_screen(vt100::Screen::contents)
    }

    pub(crate) fn on_screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.written.lock().expect("no panic").screen.screen())
    }

    /// Waits until the screen shows this.
    pub(crate) async fn shows(&self, text: &str) {
        self.becomes(text, |screen| screen.contains(text)).await;
    }

    /// Waits until the screen is good.
    pub(crate) async fn becomes(&self, what: &str, mut good: impl FnMut(&str) -> bool) {
        self.comes_to(what, || good(&self.text())).await;
    }

    async fn comes_to(&self, what: &str, mut good: impl FnMut() -> bool) {
        let mut looks = tokio::time::interval(Duration::from_millis(10));
        let shown = async {
            while !good() {
                looks.tick().await;
            }
        };
        if tokio::time::timeout(BOUND, shown).await.is_err() {
            panic!("{what}: not on\n{}", self.text());
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the keys are taken");
        self.keys.flush().expect("the keys are taken");
    }

    pub(crate) fn resize(&self, lines: u16) {
        let lines = NonZeroU16::new(lines).expect("lines");
        self.written.lock().expect("no panic").screen.set_size(lines, COLUMNS);
        self.master.resize(size(lines)).expect("another size");
    }

    /// Takes no more output, as after Ctrl-S.
    pub(crate) fn hold_output(&self) {
        tcflow(self.tty(), Action::OOff).expect("a terminal");
    }

    fn tty(&self) -> File {
        let tty = self.master.tty_name().expect("its name");
        OpenOptions::new().read(true).write(true).open(tty).expect("the terminal")
    }

    /// The program's process.
    pub(crate) fn pid(&self) -> Pid {
        let pid = self.child.process_id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        pid.expect("a process")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a signal");
    }

    /// Waits for the program's end. Returns its code.
    pub(crate) async fn ended(&mut self) -> u32 {
        ended(&mut self.child).await
    }

    /// Takes the terminal away from a program that goes on writing, and waits for its end. Returns its code.
    pub(crate) async fn torn(self) -> u32 {
        let Self { mut child, master, keys, torn, .. } = self;
        // The thread that reads the output has the terminal open as well. It sees this at the next byte.
        torn.store(true, Ordering::SeqCst);
        drop((master, keys));
        ended(&mut child).await
    }

    /// Waits until the terminal is as before: the normal screen with a cursor, and echoed lines.
    pub(crate) async fn is_restored(&self) {
        eventually("the screen from before", async || {
            self.on_screen(|screen| !screen.alternate_screen() && !screen.hide_cursor())
        })
        .await;
        let modes = tcgetattr(self.tty()).expect("its modes").local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "{modes:?}");
    }
}

async fn ended(child: &mut Box<dyn Child + Send + Sync>) -> u32 {
    let mut code = None;
    eventually("the program's end", async || {
        code = child.try_wait().expect("a child").map(|status| status.exit_code());
        code.is_some()
    })
    .await;
    code.expect("it ended")
}
