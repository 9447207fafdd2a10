use proptest::prelude::*;

use super::*;

const CURATOR: &str = "_c_1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10";
const HEX: &str = "1ef3b5a40e4f4cd59a397a9d3a6b7f10";

fn exclusive(number: i32) -> Option<QueuePlace> {
    Some(QueuePlace::exclusive(number))
}

#[test]
fn a_contender_of_ours_has_one_name_in_each_layout() {
    let contenders = QueueLayout::ALL.map(|layout| (layout, QueuePlace::exclusive(42)));
    for (layout, place) in contenders.into_iter().chain([(QueueLayout::Own, QueuePlace::shared(42))]) {
        let name = layout.name(place);
        assert_eq!((layout.place(&name), layout.own(&name)), (Some(place), Some(place)), "{name}");
        for other in QueueLayout::ALL.into_iter().filter(|other| *other != layout) {
            assert_eq!(other.child(&name), Child::Suspect(ForeignClient::Zklock), "{name} in {other:?}");
        }
    }
}

#[test]
fn those_wait_for_each_other_that_their_clients_have_wait() {
    use QueueLayout::*;
    for (layout, name, place) in [
        (CuratorMutex, format!("{CURATOR}-lock-0000000007"), exclusive(7)),
        (CuratorMutex, format!("_c_{HEX}-lock-0000000007"), exclusive(7)),
        (CuratorMutex, format!("_c_{HEX}-lock-2147483647"), exclusive(i32::MAX)),
        (Kazoo, format!("{HEX}__lock__0000000007"), exclusive(7)),
    ] {
        assert_eq!((layout.place(&name), layout.own(&name)), (place, None), "{name}");
        for other in QueueLayout::ALL.into_iter().filter(|other| *other != layout) {
            assert_eq!(other.place(&name), None, "{name} in {other:?}");
            assert!(matches!(other.child(&name), Child::Suspect(_)), "{name} in {other:?}");
        }
    }
}

#[test]
fn a_queue_is_known_by_ours_or_else_by_theirs() {
    use QueueLayout::*;
    let layout = |names: &[&str]| QueueLayout::of_queue(names.iter().copied());
    let theirs = format!("{HEX}__lock__0000000007");
    assert_eq!(layout(&["notes", &theirs]), Some(Kazoo));
    for ours in QueueLayout::ALL {
        let name = ours.name(QueuePlace::exclusive(8));
        assert_eq!(layout(&["notes", &theirs, &name]), Some(ours));
    }
    assert_eq!(layout(&["notes", &format!("{CURATOR}-lease-0000000007"), "0000000007"]), None);
}

#[test]
fn others_are_suspects_or_nothing() {
    for layout in QueueLayout::ALL {
        for (name, child) in [
            (format!("{CURATOR}-latch-0000000007"), Child::Suspect(ForeignClient::Curator)),
            (format!("{CURATOR}-__WRIT__0000000007"), Child::Suspect(ForeignClient::CuratorReadWrite)),
            (format!("{CURATOR}-__READ__0000000007"), Child::Suspect(ForeignClient::CuratorReadWrite)),
            // Its `Lock` waits for no reader, so a queue of both has no order.
            (format!("{HEX}__rlock__0000000007"), Child::Suspect(ForeignClient::Kazoo)),
            (format!("{CURATOR}-lease-0000000007"), Child::Suspect(ForeignClient::Curator)),
            (format!("{CURATOR}-lock-x-0000000007"), Child::Suspect(ForeignClient::Curator)),
            ("x-72057670035767296-0000000000".to_owned(), Child::Suspect(ForeignClient::WriteLock)),
            ("0000000007".to_owned(), Child::Suspect(ForeignClient::Unknown)),
            // Their text sorts before all numbers, or behind them.
            (format!("{CURATOR}-lock--2147483648"), Child::Suspect(ForeignClient::Curator)),
            (format!("{HEX}__lock__-000000001"), Child::Suspect(ForeignClient::Kazoo)),
            ("notes".to_owned(), Child::Other),
        ] {
            assert_eq!((layout.place(&name), layout.child(&name)), (None, child), "{name} in {layout:?}");
        }
    }
}

