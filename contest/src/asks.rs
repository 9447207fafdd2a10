//! Judges asks: whom they reached, and what their askers were told.

use crate::acts::OperatorActs;
use crate::history::{HeardAsk, History, Hold, MadeAsk};
use crate::record::Reply;

/// What must not be: a holder hears an ask that does not name it, an asker is told too early that a holder has let go, or zklock
/// cannot ask.
pub fn wrong(history: &History) -> Vec<String> {
    let (asks, acts) = (&history.asks, OperatorActs::of(&history.faults));
    let names = |made: &MadeAsk, token: Option<_>| token.is_some_and(|it| made.of.contains(&it));
    // The asker may have been killed before it said whom it asks.
    let misheard = asks.heard.iter().filter(|heard| {
        asks.made.get(&heard.ask).is_some_and(|made| !names(made, heard.token.map(|token| token.zxid())))
    });
    let misheard = misheard.map(|HeardAsk { who, token, ask, .. }| {
        format!("{who} with {token:?} heard the ask {ask}, which does not name it")
    });
    let early = asks.made.iter().filter_map(|(ask, made)| Some((ask, made, made.let_go?)));
    let early = early.flat_map(|(ask, made, told)| {
        let is_meant = |hold: &&Hold| names(made, hold.token.map(|token| token.zxid()));
        // Nothing delays what an asker sees of an operator's act.
        let holds = history.holds.iter().filter(is_meant).filter(|hold| !acts.met(hold));
        holds.filter(move |hold| hold.valid_until(false) > told).map(move |hold| {
            format!(
                "the ask {ask} was told at {} that {} has let go, whose guard was valid then",
                told.0, hold.who
            )
        })
    });
    let refused = asks.replies.keys().filter_map(|reply| match reply {
        // An operator who acts at any time may have written to the node of an ask.
        Reply::Refused(_) if !history.scope.sampled && !history.faults.is_empty() => None,
        Reply::Refused(why) => Some(format!("nobody was asked: {why}")),
        _ => None,
    });
    misheard.chain(early).chain(refused).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::*;

    /// The holder with the token 5 hears an ask, and lets go; its asker is told.
    fn found(spoil: impl FnOnce(&mut History)) -> usize {
        let holds = vec![Hold::sample(ONE, 5, 10, 20, &[Claim::exclusive(0)])];
        let made = MadeAsk { of: vec![5], let_go: Some(Instant(25)) };
        let heard = HeardAsk { who: ONE, token: holds[0].token, ask: "a".to_owned() };
        let asks = Asks { made: [("a".to_owned(), made)].into(), heard: vec![heard], ..Asks::default() };
        let mut history = History { holds, asks, ..History::default() };
        spoil(&mut history);
        wrong(&history).len()
    }

    #[test]
    fn an_ask_reaches_those_whom_it_names() {
        assert_eq!(found(|_| {}), 0);
        assert_eq!(found(|it| it.asks.heard[0].token = Some(FencingToken::new(6))), 1);
        assert_eq!(found(|it| it.asks.heard[0].ask = "of one that was killed".to_owned()), 0);
        let refused = Reply::Refused("used for something else".to_owned());
        assert_eq!(found(|it| it.asks.replies = [(refused, 1)].into()), 1);
    }

    #[test]
    fn nobody_has_let_go_whose_guard_is_valid() {
        assert_eq!(found(|it| it.holds[0].seen.valid = Instant(26)), 1);
        let promised = |it: &mut History| {
            it.holds[0].end = End::Lost("the lease is over".into());
            it.holds[0].seen.promised = Some(Instant(30));
        };
        assert_eq!(found(promised), 1);
        let taken = |it: &mut History| {
            promised(it);
            it.faults.push(Fault { session: Some(1), ..Fault::sample(Effect::TakesHold, 15) });
        };
        assert_eq!(found(taken), 0);
    }
}
