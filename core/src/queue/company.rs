//! Company: whether anybody but one place of ours stands in the queue, for whoever wants to keep that place as long as nobody does.
//!
//! Only a watch on the whole queue tells. Until it has, and whenever it breaks, nobody knows.

use super::{Effect, Queue};
use crate::terms::PlaceId;

/// Who stands in a queue beside one place of ours. Places of ours that have left do not count, others of ours do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Company {
    /// Nobody knows.
    #[default]
    Unknown,
    /// Nobody.
    Nobody,
    /// Somebody.
    Others,
}

impl Queue {
    /// What company this place has, as far as is known.
    pub fn company(&self, id: PlaceId) -> Company {
        let Some((key, revision)) = self.standing_key(id) else { return Company::Unknown };
        if !self.view.is_complete() {
            Company::Unknown
        } else if self.view.watches_all(&self.prefix) {
            let has_others = self.view.line().has_others(&(revision, key.clone()));
            if has_others { Company::Others } else { Company::Nobody }
        } else if self.watching.is_crowd() {
            // Of those behind nobody is watched: there were many at the last look, and most of them are still there.
            Company::Others
        } else {
            Company::Unknown
        }
    }

    pub(super) fn follow(&mut self, id: PlaceId, is_wanted: bool) {
        let is_standing = self.standing_key(id).is_some();
        self.followed = (is_wanted && is_standing).then_some((id, Company::Unknown));
    }

    /// How many want to know the order: those that wait, and whoever follows.
    pub(super) fn watchers(&self) -> usize {
        self.waiting.len() + usize::from(self.followed.is_some())
    }

    pub(super) fn tell_company(&mut self, out: &mut Vec<Effect>) {
        let Some((id, told)) = self.followed else { return };
        let company = self.company(id);
        if company != told {
            self.followed = Some((id, company));
            out.push(Effect::Company(id, company));
        }
    }
}
