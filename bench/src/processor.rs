//! Processor time, as Linux counts it.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;

/// The processor time of a process so far, of each thread by its name. Threads of one name count together.
pub(crate) fn threads(process: &str) -> anyhow::Result<HashMap<String, Duration>> {
    let mut spent = HashMap::new();
    for thread in std::fs::read_dir(format!("/proc/{process}/task")).context("needs Linux's /proc")? {
        let thread = thread?.path();
        // A thread may end at any time.
        let Ok(times) = std::fs::read_to_string(thread.join("schedstat")) else { continue };
        let Ok(name) = std::fs::read_to_string(thread.join("comm")) else { continue };
        let ran = times.split(' ').next().context("no time in schedstat")?;
        *spent.entry(name.trim().to_owned()).or_default() += Duration::from_nanos(ran.parse()?);
    }
    Ok(spent)
}

/// The processor time of a process so far, in all its threads.
pub(crate) fn spent(process: &str) -> anyhow::Result<Duration> {
    Ok(threads(process)?.into_values().sum())
}
