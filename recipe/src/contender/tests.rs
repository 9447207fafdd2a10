use proptest::collection::{hash_map, vec};
use proptest::prelude::*;

use super::*;

/// Strings near a contender's name, and some far from it.
fn nearly_names() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "r?lock-.{0,14}",
        "r?lock-[+-]?[0-9]{0,14}",
        "r?lock-0*[0-9]{1,10}",
        "r?lock-[٠-٩]{10}",
        "(lock|lock_|LOCK-|Rlock-|rrlock-|read-|_c_[0-9a-f]{8}-r?lock-)[0-9]{10}",
        any::<i64>().prop_map(|number| format!("lock-{number:010}")),
        any::<i64>().prop_map(|number| format!("rlock-{number:010}")),
        any::<i32>().prop_map(|number| format!("lock-{number}")),
        any::<i32>().prop_map(|number| format!("rlock-{number}")),
    ]
}

/// Names that no contender has.
fn foreign() -> impl Strategy<Value = String> {
    nearly_names().prop_filter("a contender's name", |name| Place::parse(name).is_none())
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(Kind::ALL.to_vec())
}

fn place(numbers: impl Strategy<Value = i32>) -> impl Strategy<Value = Place> {
    (numbers, kind()).prop_map(|(number, kind)| Place { sequence: Sequence(number), kind })
}

fn numbers() -> impl Strategy<Value = i32> {
    prop_oneof![4 => 0..12i32, 1 => -3..3i32, 1 => i32::MAX - 3..=i32::MAX, 1 => any::<i32>()]
}

/// What sorting says: `others` are the lower ones, the lowest first.
fn expected(lower: &[Place], own: Place) -> Standing {
    let writers = || lower.iter().filter(|place| place.kind == Kind::Exclusive);
    let sequences = |places: &[Place]| places.iter().map(|place| place.sequence).collect::<Vec<_>>();
    match (own.kind, lower) {
        (_, []) => Standing::First,
        (Kind::Shared, _) => match writers().copied().collect::<Vec<_>>().split_last() {
            None => Standing::Beside,
            Some((&nearest, others)) => {
                Standing::Behind(Ahead { nearest, others: Others::All(sequences(others)) })
            }
        },
        (_, [nearest]) => Standing::Behind(Ahead { nearest: *nearest, others: Others::All(vec![]) }),
        (_, [others @ .., nearest]) => {
            let readers = others.iter().filter(|place| place.kind == Kind::Shared).copied();
            let readers = sequences(&readers.collect::<Vec<_>>());
            Standing::Behind(Ahead { nearest: *nearest, others: Others::Some(readers) })
        }
    }
}

