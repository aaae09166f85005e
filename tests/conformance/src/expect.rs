//! Variables in steps, and the comparison of a reply with what a step expects of it.
//!
//! `${x}` alone is the variable as it is; within a longer text it is inserted. An expected value is compared as follows:
//! a plain value must be equal, a list must be as long and match one by one, and an object is either a set of
//! comparisons (`{gt: 5}`, `{le: "${t}"}`, `{ne: x}`, `{contains: text}`, `{any_of: [a, b]}`, `{present: false}`) or a set of
//! fields that must match while others are free.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value};

/// The variables of a play.
pub type Vars = BTreeMap<String, Value>;

/// `value` with every variable in it replaced.
pub fn substitute(value: &Value, vars: &Vars) -> Result<Value> {
    Ok(match value {
        Value::String(text) => substitute_text(text, vars)?,
        Value::Array(items) => Value::Array(items.iter().map(|item| substitute(item, vars)).collect::<Result<_>>()?),
        Value::Object(fields) => {
            let replaced = fields.iter().map(|(name, field)| Ok((name.clone(), substitute(field, vars)?)));
            Value::Object(replaced.collect::<Result<Map<_, _>>>()?)
        }
        other => other.clone(),
    })
}

fn substitute_text(text: &str, vars: &Vars) -> Result<Value> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let end = rest[start..].find('}').with_context(|| format!("{text:?} has a ${{ without its }}"))? + start;
        let name = &rest[start + 2..end];
        let value = vars.get(name).with_context(|| format!("{text:?} uses ${{{name}}}, which nobody has set"))?;
        if start == 0 && end + 1 == text.len() {
            return Ok(value.clone());
        }
        out.push_str(&rest[..start]);
        match value {
            Value::String(value) => out.push_str(value),
            value => out.push_str(&value.to_string()),
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    Ok(Value::String(out))
}

/// What differs between `expected` and `actual`, or nothing.
pub fn difference(expected: &Value, actual: Option<&Value>) -> Result<Option<String>> {
    let nothing = Value::Null;
    let found = actual.unwrap_or(&nothing);
    Ok(match expected {
        Value::Object(comparisons) if comparisons.keys().any(|name| is_comparison(name)) => {
            for (name, operand) in comparisons {
                if !holds(name, operand, actual)? {
                    return Ok(Some(format!("{found} is not {name} {operand}")));
                }
            }
            None
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                if let Some(difference) = difference(field, found.get(name))? {
                    return Ok(Some(format!("{name}: {difference}")));
                }
            }
            None
        }
        Value::Array(items) => {
            let Value::Array(found) = found else { return Ok(Some(format!("{found} is not a list"))) };
            if items.len() != found.len() {
                return Ok(Some(format!(
                    "{} items instead of {}: {}",
                    found.len(),
                    items.len(),
                    Value::from(found.clone())
                )));
            }
            for (index, (item, found)) in items.iter().zip(found).enumerate() {
                if let Some(difference) = difference(item, Some(found))? {
                    return Ok(Some(format!("item {index}: {difference}")));
                }
            }
            None
        }
        plain if plain == found => None,
        plain => Some(format!("{found} instead of {plain}")),
    })
}

fn is_comparison(name: &str) -> bool {
    matches!(name, "gt" | "ge" | "lt" | "le" | "ne" | "contains" | "lacks" | "any_of" | "present")
}

fn holds(name: &str, operand: &Value, actual: Option<&Value>) -> Result<bool> {
    let actual_number = || actual.and_then(Value::as_f64);
    let numbers = || operand.as_f64().with_context(|| format!("{name} needs a number, not {operand}"));
    let operand_text = || operand.as_str().with_context(|| format!("{name} needs a text, not {operand}"));
    Ok(match name {
        "gt" => numbers().map(|limit| actual_number().is_some_and(|number| number > limit))?,
        "ge" => numbers().map(|limit| actual_number().is_some_and(|number| number >= limit))?,
        "lt" => numbers().map(|limit| actual_number().is_some_and(|number| number < limit))?,
        "le" => numbers().map(|limit| actual_number().is_some_and(|number| number <= limit))?,
        "ne" => actual.is_some_and(|actual| actual != operand),
        "contains" => {
            operand_text().map(|part| actual.and_then(Value::as_str).is_some_and(|whole| whole.contains(part)))?
        }
        "lacks" => {
            operand_text().map(|part| actual.and_then(Value::as_str).is_some_and(|whole| !whole.contains(part)))?
        }
        "any_of" => {
            let choices = operand.as_array().with_context(|| format!("any_of needs a list, not {operand}"))?;
            choices.contains(actual.unwrap_or(&Value::Null))
        }
        "present" => operand.as_bool() == Some(actual.is_some_and(|actual| !actual.is_null())),
        other => bail!("{other} is not a comparison and cannot stand beside one"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn differs(expected: Value, actual: Value) -> bool {
        difference(&expected, Some(&actual)).unwrap().is_some()
    }

    #[test]
    fn variables_keep_their_type_alone_and_become_text_within_text() {
        let vars = Vars::from([("i".to_owned(), json!(3)), ("k".to_owned(), json!("/l"))]);
        let step = json!({"lock": "${k}/x${i}", "token": "${i}", "list": ["${k}"], "n": 1});
        assert_eq!(substitute(&step, &vars).unwrap(), json!({"lock": "/l/x3", "token": 3, "list": ["/l"], "n": 1}));
        assert!(substitute(&json!("${nobody}"), &vars).is_err());
        assert!(substitute(&json!("${i"), &vars).is_err());
    }

    #[test]
    fn plain_values_lists_and_fields() {
        assert!(!differs(json!({"a": 1}), json!({"a": 1, "b": 2})));
        assert!(differs(json!({"a": 1}), json!({"a": 2})));
        assert!(differs(json!({"a": 1}), json!({})));
        assert!(!differs(json!([{"k": 1}, {}]), json!([{"k": 1, "x": 0}, {"y": 1}])));
        assert!(differs(json!([{"k": 1}]), json!([{"k": 1}, {"k": 2}])));
        assert!(differs(json!([1]), json!("1")));
    }

    #[test]
    fn comparisons() {
        for (expected, good, bad) in [
            (json!({"gt": 5}), json!(6), json!(5)),
            (json!({"ge": 5, "lt": 7}), json!(5), json!(7)),
            (json!({"le": 5}), json!(5), json!("5")),
            (json!({"ne": "a"}), json!("b"), json!("a")),
            (json!({"contains": "b"}), json!("abc"), json!("ac")),
            (json!({"lacks": "b"}), json!("ac"), json!("abc")),
            (json!({"any_of": ["a", "b"]}), json!("b"), json!("c")),
            (json!({"any_of": ["a", null]}), json!(null), json!("c")),
            (json!({"present": true}), json!(0), json!(null)),
            (json!({"present": false}), json!(null), json!(0)),
        ] {
            assert!(!differs(expected.clone(), good), "{expected}");
            assert!(differs(expected.clone(), bad), "{expected}");
        }
        // What is not there counts as null.
        assert!(difference(&json!({"any_of": ["a", null]}), None).unwrap().is_none());
        assert!(difference(&json!({"any_of": ["a", "b"]}), None).unwrap().is_some());
        assert!(difference(&json!({"gt": "five"}), Some(&json!(6))).is_err());
        assert!(difference(&json!({"gt": 5, "field": 1}), Some(&json!(6))).is_err());
    }
}
