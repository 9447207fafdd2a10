//! Completions and manual pages.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::looker::{NOBODY, zklock};

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

/// A line of the table of exit codes, and an example.
const KEPT: [&str; 2] = [
    "\n  69         unreachable     ZooKeeper cannot be reached, does not answer in time, or has no quorum\n",
    "\n  zklock run \\-\\-timeout 0 /lock/backup \\-\\- ./backup        at once or not at all\n",
];

#[tokio::test]
async fn bash_understands_its_completions() {
    let script = zklock(NOBODY, &["completions", "bash"]).await.stdout;
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
async fn each_shell_has_completions_for_each_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let run = zklock(NOBODY, &["completions", shell]).await;
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{shell}");
        for command in COMMANDS {
            assert!(run.stdout.contains(command), "{shell} lacks {command}");
        }
    }
}

#[tokio::test]
async fn the_page_keeps_the_lines_of_examples_and_exit_codes() {
    let run = zklock(NOBODY, &["man"]).await;
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.contains("\n.TH ZKLOCK 1 "), "{}", run.stdout);
    for heading in ["EXAMPLES", "\"EXIT CODES\""] {
        assert!(run.stdout.contains(&format!("\n.SH {heading}\n.nf\n")), "{heading}: {}", run.stdout);
    }
    for line in KEPT {
        assert!(run.stdout.contains(line), "{line}: {}", run.stdout);
    }
    for command in COMMANDS {
        assert!(run.stdout.contains(&format!("\nzklock\\-{command}(1)\n")), "{command}: {}", run.stdout);
    }
    assert!(run.stdout.contains("ZKLOCK_SESSION_TIMEOUT"), "{}", run.stdout);
}

#[tokio::test]
async fn each_command_has_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("share/man/man1");
    zklock(NOBODY, &["man", "--dir", pages.to_str().unwrap()]).await.is_silent(0, "");
    let help = zklock(NOBODY, &["help", "man"]).await.stdout;
    assert!(
        help.split_whitespace().collect::<Vec<_>>().join(" ").contains("creates it if it is missing"),
        "{help}"
    );
    let mut names = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect::<Vec<_>>();
    names.sort();
    let mut expected = COMMANDS.map(|command| format!("zklock-{command}.1")).to_vec();
    expected.push("zklock.1".to_owned());
    expected.sort();
    assert_eq!(names, expected);
    for name in names {
        let page = fs::read_to_string(pages.join(&name)).unwrap();
        assert!(page.contains(KEPT[0]), "{name:?}: {page}");
    }
    let page = fs::read_to_string(pages.join("zklock-run.1")).unwrap();
    let names = "PATH|\\-\\-lock PATH...|\\-\\-slot PATH/COUNT|\\-\\-permits PATH/CAPACITY";
    let synopsis = format!("\n\\fBzklock run\\fR [OPTIONS] <{names}> \\-\\- <CMD>...\n");
    assert!(page.contains(&synopsis), "{page}");
    assert!(page.contains("\n  ZKLOCK_TOKEN               the fencing token"), "{page}");
    // Text without a heading becomes notes. Only its indented lines stay lines.
    let notes = ".SH NOTES\n.PP\nCMD finds in its environment:\n.nf\n  ZKLOCK_PATH ";
    let prose = "with \\-\\-permits: the weight\n.fi\n.PP\nWith \\-\\-slot and \\-\\-permits, ";
    assert!(page.contains(notes) && page.contains(prose), "{page}");
}

#[tokio::test]
async fn pages_that_cannot_be_written_are_a_matter_of_usage() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let run = zklock(NOBODY, &["man", "--dir", file.path().to_str().unwrap()]).await;
    run.is(64, "", "cannot be written");
}
