//! Which etcd: the series that a test asks for, and the release that it got.

use std::{fmt, str::FromStr};

use crate::Error;

/// The series of etcd that a test asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// Whatever is there first: for tests that do not depend on the version, and for demos.
    Any,
    /// 3.4, from Debian's package only; end of life.
    V3_4,
    /// 3.5, built from its Go module.
    V3_5,
    /// 3.6, built from its Go module.
    V3_6,
    /// 3.7, built from its Go module.
    V3_7,
}

impl Version {
    /// Every series, oldest first; [`Version::Any`] is none.
    pub const ALL: [Self; 4] = [Self::V3_4, Self::V3_5, Self::V3_6, Self::V3_7];

    /// Whether `release` is of this series.
    pub fn includes(self, release: Release) -> bool {
        match self {
            Self::Any => true,
            Self::V3_4 => (release.major, release.minor) == (3, 4),
            Self::V3_5 => (release.major, release.minor) == (3, 5),
            Self::V3_6 => (release.major, release.minor) == (3, 6),
            Self::V3_7 => (release.major, release.minor) == (3, 7),
        }
    }

    /// `3.7`, or `any`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::V3_4 => "3.4",
            Self::V3_5 => "3.5",
            Self::V3_6 => "3.6",
            Self::V3_7 => "3.7",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let all = || Self::ALL.into_iter().chain([Self::Any]);
        all().find(|version| version.name() == text).ok_or_else(|| {
            let names: Vec<_> = all().map(Self::name).collect();
            Error::Usage(format!("there is no etcd version {text:?} here; choose one of {}", names.join(", ")))
        })
    }
}

/// An exact release, for example 3.7.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Release {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl Release {
    /// The release with these three numbers, to compare with.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Reads `3.7.3`; whatever follows a `-` or `+` is ignored.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let core = text.trim().trim_start_matches('v').split(['-', '+']).next()?;
        let mut numbers = core.split('.').map(|part| part.parse().ok());
        let release = Self::new(numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(release)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_and_compared_by_number() {
        assert_eq!(Release::parse("v3.7.3"), Some(Release::new(3, 7, 3)));
        assert_eq!(Release::parse("3.8.0-rc.0"), Some(Release::new(3, 8, 0)));
        assert_eq!(Release::parse("3.7"), None);
        assert_eq!(Release::parse("3.7.x"), None);
        assert!(Release::new(3, 5, 9) < Release::new(3, 5, 28));
    }

    #[test]
    fn a_series_is_named_and_includes_its_releases_alone() {
        assert_eq!("3.6".parse::<Version>().expect("known"), Version::V3_6);
        assert!("3.9".parse::<Version>().is_err());
        assert!(Version::V3_6.includes(Release::new(3, 6, 16)) && !Version::V3_6.includes(Release::new(3, 7, 0)));
        assert!(Version::Any.includes(Release::new(4, 0, 0)));
    }
}
