//! The example `spread`: keys over several ensembles.

#[allow(dead_code)] // it has a `main`, too
#[path = "../../examples/spread.rs"]
mod example;

use std::time::Duration;

use example::{Failure, Spread};
use support::{linked, server, session, sessions, until_nothing_is_left, within};
use zklock::Session;

const ROOT: &str = "/spread/orders";

/// A key of each of the two.
fn keys(spread: &Spread) -> [String; 2] {
    ["red", "blue"]
        .map(|name| (0..).map(|key| format!("{key}")).find(|key| spread.of(key).0 == name).unwrap())
}

async fn is_free(spread: &Spread, key: &str) -> bool {
    let acquired = spread.of(key).1.try_acquire(key).await.unwrap();
    match acquired {
        Some(guard) => guard.release().await.map(|()| true).unwrap(),
        None => false,
    }
}

async fn refused(ensembles: &[(&str, &Session)]) -> String {
    let ensembles: Vec<_> = ensembles.iter().map(|(name, session)| (*name, (*session).clone())).collect();
    match Spread::open(ROOT, &ensembles).await {
        Ok(_) => panic!("this list was accepted"),
        Err(refusal) => refusal.to_string(),
    }
}

#[tokio::test]
async fn a_key_has_one_holder_and_an_ensemble_that_is_away_affects_only_its_keys() -> Result<(), Failure> {
    let ((red, [mine, yours]), blue) = (sessions().await, server().await);
    let (link, far) = linked(&blue, Duration::from_secs(4)).await;
    let near = session(&blue).await;
    let one = Spread::open(ROOT, &[("red", mine), ("blue", far)]).await?;
    // In another order, which changes nothing.
    let other = Spread::open(ROOT, &[("blue", near), ("red", yours)]).await?;
    let [in_red, in_blue] = keys(&one);
    assert_eq!(keys(&other), [in_red.clone(), in_blue.clone()]);

    let (held, lost) = (one.acquire(&in_red).await?, one.acquire(&in_blue).await?);
    assert!(!is_free(&other, &in_red).await && !is_free(&other, &in_blue).await);
    link.refuse();
    link.cut();
    within("the loss", lost.lost()).await;
    drop(lost);
    let next = within("the other's grant", other.acquire(&in_blue)).await?;
    held.check()?;
    held.release().await?;
    assert!(is_free(&other, &in_red).await);
    next.release().await?;
    drop((one, other));
    for server in [red, blue] {
        until_nothing_is_left(&server).await;
    }
    Ok(())
}

#[tokio::test]
async fn of_two_lists_that_share_an_ensemble_one_is_refused() -> Result<(), Failure> {
    let (red, blue, green) = (server().await, server().await, server().await);
    let (red, blue, green) = (session(&red).await, session(&blue).await, session(&green).await);
    assert!(refused(&[]).await.contains("name of its own"));
    assert!(refused(&[("red", &red), ("red", &blue)]).await.contains("name of its own"));
    let _first = Spread::open(ROOT, &[("red", red.clone()), ("blue", blue.clone())]).await?;
    for other in [
        &[("red", &red)][..],
        &[("red", &red), ("blue", &blue), ("green", &green)],
        &[("green", &green), ("red", &red)],
        &[("blue", &blue), ("green", &green)],
        // The ensembles of two names are mixed up.
        &[("red", &blue), ("blue", &red)],
        // Two names lead to one ensemble.
        &[("red", &red), ("blue", &red)],
        &[("RED", &red), ("blue", &blue)],
    ] {
        assert!(refused(other).await.contains("but this process states"), "{other:?}");
    }
    let _again = Spread::open(ROOT, &[("red", red), ("blue", blue)]).await?;
    Ok(())
}

/// Otherwise processes of two versions would lock one key in two ensembles.
#[tokio::test]
async fn the_place_of_a_key_never_changes() -> Result<(), Failure> {
    let (red, blue) = (server().await, server().await);
    let spread = Spread::open(ROOT, &[("red", session(&red).await), ("blue", session(&blue).await)]).await?;
    assert_eq!(example::hash(b""), 0xF52A_15E9_A9B5_E89B);
    let in_red = (0..1_000).filter(|key| spread.of(&key.to_string()).0 == "red").count();
    assert_eq!(in_red, 512);
    Ok(())
}
