//! Completions and manual pages.

use crate::support::{NOBODY, zklock};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

pub(crate) const COMMANDS: [&str; 13] = [
    "run",
    "lead",
    "leader",
    "show",
    "ls",
    "verify",
    "ask",
    "resize",
    "release",
    "doctor",
    "export",
    "completions",
    "man",
];

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

#[tokio::test]
async fn each_command_has_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("share/man/man1");
    zklock(NOBODY, &["man", "--dir", pages.to_str().unwrap()]).await.is_silent(0, "");
    let mut names = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect::<Vec<_>>();
    names.sort();
    let mut expected = COMMANDS.map(|command| format!("zklock-{command}.1")).to_vec();
    expected.push("zklock.1".to_owned());
    expected.sort();
    assert_eq!(names, expected);
    let page = |name: &str| fs::read_to_string(pages.join(name)).unwrap();
    zklock(NOBODY, "man").await.is_silent(0, &page("zklock.1"));
    // Roff leaves lines that begin with a blank as they are.
    for said in [
        "\n.TH ZKLOCK 1 ",
        "ZKLOCK_SESSION_TIMEOUT",
        "\n  zklock run \\-\\-timeout 0 /lock/backup \\-\\- ./backup        at once or not at all\n",
        "\n  69         unreachable     ZooKeeper cannot be reached, does not answer in time, or has no quorum\n",
    ] {
        assert!(page("zklock.1").contains(said), "{said}: {}", page("zklock.1"));
    }
    let names = "PATH|\\-\\-lock PATH...|\\-\\-slot PATH/COUNT|\\-\\-permits PATH/CAPACITY";
    for said in [
        &format!("\nzklock run [OPTIONS] <{names}> \\-\\- <CMD>...\n"),
        "\n  ZKLOCK_TOKEN               the fencing token",
    ] {
        assert!(page("zklock-run.1").contains(said), "{said}: {}", page("zklock-run.1"));
    }
}

#[tokio::test]
async fn pages_that_cannot_be_written_are_a_matter_of_usage() {
    let file = tempfile::NamedTempFile::new().unwrap();
    zklock(NOBODY, &["man", "--dir", file.path().to_str().unwrap()]).await.is(64, "", "cannot be written");
}
