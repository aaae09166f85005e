//! Which versions of etcd are known to break a promise that the lock stands on.

/// Whether a server of this version may acknowledge the renewal of a lease that was revoked. Unreadable versions are not accused.
pub(super) fn may_renew_a_revoked_lease(version: &str) -> bool {
    // A pre-release such as 3.6.5-rc.0 counts as the release.
    let release = version.split(['-', '+']).next().unwrap_or_default();
    let mut numbers = release.split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) = (numbers.next(), numbers.next(), numbers.next()) else {
        return false;
    };
    (major, minor, patch) < (3, 5, 23) || ((3, 6, 0)..(3, 6, 5)).contains(&(major, minor, patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repaired_releases_and_all_later_ones_are_safe() {
        for (unsafe_one, safe_one) in
            [("3.5.22", "3.5.23"), ("3.6.4", "3.6.5"), ("3.4.44", "3.5.35"), ("3.6.0", "3.7.0")]
        {
            assert!(may_renew_a_revoked_lease(unsafe_one), "{unsafe_one}");
            assert!(!may_renew_a_revoked_lease(safe_one), "{safe_one}");
        }
        assert!(may_renew_a_revoked_lease("3.6.0-rc.1"));
        assert!(!may_renew_a_revoked_lease("3.6.10-rc.0"));
        for unreadable in ["", "3.5", "etcd", "3.x.1"] {
            assert!(!may_renew_a_revoked_lease(unreadable), "{unreadable:?}");
        }
    }
}
