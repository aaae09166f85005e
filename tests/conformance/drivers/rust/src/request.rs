//! Reading a request's fields, and what a request is refused with.

use std::time::Duration;

use leasehold::Error;
use serde_json::{Map, Value};

/// Why a request failed: a stable code, and a message for people.
pub struct Refusal {
    /// The code: one of leasehold's, or one of the protocol's own two.
    pub code: &'static str,
    /// What was wrong and what to do.
    pub message: String,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { code: error.code().name(), message: error.message().to_owned() }
    }
}

/// The request is not of the protocol's form.
pub fn malformed(message: impl Into<String>) -> Refusal {
    Refusal { code: "BAD_REQUEST", message: message.into() }
}

/// The request is of the right form, but asks for something that this driver does not know.
pub fn unsupported(message: impl Into<String>) -> Refusal {
    Refusal { code: "UNSUPPORTED", message: message.into() }
}

/// A request, to be read field by field. A field that is null counts as left out.
pub struct Request(pub Map<String, Value>);

impl Request {
    fn field(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn required<T>(name: &str, value: Option<T>) -> Result<T, Refusal> {
        value.ok_or_else(|| malformed(format!("the field {name:?} is missing")))
    }

    /// A text, if it is there.
    pub fn text_if_any(&self, name: &str) -> Result<Option<&str>, Refusal> {
        match self.field(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(malformed(format!("the field {name:?} must be a text"))),
        }
    }

    /// A text.
    pub fn text(&self, name: &str) -> Result<&str, Refusal> {
        Self::required(name, self.text_if_any(name)?)
    }

    /// Yes or no, if it is there.
    pub fn flag_if_any(&self, name: &str) -> Result<Option<bool>, Refusal> {
        match self.field(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(malformed(format!("the field {name:?} must be true or false"))),
        }
    }

    /// A span in milliseconds, if it is there.
    pub fn millis_if_any(&self, name: &str) -> Result<Option<Duration>, Refusal> {
        match self.field(name) {
            None => Ok(None),
            Some(Value::Number(number)) => match number.as_u64() {
                Some(millis) => Ok(Some(Duration::from_millis(millis))),
                // Well-formed, but no `Duration` can hold it: here the type is what refuses it.
                None => Err(Refusal {
                    code: leasehold::Code::InvalidArgument.name(),
                    message: format!("{name} must be a whole number of milliseconds from 0 up, not {number}"),
                }),
            },
            Some(_) => Err(malformed(format!("the field {name:?} must be a number of milliseconds"))),
        }
    }

    /// A span in milliseconds.
    pub fn millis(&self, name: &str) -> Result<Duration, Refusal> {
        Self::required(name, self.millis_if_any(name)?)
    }

    /// A whole number.
    pub fn integer(&self, name: &str) -> Result<i64, Refusal> {
        let value = Self::required(name, self.field(name))?;
        value.as_i64().ok_or_else(|| malformed(format!("the field {name:?} must be a whole number")))
    }

    /// A list of texts.
    pub fn texts(&self, name: &str) -> Result<Vec<&str>, Refusal> {
        let items = Self::required(name, self.field(name))?.as_array();
        let texts = items.and_then(|items| items.iter().map(Value::as_str).collect());
        texts.ok_or_else(|| malformed(format!("the field {name:?} must be a list of texts")))
    }

    /// The request whose answer is no longer wanted.
    pub fn target(&self) -> Result<&Value, Refusal> {
        Self::required("target", self.field("target"))
    }
}
