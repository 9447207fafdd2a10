//! `zklock export`: what Prometheus reads, and what an exporter does to the servers.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::future::join_all;
use prometheus_parse::{Sample, Scrape, Value};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zklock::inspect::is_harmful;
use zklock_test_support::{eventually, operator, own_server, server, until_nothing_is_left, within};
use zklock_testcontainers::{Link, RequestKind};

use crate::support::{NOBODY, Running, answers, lock_of, program_of, with_session, zklock};
use crate::words::hold_as_an_enemy;

/// A running exporter.
struct Exporter {
    process: Running,
    address: String,
}

impl Exporter {
    async fn start(servers: &str, options: &[&str]) -> Self {
        let export = ["export", "--listen", "127.0.0.1:0"];
        let mut process = Running::start(program_of(servers, &[&export, options].concat()));
        let said = process.tells().await;
        let address = said.strip_prefix("zklock: listening at http://").expect(&said);
        let address = address.strip_suffix("/metrics").expect(&said).to_owned();
        Self { process, address }
    }

    async fn request(&self, request: &str) -> String {
        let answer = async {
            let mut connection = TcpStream::connect(&self.address).await.expect("a connection");
            connection.write_all(request.as_bytes()).await.expect("a request");
            let mut answer = String::new();
            connection.read_to_string(&mut answer).await.expect("an answer");
            answer
        };
        within("an answer", answer).await
    }

    async fn scrape(&self) -> Metrics {
        let answer = self.request("GET /metrics HTTP/1.1\r\nHost: zklock\r\n\r\n").await;
        let (head, page) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
        // Prometheus takes braces in the value of a label, and this parser does not.
        let plain = page.replace(r"\\u{1b}", "").replace(r"\\u{202e}", "");
        let scrape = Scrape::parse(plain.lines().map(|line| Ok(line.to_owned()))).expect("metrics");
        let series = page.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(scrape.samples.len(), series, "{page}");
        Metrics { samples: scrape.samples, page: page.to_owned() }
    }
}

struct Metrics {
    samples: Vec<Sample>,
    page: String,
}

impl Metrics {
    /// The values of a metric with these labels.
    fn values(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        let has = |sample: &&Sample| {
            sample.metric == name && labels.iter().all(|(key, value)| sample.labels.get(key) == Some(*value))
        };
        let value = |sample: &Sample| match sample.value {
            Value::Gauge(value) => value,
            ref other => panic!("{name} is no gauge: {other:?}"),
        };
        self.samples.iter().filter(has).map(value).collect()
    }

    #[track_caller]
    fn is(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        assert_eq!(self.values(name, labels), [value], "{name} {labels:?}");
    }

    fn says_up(&self, value: f64) -> bool {
        self.values("zklock_up", &[]) == [value]
    }
}

fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(contrib(name)).expect(name)
}

/// The expressions of the dashboard.
fn queries() -> Vec<String> {
    let board = serde_json::from_str::<serde_json::Value>(&read("grafana/zklock.json")).expect("JSON");
    let panels = board["panels"].as_array().expect("panels").iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.map(|target| target["expr"].as_str().expect("an expression").to_owned());
    let queries = queries.collect::<Vec<_>>();
    assert!(queries.len() > 20, "{queries:?}");
    queries
}

/// The expressions of the alerts.
fn alerts() -> Vec<String> {
    let rules = read("prometheus/zklock.rules.yml");
    rules.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).map(str::to_owned).collect()
}

/// The name and the labels of a series, but not those that Prometheus adds to each one.
fn shape<'a>(name: &'a str, labels: impl IntoIterator<Item = &'a str>) -> (&'a str, BTreeSet<&'a str>) {
    (name, labels.into_iter().filter(|label| !["instance", "job"].contains(label)).collect())
}

/// The shape of each series by which the alerts are tested.
fn tested(tests: &str) -> Vec<(&str, BTreeSet<&str>)> {
    let series = tests.lines().filter_map(|line| line.trim().strip_prefix("- {series: '")?.split_once("}'"));
    let shapes = series.filter_map(|(series, _values)| series.split_once('{')).map(|(name, labels)| {
        shape(name, labels.split(", ").map(|label| label.split_once('=').expect("a label").0))
    });
    shapes.filter(|(name, _)| name.starts_with("zklock_")).collect()
}

