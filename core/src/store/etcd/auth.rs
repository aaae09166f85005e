//! The token that a user and a password are exchanged for, and when to get a new one.
//!
//! An exchange costs the server about a tenth of a second of CPU, and a token that expired is noticed by everything that is
//! under way at once. So there is one exchange at a time, and whoever waited for it takes its result. A login that was refused is
//! not tried again at once by everything that wants in: for a while, which grows, it counts as refused without a question.

use std::{sync::Mutex, time::Duration};

use super::{lock, member::Token};
use crate::{
    clock::Moment,
    store::{ErrorKind, StoreError},
};

/// How long a refused login counts as refused; doubled by every further refusal.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest time for which it does: so soon is a password noticed that was put right at the server.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What a request shows to etcd.
#[derive(Clone, Debug, Default)]
pub(super) struct Pass {
    /// The token; none where there is no user, or where etcd does not ask for one.
    pub(super) token: Option<Token>,
    /// Which exchange brought it.
    generation: u64,
}

/// The login of a store and its present token.
pub(super) struct Auth {
    login: Option<(String, String)>,
    state: Mutex<State>,
    /// Held during an exchange.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// The present token; none before the first exchange and after it was refused.
    pass: Option<Pass>,
    /// Exchanges that have ended, well or badly.
    exchanges: u64,
    /// Why the last one failed, if it did.
    failure: Option<StoreError>,
    /// How many were refused one after the other.
    refusals: u32,
    /// Until when the last failure is the answer without a further exchange.
    pause_until: Option<Moment>,
}

impl Auth {
    pub(super) fn new(login: Option<(String, String)>) -> Self {
        Self { login, state: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// User and password.
    pub(super) fn login(&self) -> Option<&(String, String)> {
        self.login.as_ref()
    }

    /// What to show now; `None` if it has to be fetched first.
    pub(super) fn pass(&self) -> Option<Pass> {
        if self.login.is_none() {
            return Some(Pass::default());
        }
        lock(&self.state).pass.clone()
    }

    /// Etcd did not accept `pass`. Tells whether another can be had. A pass that was replaced meanwhile is no news.
    pub(super) fn refuse(&self, pass: &Pass) -> bool {
        if self.login.is_none() {
            return false;
        }
        let mut state = lock(&self.state);
        if state.pass.as_ref().is_some_and(|present| present.generation == pass.generation) {
            state.pass = None;
        }
        true
    }

    /// How many exchanges have ended: what [`Auth::renew`] has to know from before it waited.
    pub(super) fn exchanges(&self) -> u64 {
        lock(&self.state).exchanges
    }

    /// Waits for its turn and gets a new token through `exchange`, unless an exchange ended since there were `seen` of them:
    /// then that one's result is the answer. So is the last refusal while the pause after it lasts.
    ///
    /// # Errors
    /// What `exchange` failed with.
    pub(super) async fn renew<F>(&self, seen: u64, now: impl Fn() -> Moment, exchange: F) -> Result<Pass, StoreError>
    where
        F: Future<Output = Result<Option<Token>, StoreError>>,
    {
        let _turn = self.turn.lock().await;
        {
            let state = lock(&self.state);
            if let Some(pass) = &state.pass {
                return Ok(pass.clone());
            }
            if let Some(failure) = &state.failure
                && (state.exchanges > seen || state.pause_until.is_some_and(|until| now() < until))
            {
                return Err(failure.clone());
            }
        }
        let result = exchange.await;
        let mut state = lock(&self.state);
        state.exchanges += 1;
        match result {
            Ok(token) => {
                let pass = Pass { token, generation: state.exchanges };
                state.pass = Some(pass.clone());
                (state.failure, state.refusals, state.pause_until) = (None, 0, None);
                Ok(pass)
            }
            Err(failure) => {
                if failure.kind == ErrorKind::Unauthenticated {
                    let pause = FIRST_PAUSE.saturating_mul(1 << state.refusals.min(8)).min(LONGEST_PAUSE);
                    state.refusals = state.refusals.saturating_add(1);
                    state.pause_until = Some(now() + pause);
                }
                state.failure = Some(failure.clone());
                Err(failure)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::clock;

    fn auth() -> Auth {
        Auth::new(Some(("u".into(), "p".into())))
    }

    fn token(text: &'static str) -> Option<Token> {
        Some(Token::from_static(text))
    }

    #[test]
    fn without_a_user_there_is_nothing_to_fetch_and_nothing_to_renew() {
        let auth = Auth::new(None);
        let pass = auth.pass().unwrap();
        assert!(pass.token.is_none());
        assert!(!auth.refuse(&pass));
    }

    #[tokio::test]
    async fn only_the_present_pass_can_be_refused() {
        let auth = auth();
        assert!(auth.pass().is_none());
        let first = auth.renew(0, clock::now, async { Ok(token("a")) }).await.unwrap();
        assert!(auth.refuse(&first));
        assert!(auth.pass().is_none());
        let second = auth.renew(auth.exchanges(), clock::now, async { Ok(token("b")) }).await.unwrap();
        assert!(auth.refuse(&first), "another can be had: the present one");
        assert_eq!(auth.pass().unwrap().token, second.token);
    }

    /// `outcome` of an exchange that many wait for, and how many exchanges there were.
    async fn shared(outcome: Result<Option<Token>, StoreError>) -> (Vec<bool>, u32) {
        let auth = auth();
        let count = AtomicU32::new(0);
        let one = || {
            let seen = auth.exchanges();
            auth.renew(seen, clock::now, async {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                outcome.clone()
            })
        };
        let (a, b, c) = tokio::join!(one(), one(), one());
        (vec![a.is_ok(), b.is_ok(), c.is_ok()], count.into_inner())
    }

    #[tokio::test]
    async fn whoever_waits_shares_the_result() {
        assert_eq!(shared(Ok(token("a"))).await, (vec![true; 3], 1));
        let refused = StoreError::refused(ErrorKind::Unauthenticated, "no");
        assert_eq!(shared(Err(refused)).await, (vec![false; 3], 1));
    }

    #[tokio::test]
    async fn after_a_refusal_nobody_asks_again_for_a_while_that_grows() {
        let auth = auth();
        let (asked, millis) = (AtomicU32::new(0), AtomicU32::new(0));
        let now = || Moment::default() + Duration::from_millis(millis.load(Ordering::Relaxed).into());
        let refused = || async {
            asked.fetch_add(1, Ordering::Relaxed);
            Err(StoreError::refused(ErrorKind::Unauthenticated, "wrong password"))
        };
        // One caller every 10 ms, for a minute.
        for _ in 0..6000 {
            assert!(auth.renew(auth.exchanges(), now, refused()).await.is_err());
            millis.fetch_add(10, Ordering::Relaxed);
        }
        // After 0, 0.5, 1.5, 3.5 and 7.5 s, then every 10 s.
        assert_eq!(asked.load(Ordering::Relaxed), 10);
        millis.fetch_add(10_000, Ordering::Relaxed);
        assert!(auth.renew(auth.exchanges(), now, async { Ok(token("a")) }).await.is_ok(), "put right at the server");
    }

    #[tokio::test]
    async fn a_failure_of_the_past_is_tried_again() {
        let auth = auth();
        let no = StoreError::refused(ErrorKind::Unavailable, "no");
        assert!(auth.renew(auth.exchanges(), clock::now, async { Err(no) }).await.is_err());
        assert!(auth.renew(auth.exchanges(), clock::now, async { Ok(token("a")) }).await.is_ok());
    }
}
