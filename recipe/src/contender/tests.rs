use super::*;

const OWN: i32 = 5;
/// The other numbers, some lower than our own and some higher.
const OTHERS: [i32; 5] = [1, 2, 3, 4, 7];

/// What sorting says of those that are lower, the lowest first.
fn expected(lower: &[QueuePlace], kind: Kind) -> Standing {
    let of_kind = |places: &[QueuePlace], kind: Kind| {
        let those = places.iter().filter(|place| place.kind == kind);
        those.map(|place| place.sequence).collect::<Vec<_>>()
    };
    let writer = lower.iter().rposition(|place| place.kind == Kind::Exclusive);
    match (kind, lower, writer) {
        (_, [], _) => Standing::First,
        (Kind::Shared, _, None) => Standing::Beside,
        // A reader knows all writers in front of it.
        (Kind::Shared, _, Some(nearest)) => Standing::Behind(Ahead {
            nearest: lower[nearest],
            others: Others::All(of_kind(&lower[..nearest], Kind::Exclusive)),
            is_short: true,
        }),
        (_, [nearest], _) => {
            Standing::Behind(Ahead { nearest: *nearest, others: Others::All(vec![]), is_short: true })
        }
        // A writer remembers each reader in front of it. The next listing shows the writers.
        (_, [others @ .., nearest], _) => {
            let others = Others::Some(of_kind(others, Kind::Shared));
            Standing::Behind(Ahead { nearest: *nearest, others, is_short: true })
        }
    }
}

/// In every queue of up to five others.
#[test]
fn standing_is_what_sorting_says() {
    let places = |number| [None, Some(QueuePlace::exclusive(number)), Some(QueuePlace::shared(number))];
    let queues = OTHERS.iter().fold(vec![vec![]], |queues: Vec<Vec<QueuePlace>>, number| {
        let with =
            |queue: Vec<QueuePlace>| places(*number).map(|place| [&queue[..], place.as_slice()].concat());
        queues.into_iter().flat_map(with).collect()
    });
    assert_eq!(queues.len(), 243);
    for queue in queues {
        for own in [QueuePlace::exclusive(OWN), QueuePlace::shared(OWN)] {
            let lower = queue.partition_point(|place| *place < own);
            let mut children = queue.iter().copied().chain([own]).map(QueuePlace::name).collect::<Vec<_>>();
            children.insert(0, "lock-000000001".to_owned());
            for _ in 0..2 {
                assert_eq!(standing(&children, own), expected(&queue[..lower], own.kind), "{children:?}");
                children.reverse();
            }
            children.pop();
            let kinds = [QueuePlace::exclusive(OWN), QueuePlace::shared(OWN)].into_iter();
            children.extend(kinds.filter(|place| *place != own).map(QueuePlace::name));
            assert_eq!(standing(&children, own), Standing::Missing, "{children:?}");
        }
    }
}

#[test]
fn numbers_that_wrapped_come_before_those_that_did_not() {
    let [last, wrapped, zero] = [i32::MAX, i32::MIN, 0].map(QueuePlace::exclusive);
    let children = [last, wrapped, zero].map(QueuePlace::name);
    let behind = |nearest, others| Standing::Behind(Ahead { nearest, others, is_short: true });
    assert_eq!(standing(&children, wrapped), Standing::First);
    assert_eq!(standing(&children, zero), behind(wrapped, Others::All(vec![])));
    assert_eq!(standing(&children, last), behind(zero, Others::Some(vec![])));
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
        for (place, name) in [
            (QueuePlace::exclusive(number), name.to_owned()),
            (QueuePlace::shared(number), format!("r{name}")),
        ] {
            assert_eq!((place.name(), QueuePlace::parse(&name)), (name, Some(place)));
        }
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
        assert_eq!(QueuePlace::parse(name), None, "{name:?}");
    }
}

#[test]
fn the_previous_number_is_one_lower() {
    let previous = [i32::MAX, 1, 0, -1, i32::MIN].map(|number| Sequence(number).previous());
    assert_eq!(previous, [Some(Sequence(i32::MAX - 1)), Some(Sequence(0)), None, None, None]);
}