fn promtool(arguments: [&str; 2], file: &Path) {
    let promtool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/promtool");
    let verdict = std::process::Command::new(promtool).args(arguments).arg(file).output();
    let verdict = verdict.expect("target/promtool, of scripts/have-promtool.sh");
    let said = [verdict.stdout, verdict.stderr].concat();
    assert!(verdict.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn each_alert_fires_when_it_should() {
    promtool(["test", "rules"], &contrib("prometheus/zklock.test.yml"));
    let tests = read("prometheus/zklock.test.yml");
    let rules = read("prometheus/zklock.rules.yml");
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect::<Vec<_>>();
    assert_eq!(names.len(), alerts().len());
    for name in names {
        let fires = format!("alertname: {name}\n        exp_alerts:\n");
        assert!(tests.contains(&fires), "no test in which {name} fires");
        assert!(tests.contains(&format!("alertname: {name}}}\n")), "no test in which {name} does not fire");
    }
}

#[test]
fn prometheus_takes_the_queries_of_the_dashboard() {
    let rules = queries().into_iter().enumerate().map(|(number, query)| {
        serde_json::json!({"record": format!("query:{number}"), "expr": query.replace("$path", ".*")})
    });
    // JSON is YAML.
    let rules = serde_json::json!({"groups": [{"name": "queries", "rules": rules.collect::<Vec<_>>()}]});
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), rules.to_string()).expect("a file");
    promtool(["check", "rules"], file.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_and_the_alerts_find_what_they_name() {
    let (server, servers, session) = with_session(own_server().await).await;
    let awkward = "a \"b\" \\ c\nd\u{1b}[2J";
    let orders = lock_of(&session, "/lock/orders", awkward);
    let guard = orders.acquire().await.unwrap();
    let waiter = zklock_test_support::enqueue(&lock_of(&session, "/lock/orders", "waiter")).await;
    let prices = session.rw_lock("/lock/prices").unwrap();
    let _readers = (prices.read().await.unwrap(), prices.read().await.unwrap());
    let pool = session.semaphore("/convert", 4).unwrap();
    let permit = pool.acquire_many(3).await.unwrap();
    let _slot = session.slots("/workers", 8).unwrap().acquire().await.unwrap();
    let leadership = session.election("/feed").unwrap().campaign("10.0.0.7:8080").await.unwrap();

    let options = ["--min-interval", "50ms", "--session-timeout", "2s"];
    let roots = ["/lock", "/convert", "/workers", "/feed", "/nope"];
    let mut exporter = Exporter::start(&servers, &[&options[..], &roots].concat()).await;
    let metrics = exporter.scrape().await;
    let names = metrics.samples.iter().map(|sample| sample.metric.as_str()).collect::<HashSet<_>>();
    for expression in queries().into_iter().chain(alerts()) {
        let is_of_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let words = expression.split(|character| !is_of_name(character));
        let named = words.filter(|word| word.starts_with("zklock_")).collect::<Vec<_>>();
        assert!(!named.is_empty(), "{expression}");
        for name in named {
            assert!(names.contains(name), "{name} of {expression} is not in {names:?}");
        }
    }
    let shapes =
        metrics.samples.iter().map(|sample| shape(&sample.metric, sample.labels.keys().map(|it| &**it)));
    let shapes = shapes.collect::<HashSet<_>>();
    for shape in tested(&read("prometheus/zklock.test.yml")) {
        assert!(shapes.contains(&shape), "the exporter writes no {shape:?}, by which alerts are tested");
    }

    let orders = [("path", "/lock/orders")];
    metrics.is("zklock_up", &[], 1.0);
    metrics.is("zklock_lock_held", &[orders[0], ("kind", "exclusive")], 1.0);
    metrics.is("zklock_lock_holders", &orders, 1.0);
    metrics.is("zklock_lock_waiters", &orders, 1.0);
    // The parser leaves values as they are written.
    let holder = r#"zklock_lock_holder_info{path="/lock/orders",owner="a \"b\" \\ c\\nd\\u{1b}[2J"} 1.0"#;
    assert!(metrics.page.lines().any(|line| line == holder), "{holder}: {}", metrics.page);
    metrics.is("zklock_lock_holder_token", &orders, guard.token().zxid() as f64);
    let [came] = metrics.values("zklock_lock_holder_arrival_timestamp_seconds", &orders)[..] else {
        panic!()
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - 60.0..=now).contains(&came), "{came} {now}");
    metrics.is("zklock_lock_held", &[("path", "/lock/prices"), ("kind", "shared")], 1.0);
    metrics.is("zklock_lock_holders", &[("path", "/lock/prices")], 2.0);
    metrics.is("zklock_pool_capacity", &[("path", "/convert"), ("kind", "semaphore")], 4.0);
    metrics.is("zklock_pool_held", &[("path", "/convert")], 3.0);
    metrics.is("zklock_pool_capacity", &[("path", "/workers"), ("kind", "slots")], 8.0);
    metrics.is("zklock_election_leader_info", &[("path", "/feed"), ("value", "10.0.0.7:8080")], 1.0);
    metrics.is("zklock_election_leader_token", &[], leadership.token().zxid() as f64);
    metrics.is("zklock_server_role", &[("server", server.address()), ("role", "standalone")], 1.0);
    metrics.is("zklock_server_up", &[("server", server.address())], 1.0);
    metrics.is("zklock_root_readable", &[("root", "/lock")], 1.0);
    metrics.is("zklock_root_readable", &[("root", "/nope")], 0.0);
    metrics.is("zklock_scan_cut", &[("bound", "max-locks")], 0.0);
    metrics.is("zklock_scan_cut", &[("bound", "max-nodes")], 0.0);

    // What is let go has no series any more.
    permit.release().await.unwrap();
    eventually("the free semaphore", async || {
        exporter.scrape().await.values("zklock_pool_held", &[("path", "/convert")]).is_empty()
    })
    .await;

    // Without a server it says so, and it goes on once the server is back.
    server.own().kill().await.unwrap();
    eventually("the absence", async || exporter.scrape().await.says_up(0.0)).await;
    let metrics = exporter.scrape().await;
    metrics.is("zklock_server_up", &[], 0.0);
    assert_eq!(metrics.values("zklock_lock_held", &[]), [0.0; 0]);
    server.own().restart().await.unwrap();
    eventually("the return", async || exporter.scrape().await.says_up(1.0)).await;
    exporter.process.signal(Signal::TERM);
    exporter.process.ends_with(0).await;
    waiter.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn scrapes_share_a_scan_that_is_bounded() {
    let (server, _, session) = with_session(server().await).await;
    let locks = ["/lock/a", "/lock/b", "/lock/c"].map(|path| lock_of(&session, path, "alpha"));
    let guards = join_all(locks.iter().map(zklock::Lock::acquire)).await;
    let link = Link::start(server.address()).await.unwrap();
    let options = ["--min-interval", "1h", "--max-locks", "2", "/lock"];
    let mut exporter = Exporter::start(&server.at(link.address()), &options).await;
    for metrics in join_all((0..20).map(|_| exporter.scrape())).await {
        metrics.is("zklock_scan_cut", &[("bound", "max-locks")], 1.0);
        metrics.is("zklock_scan_cut", &[("bound", "max-nodes")], 0.0);
        metrics.is("zklock_lock_held", &[("path", "/lock/b")], 1.0);
        // What a scan has not counted is not zero.
        assert_eq!(metrics.values("zklock_lock_foreign_contenders", &[]), [0.0; 0]);
        assert_eq!(metrics.values("zklock_lock_held", &[]).len(), 2);
    }
    // The root, and three directories at most.
    assert!(link.requests_of(RequestKind::GetChildren) <= 4, "{:?}", link.counts());
    exporter.process.signal(Signal::INT);
    exporter.process.ends_with(0).await;

    // The root, and two directories. The third one is not read, and nothing is said of the second root.
    let link = Link::start(server.address()).await.unwrap();
    let options = ["--min-interval", "1h", "--max-nodes", "3", "/lock", "/other"];
    let exporter = Exporter::start(&server.at(link.address()), &options).await;
    let metrics = exporter.scrape().await;
    metrics.is("zklock_scan_cut", &[("bound", "max-nodes")], 1.0);
    metrics.is("zklock_scan_cut", &[("bound", "max-locks")], 0.0);
    metrics.is("zklock_scan_nodes", &[], 3.0);
    metrics.is("zklock_lock_held", &[("path", "/lock/b")], 1.0);
    assert_eq!(metrics.values("zklock_lock_held", &[]).len(), 2);
    assert_eq!(metrics.values("zklock_lock_foreign_contenders", &[]), [0.0; 0]);
    metrics.is("zklock_root_readable", &[], 1.0);
    assert_eq!(link.requests_of(RequestKind::GetChildren), 3, "{:?}", link.counts());
    drop((guards, locks));
    session.close().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// Paths of 200,000 characters, and owners of as many that drive a terminal.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_paths_and_owners_hide_no_lock_and_fill_no_page() {
    let (server, servers, session) = with_session(server().await).await;
    let _guard = lock_of(&session, "/lock/z", "alpha").acquire().await.unwrap();
    let enemy = operator(&server).await;
    for last in ["a", "b/queue"] {
        hold_as_an_enemy(&enemy, &format!("/lock/{}{last}", "x".repeat(200_000))).await;
    }
    let exporter = Exporter::start(&servers, &["/lock"]).await;
    let metrics = exporter.scrape().await;
    metrics.is("zklock_lock_held", &[("path", "/lock/z")], 1.0);
    assert_eq!(metrics.values("zklock_lock_held", &[]).len(), 3, "two long paths stay two");
    assert!(metrics.page.len() < 20_000, "{}", metrics.page.len());
    assert!(metrics.page.lines().all(|line| !line.contains(is_harmful)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exporter_needs_neither_servers_nor_polite_clients() {
    let exporter = Exporter::start(NOBODY, &["--connect-timeout", "1s"]).await;
    let metrics = exporter.scrape().await;
    metrics.is("zklock_up", &[], 0.0);
    metrics.is("zklock_server_up", &[("server", NOBODY)], 0.0);
    for (request, status) in [
        ("GET / HTTP/1.0\r\n\r\n", "200 OK"),
        ("HEAD /metrics HTTP/1.0\r\n\r\n", "200 OK"),
        ("GET /nope HTTP/1.0\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.0\r\nContent-Length: 9\r\n\r\n", "405 Method Not Allowed"),
        ("\u{1b}\r\n\r\n", "400 Bad Request"),
    ] {
        let answer = exporter.request(request).await;
        assert!(
            answer.split("\r\n").next().is_some_and(|line| line.ends_with(status)),
            "{request}: {answer}"
        );
    }

    // So many clients that none other is served, and none of them ends its request.
    let began = Instant::now();
    let unfinished = join_all((0..64).map(|_| async {
        let mut connection = TcpStream::connect(&exporter.address).await.unwrap();
        connection.write_all(b"GET /metrics HTTP/1.1\r\nHost:").await.unwrap();
        connection
    }))
    .await;
    exporter.scrape().await.is("zklock_up", &[], 0.0);
    assert!(began.elapsed() > Duration::from_secs(3), "the clients took no place: {:?}", began.elapsed());
    drop(unfinished);

    // A port for HTTP, as the AdminServer of ZooKeeper has one.
    let doctor = zklock(&exporter.address, "doctor --json --connect-timeout 2s").await;
    doctor.finds(69, &["http"]);

    let taken = format!("export --listen {}", exporter.address);
    answers(NOBODY, &[(&taken, 64, "", "--listen"), ("export --max-nodes 0", 64, "", "--max-nodes")]).await;
}

/// It says so at its first look. After that the metrics say it.
#[tokio::test]
async fn silent_servers_are_told_once() {
    let server = server().await;
    let link = Link::start(server.address()).await.unwrap();
    link.black_hole();
    let options = ["--connect-timeout", "3s", "--min-interval", "0"];
    let mut exporter = Exporter::start(&server.at(link.address()), &options).await;
    let silent = " has established a session for 2s or more; zklock goes on trying";
    assert!(exporter.process.tells().await.contains(silent));
    assert!(exporter.process.tells().await.contains("zklock tries again at each scrape"));
    for _ in 0..2 {
        assert_eq!(exporter.scrape().await.values("zklock_up", &[]), [0.0]);
    }
    link.restore();
    link.cut();
    eventually("an answer", async || exporter.scrape().await.values("zklock_up", &[]) == [1.0]).await;
    assert_eq!(exporter.process.tells().await, "zklock: ZooKeeper answers again");
}