#[test]
fn a_queue_is_free_after_a_release_of_ours_alone() {
    let released = Directory { czxid: 10, mzxid: 40, pzxid: 40, cversion: 14, children: 0 };
    assert!(released.was_free(Sequence(7), released) && released.shows_release());
    for (seen, own, why) in [
        (Directory { pzxid: 50, cversion: 16, ..released }, 8, "somebody went in another way"),
        (Directory { mzxid: 50, ..released }, 7, "somebody wrote to the directory"),
        (Directory { children: 1, cversion: 13, ..released }, 7, "somebody is there, or was when we looked"),
        (Directory { czxid: 10, mzxid: 10, pzxid: 10, cversion: 0, children: 0 }, 0, "the directory is new"),
        (released, 8, "somebody came between the look and our create"),
    ] {
        assert!(!seen.was_free(Sequence(own), seen), "{why}");
    }
    let another = Directory { czxid: 50, ..released };
    assert!(!released.was_free(Sequence(7), another), "the directory was made again");
}

/// The server counts creates and deletions by an `i32`, without regard to an overflow.
#[test]
fn a_queue_is_free_after_any_number_of_creates() {
    let released = |cversion| Directory { czxid: 10, mzxid: 40, pzxid: 40, cversion, children: 0 };
    for (cversion, own) in [
        (2, 1),
        (i32::MAX - 1, (1 << 30) - 1),
        (i32::MIN, 1 << 30),
        (i32::MIN + 2, (1 << 30) + 1),
        (-2, i32::MAX),
    ] {
        assert!(released(cversion).was_free(Sequence(own), released(cversion)), "{own}");
        for other in [own - 1, own ^ (1 << 30)] {
            assert!(!released(cversion).was_free(Sequence(other), released(cversion)), "{other} for {own}");
        }
    }
}

#[test]
fn a_shared_queue_has_a_delay_of_its_own_kind() {
    assert_eq!(
        QueueLayout::ALL.map(|layout| layout.takeover(true)),
        [Takeover::Delayed, Takeover::Mixed, Takeover::Mixed]
    );
    assert_eq!(QueueLayout::Own.takeover(false), Takeover::AtOnce);
    assert_eq!(QueueLayout::Kazoo.takeover(false), Takeover::Mixed);
}

proptest! {
    #[test]
    fn any_name_has_one_place_at_most_and_a_place_of_ours_one_name(
        name in prop_oneof![
            any::<String>(),
            "(_c_7a6b6c6f-636b-4000-8000-000000000000|7a6b6c6f636b40008000000000000000|[a-f0-9]{32}|r|x-|permit-[0-9]{1,3}|slot-[0-9]{1,2})?\
             (-?lock-|__r?lock__|-)?[-+]?[0-9]{8,11}",
        ],
    ) {
        for layout in QueueLayout::ALL {
            let place = layout.place(&name);
            let own = layout.own(&name);
            prop_assert!(place.is_none_or(|place| name.ends_with(&place.sequence.digits())));
            prop_assert!(own.is_none_or(|own| place == Some(own) && layout.name(own) == name));
            prop_assert_eq!(matches!(layout.child(&name), Child::Contender(_)), place.is_some());
        }
        prop_assert!(QueueLayout::ALL.iter().filter(|layout| layout.place(&name).is_some()).count() <= 1);
        for place in [QueuePlace::parse(&name), QueuePlace::parse_permit(&name)].into_iter().flatten() {
            prop_assert_eq!(place.name(), name.as_str());
        }
    }

    #[test]
    fn any_place_survives_its_name(number: i32, other: u32) {
        let sequence = Sequence(number);
        for layout in QueueLayout::ALL {
            let place = QueuePlace { sequence, kind: Kind::Exclusive };
            let is_read = number >= 0 || layout == QueueLayout::Own;
            prop_assert_eq!(layout.own(&layout.name(place)), is_read.then_some(place));
        }
        let reader = QueuePlace { sequence, kind: Kind::Shared };
        prop_assert_eq!(QueuePlace::parse(&reader.name()), Some(reader));
        for kind in [Kind::Permit(other.max(1)), Kind::Slot(other)] {
            let place = QueuePlace { sequence, kind };
            prop_assert_eq!(QueuePlace::parse_permit(&place.name()), Some(place));
        }
    }
}
