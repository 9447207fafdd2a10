//! The files in `contrib/` that users copy: each command line in them is one that this program takes, and what ends it leaves
//! it enough time.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use saphyr::{LoadableYamlNode, Yaml};

use crate::args::{Arguments, Command, Terms};

/// The session timeout unless the command line has one.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Closing the session, with processes that are left behind having their 0.1 s before SIGTERM.
const REST: Duration = Duration::from_millis(1100);

fn read(file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../contrib").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &str) -> Vec<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../contrib").join(folder);
    let names = fs::read_dir(path).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names = names.map(|name| format!("{folder}/{name}")).collect::<Vec<_>>();
    names.sort();
    names
}

fn leads(arguments: &Arguments) -> bool {
    matches!(arguments.command, Command::Lead(_))
}

fn terms_of(arguments: &Arguments) -> &Terms {
    match &arguments.command {
        Command::Run(run) => &run.terms,
        Command::Lead(lead) => &lead.terms,
        other => panic!("no run: {other:?}"),
    }
}

/// Asserts that a command that is told to end has some of this time, and zklock and ZooKeeper the rest: at the worst
/// `--kill-after` for what the command leaves behind, and the session timeout for the release.
#[track_caller]
fn leaves_time(arguments: &Arguments, grace: Duration) {
    let kill_after = terms_of(arguments).kill_after.expect("--kill-after is stated beside the grace period");
    let timeout = arguments.connection.session_timeout.unwrap_or(SESSION_TIMEOUT);
    let own = kill_after + timeout + REST;
    assert!(grace > own + Duration::from_secs(10), "{grace:?} leaves CMD no 10 s beside {own:?}");
}

#[test]
fn units_run_what_the_program_takes() {
    let mut leaders = Vec::new();
    for file in files("systemd") {
        let unit = read(&file);
        let value = |key: &str| {
            let values = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            let [value] = values.collect::<Vec<_>>()[..] else { panic!("{key} once in {file}") };
            value
        };
        let command = value("ExecStart").replace("%H", "host");
        let arguments = Arguments::try_parse_from(command.split_whitespace()).unwrap();
        leaves_time(&arguments, Duration::from_secs(value("TimeoutStopSec").parse().unwrap()));
        assert_eq!(value("KillMode"), "mixed");
        // A loss comes with no ping for as long as the command takes to end.
        let watchdog = Duration::from_secs(value("WatchdogSec").parse().unwrap());
        assert!(watchdog > terms_of(&arguments).kill_after.unwrap() + REST);
        leaders.push(leads(&arguments));
    }
    assert_eq!(leaders, [true, false]);
}

#[test]
fn manifests_run_what_the_program_takes() {
    let mut kinds = Vec::new();
    for file in files("kubernetes") {
        let text = read(&file);
        for manifest in Yaml::load_from_str(&text).unwrap() {
            let kind = manifest["kind"].as_str().unwrap();
            kinds.push(kind.to_owned());
            let spec = match kind {
                "Deployment" => &manifest["spec"],
                "CronJob" => &manifest["spec"]["jobTemplate"]["spec"],
                other => panic!("{other} in {file}"),
            };
            let pod = &spec["template"]["spec"];
            let [container] = &pod["containers"].as_vec().unwrap()[..] else { panic!("one container") };
            let variables = container["env"].as_vec().unwrap();
            let known = |word: &str| variables.iter().any(|it| it["name"].as_str() == Some(word));
            let words = container["command"].as_vec().unwrap().iter().map(|word| word.as_str().unwrap());
            let words = words.collect::<Vec<_>>();
            for word in &words {
                // Kubernetes leaves a variable that it does not know as it is.
                for name in word.split("$(").skip(1).map(|rest| rest.split_once(')').unwrap().0) {
                    assert!(known(name), "{name} in {file}");
                }
            }
            assert!(known("ZKLOCK_SERVERS"));
            let arguments = Arguments::try_parse_from(words).unwrap();
            assert_eq!(leads(&arguments), kind == "Deployment");
            let terms = terms_of(&arguments);
            assert!(terms.owner.is_some(), "an owner that operators know");
            let grace = pod["terminationGracePeriodSeconds"].as_integer().unwrap();
            leaves_time(&arguments, Duration::from_secs(grace.try_into().unwrap()));
            if let Command::Run(run) = &arguments.command {
                let wanted = &run.wanted;
                let zone = wanted.time_zone.as_ref().and_then(|zone| zone.iana_name());
                assert_eq!(zone, manifest["spec"]["timeZone"].as_str(), "runs are named by cron's days");
                assert!(wanted.every.is_some() && terms.timeout.is_some());
                let retries = spec["backoffLimit"].as_integer().unwrap() > 0;
                assert_eq!(wanted.retry, retries, "a pod that is tried again begins the run again");
            }
        }
    }
    assert_eq!(kinds, ["Deployment", "CronJob"]);
}
