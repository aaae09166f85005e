//! Which endpoint next: the last good one first, one that failed is left alone for a while and then may be tried again.
//! Pure: it opens nothing and is told the time.

use std::time::Duration;

use crate::clock::Moment;

/// How long an endpoint is avoided after its first failure; doubled by every further one.
const FIRST_PENALTY: Duration = Duration::from_secs(1);

/// The longest time for which an endpoint is avoided.
const LONGEST_PENALTY: Duration = Duration::from_secs(30);

/// The most endpoints a store takes: as many as a set of them has bits.
pub(super) const MOST_ENDPOINTS: usize = 64;

/// A set of endpoints, by index.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Set(u64);

impl Set {
    /// Adds one.
    pub(super) fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    fn contains(self, index: usize) -> bool {
        self.0 & (1 << index) != 0
    }

    /// How many it has.
    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }
}

#[derive(Clone, Debug, Default)]
struct Endpoint {
    /// Failures since it last answered.
    failures: u32,
    /// Until when it is avoided.
    avoided_until: Moment,
    /// Renewals sent on its open streams and not acknowledged yet.
    unanswered: u32,
    /// Counts the renewal streams of the store; this is the number of the last one opened here.
    last_renewal: u64,
}

/// What is known about the endpoints of one cluster.
#[derive(Debug)]
pub(super) struct Endpoints {
    all: Vec<Endpoint>,
    favourite: usize,
    renewals_opened: u64,
}

impl Endpoints {
    /// `count` endpoints of which nothing is known; the first of them is tried first.
    pub(super) fn new(count: usize) -> Self {
        Self { all: vec![Endpoint::default(); count], favourite: 0, renewals_opened: 0 }
    }

    /// How soon an endpoint comes in the order of preference: those in good standing first, from the favourite on; then those
    /// that are avoided, in the order in which their penalties end.
    fn rank(&self, index: usize, now: Moment) -> (Moment, usize) {
        let until = self.all[index].avoided_until;
        let penalty = if until > now { until } else { Moment::default() };
        (penalty, (index + self.all.len() - self.favourite) % self.all.len())
    }

    /// The best endpoint that is not in `tried`. One that is avoided is better than none.
    pub(super) fn best(&self, now: Moment, tried: Set) -> Option<usize> {
        (0..self.all.len()).filter(|index| !tried.contains(*index)).min_by_key(|index| self.rank(*index, now))
    }

    /// The endpoint for a stream of renewals, and whether it has been silent: then a new stream needs a new connection.
    /// `hedge` streams were opened for the same renewal before.
    ///
    /// A hedge goes where no renewal waits for its acknowledgement, to the endpoint where a stream was opened longest ago: in any case
    /// to another one than that whose silence made the caller hedge, as long as there is another.
    pub(super) fn for_renewals(&mut self, hedge: u32, now: Moment) -> (usize, bool) {
        let index = if hedge == 0 {
            self.best(now, Set::default()).unwrap_or_default()
        } else {
            let suitability = |index: &usize| {
                let endpoint = &self.all[*index];
                let silent = endpoint.unanswered != 0;
                let avoided = !silent && endpoint.avoided_until > now;
                (silent, avoided, endpoint.last_renewal, self.rank(*index, now))
            };
            (0..self.all.len()).min_by_key(suitability).unwrap_or_default()
        };
        self.renewals_opened += 1;
        self.all[index].last_renewal = self.renewals_opened;
        (index, hedge != 0 && self.all[index].unanswered != 0)
    }

    /// A renewal was sent on a stream of this endpoint.
    pub(super) fn renewal_sent(&mut self, index: usize) {
        self.all[index].unanswered += 1;
    }

    /// So many renewals were acknowledged, or their stream ended.
    pub(super) fn renewals_settled(&mut self, index: usize, count: u32) {
        self.all[index].unanswered = self.all[index].unanswered.saturating_sub(count);
    }

    /// The endpoint answered. It becomes the favourite if the present one has failed since it last answered.
    pub(super) fn answered(&mut self, index: usize) {
        let endpoint = &mut self.all[index];
        endpoint.failures = 0;
        endpoint.avoided_until = Moment::default();
        if self.all[self.favourite].failures > 0 {
            self.favourite = index;
        }
    }

