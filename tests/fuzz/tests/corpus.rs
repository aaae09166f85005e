//! Plays the corpus, and what comes of it by small changes: the same changes in every run, so that what fails once fails again.

use std::{fs, path::Path};

use leasehold_fuzz::WAYS;

/// How many changed inputs each way in gets.
const CHANGED: u32 = 4_000;
/// Seldom more than a few hundred bytes matter.
const LONGEST: usize = 4_096;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// A byte or a bit changed, a part left out, doubled, or taken from another input.
fn change(random: &mut fastrand::Rng, input: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(0..=input.len());
        let end = random.usize(at..=input.len());
        match random.u8(0..6) {
            0 => input.insert(at, random.u8(..)),
            1 => drop(input.drain(at..end)),
            2 if at < input.len() => input[at] ^= 1 << random.u8(0..8),
            3 if at < input.len() => input[at] = *random.choice(&[0, 1, 0x7f, 0x80, 0xff, b'/', b'-', b'\n']).unwrap(),
            4 => {
                let part = input[at..end].to_vec();
                input.splice(at..at, part);
            }
            _ => {
                let from = random.usize(0..=other.len());
                let part = other[from..random.usize(from..=other.len())].to_vec();
                input.splice(at..end, part);
            }
        }
        input.truncate(LONGEST);
    }
}

/// Seen to fail with a parser of keys that takes leading zeros, and with a reply whose answers are not counted.
#[test]
fn whatever_comes_in_does_no_harm() {
    for (name, way) in WAYS {
        let inputs = corpus(name);
        assert!(!inputs.is_empty(), "{name} has a corpus");
        let mut random = fastrand::Rng::with_seed(7);
        inputs.iter().for_each(|input| way(input));
        for _ in 0..CHANGED {
            let mut input = random.choice(&inputs).unwrap().clone();
            let other = random.choice(&inputs).unwrap().clone();
            change(&mut random, &mut input, &other);
            println!("{name} {input:?}"); // shown if it fails
            way(&input);
        }
    }
}
