use proptest::collection::{hash_set, vec};
use proptest::prelude::*;

use super::*;

/// Strings near a contender's name, and some far from it.
fn nearly_names() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "lock-.{0,14}",
        "lock-[+-]?[0-9]{0,14}",
        "lock-0*[0-9]{1,10}",
        "lock-[٠-٩]{10}",
        "(lock|lock_|LOCK-|read-|_c_[0-9a-f]{8}-lock-)[0-9]{10}",
        any::<i64>().prop_map(|number| format!("{PREFIX}{number:010}")),
        any::<i32>().prop_map(|number| format!("{PREFIX}{number}")),
    ]
}

/// Names that no contender has.
fn foreign() -> impl Strategy<Value = String> {
    nearly_names().prop_filter("a contender's name", |name| Sequence::parse(name).is_none())
}

proptest! {
    #[test]
    fn every_name_is_read_back(number: i32) {
        let sequence = Sequence(number);
        prop_assert_eq!(Sequence::parse(&sequence.name()), Some(sequence));
        prop_assert_eq!(sequence.name(), sequence.to_string());
    }

    #[test]
    fn nothing_but_a_name_is_read(text in nearly_names()) {
        let number = text.strip_prefix("lock-").and_then(|digits| digits.parse::<i128>().ok());
        let canonical = number
            .filter(|number| (i128::from(i32::MIN)..=i128::from(i32::MAX)).contains(number))
            .filter(|number| format!("lock-{number:010}") == text)
            .and_then(|number| i32::try_from(number).ok());
        prop_assert_eq!(Sequence::parse(&text), canonical.map(Sequence));
    }

    #[test]
    fn the_order_is_that_of_the_numbers(one: i32, other: i32) {
        prop_assert_eq!(Sequence(one).cmp(&Sequence(other)), one.cmp(&other));
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
        numbers in vec(prop_oneof![0..12i32, -3..3i32, i32::MAX - 3..=i32::MAX, any::<i32>()], 0..12),
        foreign in vec(foreign(), 0..4),
        own in prop_oneof![0..12i32, -3..3i32, i32::MAX - 3..=i32::MAX],
        present: bool,
        seed in any::<prop::sample::Index>(),
    ) {
        let mut numbers = numbers;
        if present {
            numbers.push(own);
        }
        numbers.sort_unstable();
        numbers.dedup();
        let mut children = numbers.iter().map(|number| Sequence(*number).name()).chain(foreign).collect::<Vec<_>>();
        if !children.is_empty() {
            let middle = seed.index(children.len());
            children.rotate_left(middle);
        }

        let expected = match numbers.iter().position(|number| *number == own) {
            None => Standing::Missing,
            Some(0) => Standing::First,
            Some(1) => Standing::Second(Sequence(numbers[0])),
            Some(place) => Standing::Behind(Sequence(numbers[place - 1])),
        };
        prop_assert_eq!(standing(&children, Sequence(own)), expected);
    }

    #[test]
    fn the_order_of_the_children_does_not_matter(
        (sorted, shuffled) in vec(any::<i32>(), 1..12)
            .prop_map(|numbers| numbers.into_iter().map(|number| Sequence(number).name()).collect::<Vec<_>>())
            .prop_flat_map(|names| (Just(names.clone()), Just(names).prop_shuffle())),
        own in any::<prop::sample::Index>(),
    ) {
        let own = Sequence::parse(&sorted[own.index(sorted.len())]).unwrap();
        prop_assert_eq!(standing(&sorted, own), standing(&shuffled, own));
    }

    #[test]
    fn a_predecessor_is_the_highest_lower_child(numbers in hash_set(any::<i32>(), 1..12), own: i32) {
        let mut children = numbers.iter().map(|number| Sequence(*number).name()).collect::<Vec<_>>();
        children.push(Sequence(own).name());
        let lower = numbers.iter().copied().filter(|number| *number < own);
        let expected = match (lower.clone().count(), lower.max().map(Sequence)) {
            (1, Some(highest)) => Standing::Second(highest),
            (_, Some(highest)) => Standing::Behind(highest),
            (_, None) => Standing::First,
        };
        prop_assert_eq!(standing(&children, Sequence(own)), expected);
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
        assert_eq!(Sequence(number).name(), name);
    }
}

#[test]
fn other_spellings_are_no_contenders() {
    for name in [
        "",
        "lock-",
        "lock-0",
        "lock-000000000",
        "lock-00000000000",
        "lock-+000000001",
        "lock-+0000000001",
        "lock--0000000000",
        "lock--000000000",
        "lock- 000000001",
        "lock-000000001 ",
        "lock-0000000001\n",
        "lock-2147483648",
        "lock--2147483649",
        "lock-4294967296",
        "lock-99999999999999999999",
        "lock-٠٠٠٠٠٠٠٠٠١",
        "lock-０００００００００１",
        "lock-0x00000001",
        "Lock-0000000001",
        "lock0000000001",
        "/lock-0000000001",
        "0000000001",
    ] {
        assert_eq!(Sequence::parse(name), None, "{name:?}");
    }
}

#[test]
fn numbers_that_wrapped_come_before_those_that_did_not() {
    let children = [i32::MAX, i32::MIN, 0].map(|number| Sequence(number).name());
    assert_eq!(standing(&children, Sequence(i32::MIN)), Standing::First);
    assert_eq!(standing(&children, Sequence(0)), Standing::Second(Sequence(i32::MIN)));
    assert_eq!(standing(&children, Sequence(i32::MAX)), Standing::Behind(Sequence(0)));
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
