//! A terminal with a user at it.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use zklock_test_support::{BOUND, eventually};

const SIZE: PtySize = PtySize { rows: 24, cols: 100, pixel_width: 0, pixel_height: 0 };

/// A program on a terminal of its own.
pub(crate) struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    /// The output since the start, or since it was cleared.
    written: Arc<Mutex<Vec<u8>>>,
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
        terminal.written.lock().expect("no panic").clear();
        terminal
    }

    fn of(mut command: CommandBuilder) -> Self {
        let pair = native_pty_system().openpty(SIZE).expect("a terminal");
        command.env("TERM", "xterm-256color");
        let child = pair.slave.spawn_command(command).expect("the program");
        drop(pair.slave);
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let mut reader = pair.master.try_clone_reader().expect("what it writes");
        let torn = Arc::new(AtomicBool::new(false));
        let writing = written.clone();
        let gone = torn.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes)
                && !gone.load(Ordering::SeqCst)
            {
                writing.lock().expect("no panic").extend_from_slice(&bytes[..read]);
            }
        });
        let keys = pair.master.take_writer().expect("a keyboard");
        Self { child, master: pair.master, keys, written, torn }
    }

    /// All the output.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("no panic")).into_owned()
    }

    /// Waits until the output contains this.
    pub(crate) async fn until(&self, text: &str) {
        let mut looks = tokio::time::interval(Duration::from_millis(10));
        let shown = async {
            while !self.shown().contains(text) {
                looks.tick().await;
            }
        };
        if tokio::time::timeout(BOUND, shown).await.is_err() {
            panic!("{text}: not in\n{}", self.shown());
        }
    }

    /// Presses these keys, and waits until the output contains this.
    pub(crate) async fn press_until(&mut self, keys: &str, text: &str) {
        self.press(keys);
        self.until(text).await;
    }

    /// Presses these keys, and waits for the program's end with this code.
    pub(crate) async fn press_to_end(&mut self, keys: &str, code: u32) {
        self.press(keys);
        assert_eq!(self.ended().await, code, "{keys:?}");
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the keys are taken");
        self.keys.flush().expect("the keys are taken");
    }

    /// Waits for the program's end. Returns its code.
    pub(crate) async fn ended(&mut self) -> u32 {
        ended(&mut self.child).await
    }

    /// Takes the terminal away from a program, and waits for its end. Returns its code.
    pub(crate) async fn torn(mut self) -> u32 {
        // The thread that reads the output has the terminal open as well. It sees this at the next byte, which is an echo.
        self.torn.store(true, Ordering::SeqCst);
        self.press("\n");
        let Self { mut child, master, keys, .. } = self;
        drop((master, keys));
        ended(&mut child).await
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