proptest! {
    #[test]
    fn every_name_is_read_back(place in place(any::<i32>())) {
        prop_assert_eq!(Place::parse(&place.name()), Some(place));
        prop_assert_eq!(place.name(), place.to_string());
    }

    #[test]
    fn nothing_but_a_name_is_read(text in nearly_names()) {
        let of_kind = |kind: Kind, prefix: &str| {
            let number = text.strip_prefix(prefix).and_then(|digits| digits.parse::<i128>().ok());
            number
                .filter(|number| (i128::from(i32::MIN)..=i128::from(i32::MAX)).contains(number))
                .filter(|number| format!("{prefix}{number:010}") == text)
                .and_then(|number| i32::try_from(number).ok())
                .map(|number| Place { sequence: Sequence(number), kind })
        };
        let canonical = of_kind(Kind::Exclusive, "lock-").or(of_kind(Kind::Shared, "rlock-"));
        prop_assert_eq!(Place::parse(&text), canonical);
    }

    #[test]
    fn the_previous_one_is_one_lower(number: i32) {
        match Sequence(number).previous() {
            Some(Sequence(previous)) => prop_assert!(previous >= 0 && previous + 1 == number),
            None => prop_assert!(number <= 0),
        }
    }

    #[test]
    fn standing_is_what_sorting_says(
        others in hash_map(numbers(), kind(), 0..12),
        foreign in vec(foreign(), 0..4),
        own in place(numbers()),
        present: bool,
        order in vec(any::<u32>(), 17),
    ) {
        // All kinds take their numbers from one counter.
        let others = others.into_iter().map(|(number, kind)| Place { sequence: Sequence(number), kind });
        let mut places = others.filter(|place| place.sequence != own.sequence).collect::<Vec<_>>();
        places.sort_unstable();
        let lower = places.partition_point(|place| *place < own);
        let expected = if present { expected(&places[..lower], own) } else { Standing::Missing };
        if present {
            places.push(own);
        }
        let mut children = order.into_iter().zip(places.into_iter().map(Place::name).chain(foreign)).collect::<Vec<_>>();
        children.sort_unstable();
        let children = children.into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        prop_assert_eq!(standing(&children, own), expected);
    }

    /// Nobody is passed over: each lower contender that blocks is the nearest, is among the others, or is a writer that
    /// the next listing shows. No reader is left to that listing, which could not show how it went.
    #[test]
    fn everybody_who_blocks_is_known_or_a_writer_before_a_listing(
        lower in hash_map(0..20i32, kind(), 1..12),
        kind in kind(),
    ) {
        let own = Place { sequence: Sequence(20), kind };
        let lower = lower.into_iter().map(|(number, kind)| Place { sequence: Sequence(number), kind });
        let lower = lower.collect::<Vec<_>>();
        let children = lower.iter().map(|place| place.name()).chain([own.name()]).collect::<Vec<_>>();
        let blocks = |place: &Place| kind == Kind::Exclusive || place.kind == Kind::Exclusive;
        match standing(&children, own) {
            Standing::Behind(Ahead { nearest, others: Others::All(others) }) => {
                for place in lower.into_iter().filter(blocks) {
                    prop_assert!(place == nearest || others.contains(&place.sequence), "{}", place);
                }
            }
            Standing::Behind(Ahead { nearest, others: Others::Some(readers) }) => {
                prop_assert_eq!(kind, Kind::Exclusive);
                for place in lower.into_iter().filter(|place| *place != nearest) {
                    let known = readers.contains(&place.sequence);
                    prop_assert_eq!(known, place.kind == Kind::Shared, "{}", place);
                }
            }
            Standing::Beside => prop_assert!(!lower.iter().any(blocks)),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}

#[test]
fn names_are_spelled_as_the_server_does() {
    for (number, name) in [
        (0, "lock-0000000000"),
        (42, "lock-0000000042"),
        (i32::MAX, "lock-2147483647"),
        (-1, "lock--000000001"),
        (i32::MIN, "lock--2147483648"),
    ] {
        assert_eq!(Place::exclusive(number).name(), name);
        assert_eq!(Place::shared(number).name(), format!("r{name}"));
    }
}

#[test]
fn other_spellings_are_no_contenders() {
    for name in [
        "",
        "lock-",
        "lock-000000000",
        "lock-00000000000",
        "lock-+000000001",
        "lock--0000000000",
        "lock-000000001 ",
        "lock-2147483648",
        "lock--2147483649",
        "lock-٠٠٠٠٠٠٠٠٠١",
        "Lock-0000000001",
        "/lock-0000000001",
        "rlock-000000001",
        "rrlock-0000000001",
    ] {
        assert_eq!(Place::parse(name), None, "{name:?}");
    }
}

#[test]
fn numbers_that_wrapped_come_before_those_that_did_not() {
    let [last, wrapped, zero] = [i32::MAX, i32::MIN, 0].map(Place::exclusive);
    let children = [last, wrapped, zero].map(Place::name);
    let behind = |nearest, others| Standing::Behind(Ahead { nearest, others });
    assert_eq!(standing(&children, wrapped), Standing::First);
    assert_eq!(standing(&children, zero), behind(wrapped, Others::All(vec![])));
    assert_eq!(standing(&children, last), behind(zero, Others::Some(vec![])));
}

#[test]
fn a_place_is_of_one_kind() {
    let children = [Place::exclusive(1), Place::shared(2)].map(Place::name);
    for place in [Place::shared(1), Place::exclusive(2)] {
        assert_eq!(standing(&children, place), Standing::Missing);
    }
}

#[test]
fn numbers_run_out_a_million_before_their_end() {
    for (number, exhausted) in [
        (0, false),
        (LAST_SEQUENCE, false),
        (LAST_SEQUENCE + 1, true),
        (i32::MAX, true),
        (-1, true),
        (i32::MIN, true),
    ] {
        assert_eq!(Sequence(number).is_exhausted(), exhausted, "{number}");
    }
}
