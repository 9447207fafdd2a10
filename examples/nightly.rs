//! Writes a report once a day, though every machine starts this program.
//!
//!     cargo run --example nightly -- 127.0.0.1:2181 /lock/report

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use zklock::{FencingToken, Session, once::Ran};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".into());
    let path = arguments.next().unwrap_or_else(|| "/lock/report".into());

    let session = Session::connect(servers).await?;
    let once = session.once(&path)?;
    // The day by the clock of ZooKeeper's leader, so that wrong clocks of machines do not matter.
    let today = once.period_name(DAY).await?;

    // Two machines, in turn.
    for machine in ["first", "second"] {
        match once.run(&today, async |run| write_report(run.guard().token()).await).await? {
            Ran::Now(()) => println!("the {machine} machine has written the report"),
            Ran::Before(_) => println!("the {machine} machine was told that the report is there"),
        }
    }
    session.close().await?;
    Ok(())
}

async fn write_report(token: FencingToken) -> Result<(), Infallible> {
    // A store that compares tokens gets it with the report.
    assert!(token.zxid() > 0);
    Ok(())
}
