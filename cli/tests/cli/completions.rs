//! Shells understand their completions.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{NOBODY, zklock};

#[tokio::test]
async fn bash_understands_its_completions() {
    for shell in ["elvish", "fish", "powershell", "zsh"] {
        assert_eq!(zklock(NOBODY, &["completions", shell]).await.code, 0, "{shell}");
    }
    let script = zklock(NOBODY, "completions bash").await.stdout;
    let mut bash =
        Command::new("bash").arg("-n").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = bash.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    // Bash completes with them.
    let complete = format!(
        "{script}\nCOMP_WORDS=(zklock doctor --ser) COMP_CWORD=2\n\
        $(complete -p zklock | sed 's/.*-F \\([^ ]*\\).*/\\1/') zklock --ser doctor\necho \"${{COMPREPLY[@]}}\""
    );
    let output = Command::new("bash").args(["-c", &complete]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--servers\n", "{output:?}");
}