    /// The endpoint failed or kept silent. What failed at the same time as something before it is one failure.
    pub(super) fn failed(&mut self, index: usize, now: Moment) {
        let endpoint = &mut self.all[index];
        if endpoint.avoided_until <= now {
            let penalty = FIRST_PENALTY.saturating_mul(1 << endpoint.failures.min(16));
            endpoint.failures = endpoint.failures.saturating_add(1);
            endpoint.avoided_until = now + penalty.min(LONGEST_PENALTY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(1) + SECOND * seconds as u32
    }

    fn order(endpoints: &Endpoints, now: Moment) -> Vec<usize> {
        let mut tried = Set::default();
        let mut order = Vec::new();
        while let Some(index) = endpoints.best(now, tried) {
            tried.insert(index);
            order.push(index);
        }
        assert_eq!(tried.len(), order.len());
        order
    }

    #[test]
    fn in_the_order_given_until_one_fails() {
        let mut endpoints = Endpoints::new(3);
        assert_eq!(order(&endpoints, at(0)), [0, 1, 2]);
        endpoints.answered(1);
        assert_eq!(order(&endpoints, at(0)), [0, 1, 2], "the favourite has not failed");
        endpoints.failed(0, at(1));
        assert_eq!(order(&endpoints, at(1)), [1, 2, 0]);
    }

    #[test]
    fn the_one_that_answers_after_a_failure_stays_the_favourite() {
        let mut endpoints = Endpoints::new(3);
        endpoints.failed(0, at(1));
        endpoints.answered(1);
        assert_eq!(order(&endpoints, at(100)), [1, 2, 0], "the penalty of 0 is long over");
        endpoints.answered(0);
        assert_eq!(order(&endpoints, at(100)), [1, 2, 0]);
    }

    #[test]
    fn a_penalty_ends_grows_and_is_bounded() {
        let mut endpoints = Endpoints::new(2);
        endpoints.failed(0, at(0));
        endpoints.failed(0, at(0));
        assert_eq!(order(&endpoints, at(0)), [1, 0]);
        assert_eq!(order(&endpoints, at(1)), [0, 1], "fifty calls that fail together are one failure");
        endpoints.failed(0, at(1));
        assert_eq!(order(&endpoints, at(2)), [1, 0]);
        assert_eq!(order(&endpoints, at(3)), [0, 1], "two seconds the second time");
        let mut now = at(3);
        for _ in 0..40 {
            endpoints.failed(0, now);
            now = now + LONGEST_PENALTY;
            assert_eq!(order(&endpoints, now), [0, 1]);
        }
        endpoints.failed(0, now);
        assert_eq!(order(&endpoints, now + (LONGEST_PENALTY - SECOND)), [1, 0]);
        endpoints.answered(0);
        endpoints.failed(0, now);
        assert_eq!(order(&endpoints, now + SECOND), [0, 1], "an answer forgives everything");
    }

    #[test]
    fn if_all_failed_the_one_whose_penalty_ends_first_is_tried_first() {
        let mut endpoints = Endpoints::new(3);
        endpoints.failed(1, at(0));
        endpoints.failed(2, at(0) + SECOND / 4);
        endpoints.failed(0, at(0) + SECOND / 2);
        assert_eq!(order(&endpoints, at(0) + SECOND / 2), [1, 2, 0]);
    }

    #[test]
    fn every_hedge_goes_to_another_endpoint_for_every_session() {
        let mut endpoints = Endpoints::new(3);
        for _session in 0..2 {
            assert_eq!(endpoints.for_renewals(0, at(0)), (0, false));
            endpoints.renewal_sent(0);
        }
        // Both sessions miss their acknowledgement; neither must be sent back to the silent endpoint.
        for other in [1, 2] {
            assert_eq!(endpoints.for_renewals(1, at(1)), (other, false));
            endpoints.renewal_sent(other);
        }
        endpoints.renewals_settled(2, 1);
        assert_eq!(endpoints.for_renewals(2, at(2)), (2, false), "the only one that answers");
    }

    #[test]
    fn hedges_alternate_between_two_silent_endpoints_on_new_connections() {
        let mut endpoints = Endpoints::new(2);
        let (mut last, _) = endpoints.for_renewals(0, at(0));
        endpoints.renewal_sent(last);
        for hedge in 1..5 {
            let (next, silent) = endpoints.for_renewals(hedge, at(0));
            assert_ne!(next, last);
            assert_eq!(silent, hedge > 1);
            endpoints.renewal_sent(next);
            last = next;
        }
    }

    #[test]
    fn the_only_endpoint_is_hedged_on_a_new_connection_while_it_is_silent() {
        let mut endpoints = Endpoints::new(1);
        endpoints.renewal_sent(0);
        assert_eq!(endpoints.for_renewals(0, at(0)), (0, false), "a first stream is no hedge");
        assert_eq!(endpoints.for_renewals(1, at(0)), (0, true));
        endpoints.renewals_settled(0, 1);
        assert_eq!(endpoints.for_renewals(1, at(0)), (0, false));
    }

    #[test]
    fn a_hedge_leaves_the_first_endpoint_also_when_nothing_was_sent_there_yet() {
        let mut endpoints = Endpoints::new(2);
        assert_eq!(endpoints.for_renewals(0, at(0)), (0, false));
        assert_eq!(endpoints.for_renewals(1, at(0)), (1, false));
    }

    #[test]
    fn a_hedge_avoids_a_dead_endpoint_where_another_is_free() {
        let mut endpoints = Endpoints::new(3);
        endpoints.for_renewals(0, at(0));
        endpoints.renewal_sent(0);
        endpoints.failed(1, at(0));
        assert_eq!(endpoints.for_renewals(1, at(0)), (2, false));
    }
}
