//! `sbom/<language>.cdx.json`: what the native library of each language is made of, for scanners, in the format of CycloneDX. From
//! the same crates as the notices, with the checksums of the lock file. Nothing in it changes unless they do: no time, no number
//! by chance. Whoever packs a library puts its file into the package.

use std::{collections::HashMap, fs, io};

use serde_json::json;

use crate::{
    notices::{Crate, LIBRARIES},
    root,
};

/// By language, as `LIBRARIES` has them.
const FILES: [(&str, &str); 4] = [
    ("C", "sbom/c.cdx.json"),
    ("Java", "sbom/java.cdx.json"),
    ("Node", "sbom/node.cdx.json"),
    ("Python", "sbom/python.cdx.json"),
];

/// Each file with its text.
pub(crate) fn texts(crates: &[Crate]) -> io::Result<Vec<(&'static str, String)>> {
    let checksums = checksums(&fs::read_to_string(root().join("Cargo.lock"))?)?;
    FILES.iter().map(|(language, file)| Ok((*file, text(language, crates, &checksums)?))).collect()
}

fn text(language: &str, crates: &[Crate], checksums: &HashMap<(String, String), String>) -> io::Result<String> {
    let package = LIBRARIES.iter().find(|(name, ..)| *name == language).map_or(language, |(_, package, _)| package);
    let version = env!("CARGO_PKG_VERSION");
    let ours = format!("pkg:cargo/{package}@{version}");
    let mut components = Vec::new();
    for each in crates.iter().filter(|each| each.languages.contains(language)) {
        let known = (each.name.clone(), each.version.clone());
        let checksum = checksums.get(&known).ok_or_else(|| wrong(&format!("no checksum of {}", each.name)))?;
        let purl = format!("pkg:cargo/{}@{}", each.name, each.version);
        components.push(json!({
            "type": "library",
            "bom-ref": purl,
            "name": each.name,
            "version": each.version,
            "hashes": [{ "alg": "SHA-256", "content": checksum }],
            "licenses": [{ "expression": each.expression.replace('/', " OR ") }],
            "purl": purl,
        }));
    }
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": {
            "type": "library",
            "bom-ref": ours,
            "name": package,
            "version": version,
            "licenses": [{ "expression": "Apache-2.0" }],
            "purl": ours,
        } },
    });
    // One component a line, so that a change of one is a change of a line.
    let lines: Vec<String> = components.iter().map(|component| format!("    {component}")).collect();
    let list = format!(",\n  \"components\": [\n{}\n  ]\n}}\n", lines.join(",\n"));
    let mut text = serde_json::to_string_pretty(&document)?;
    text.truncate(text.trim_end_matches('}').trim_end().len());
    Ok(text + &list)
}

/// What the lock file says of each crate that comes from a registry.
fn checksums(lock: &str) -> io::Result<HashMap<(String, String), String>> {
    let lock: toml::Table = lock.parse().map_err(|error| wrong(&format!("Cargo.lock: {error}")))?;
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let field = |package: &toml::Value, name: &str| package.get(name)?.as_str().map(str::to_owned);
    Ok(packages
        .filter_map(|package| {
            Some(((field(package, "name")?, field(package, "version")?), field(package, "checksum")?))
        })
        .collect())
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("sbom: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_has_a_bill_that_names_its_crates_and_no_others() {
        let crates = crate::notices::crates().unwrap();
        for (language, (_, text)) in LIBRARIES.iter().map(|it| it.0).zip(texts(&crates).unwrap()) {
            let document: serde_json::Value = serde_json::from_str(&text).unwrap();
            let components = document["components"].as_array().unwrap();
            let names: Vec<&str> = components.iter().filter_map(|it| it["name"].as_str()).collect();
            assert!(["tokio", "etcd-client", "ring"].iter().all(|name| names.contains(name)), "{language}: {names:?}");
            assert_eq!(names.contains(&"pyo3"), language == "Python", "{language}");
            assert_eq!(names.contains(&"napi"), language == "Node", "{language}");
            assert_eq!(names.contains(&"jni"), language == "Java", "{language}");
            assert!(components.iter().all(|it| it["hashes"][0]["content"].as_str().is_some_and(|it| it.len() == 64)));
            // Neither `MIT/Apache-2.0`, which is no expression, nor nothing.
            for expression in components.iter().filter_map(|it| it["licenses"][0]["expression"].as_str()) {
                assert!(spdx::Expression::parse(expression).is_ok(), "{expression}");
            }
        }
    }

    #[test]
    fn a_crate_without_a_checksum_is_an_error() {
        assert!(checksums("[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n").unwrap().is_empty());
        let crates = crate::notices::crates().unwrap();
        let error = text("C", &crates, &HashMap::new()).unwrap_err().to_string();
        assert!(error.starts_with("sbom: no checksum of "), "{error}");
    }
}
