//! Reading a request's fields, and what a request is refused with.

use std::time::Duration;

use leasehold::{Error, LocalFirst};
use serde_json::{Map, Number, Value};

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

/// The request is of the right form, but no value of Rust's can say it to leasehold.
pub fn invalid(message: impl Into<String>) -> Refusal {
    Refusal { code: leasehold::Code::InvalidArgument.name(), message: message.into() }
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

    /// A whole number, if it is there; 5000.0 and 5e3 are as whole as 5000.
    fn whole_if_any(&self, name: &str) -> Result<Option<i128>, Refusal> {
        let whole = |number: &Number| {
            let exact = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
            exact.or(number.as_f64().filter(|float| float.fract() == 0.0).map(|float| float as i128))
        };
        let Some(value) = self.field(name) else { return Ok(None) };
        let number = value.as_number().and_then(whole);
        number.map(Some).ok_or_else(|| malformed(format!("the field {name:?} must be a whole number")))
    }

    /// A span in milliseconds, if it is there.
    pub fn millis_if_any(&self, name: &str) -> Result<Option<Duration>, Refusal> {
        let Some(number) = self.whole_if_any(name)? else { return Ok(None) };
        // No `Duration` can hold one below 0, and what no language's 64 bits can hold stops here.
        let refused = |_| invalid(format!("{name} (TTL or timeout) cannot be {number} ms"));
        let millis = i64::try_from(number).and_then(u64::try_from).map_err(refused)?;
        Ok(Some(Duration::from_millis(millis)))
    }

    /// A span in milliseconds.
    pub fn millis(&self, name: &str) -> Result<Duration, Refusal> {
        Self::required(name, self.millis_if_any(name)?)
    }

    /// A whole number.
    pub fn integer(&self, name: &str) -> Result<i64, Refusal> {
        let number = Self::required(name, self.whole_if_any(name)?)?;
        i64::try_from(number).map_err(|_| invalid(format!("{name} cannot be {number}")))
    }

    /// A list of texts, if it is there.
    pub fn texts_if_any(&self, name: &str) -> Result<Option<Vec<String>>, Refusal> {
        let Some(value) = self.field(name) else { return Ok(None) };
        let text = |item: &Value| item.as_str().map(str::to_owned);
        let texts = value.as_array().and_then(|items| items.iter().map(text).collect());
        texts.map(Some).ok_or_else(|| malformed(format!("the field {name:?} must be a list of texts")))
    }

    /// A list of texts.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, Refusal> {
        Self::required(name, self.texts_if_any(name)?)
    }

    /// Texts by their names, if they are there.
    pub fn pairs_if_any(&self, name: &str) -> Result<Option<Vec<(String, String)>>, Refusal> {
        let Some(value) = self.field(name) else { return Ok(None) };
        let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        let pairs = value.as_object().and_then(|fields| fields.iter().map(pair).collect());
        pairs.map(Some).ok_or_else(|| malformed(format!("the field {name:?} must be an object of texts")))
    }

    /// A list of objects, if it is there.
    pub fn objects_if_any(&self, name: &str) -> Result<Option<Vec<Self>>, Refusal> {
        let Some(value) = self.field(name) else { return Ok(None) };
        let objects =
            value.as_array().and_then(|items| items.iter().map(|item| item.as_object().cloned().map(Self)).collect());
        objects.map(Some).ok_or_else(|| malformed(format!("the field {name:?} must be a list of objects")))
    }

    /// A number of permits, if it is there.
    pub fn permits_if_any(&self, name: &str) -> Result<Option<u32>, Refusal> {
        let Some(number) = self.whole_if_any(name)? else { return Ok(None) };
        u32::try_from(number).map(Some).map_err(|_| invalid(format!("{name} cannot be {number}")))
    }

    /// How far a lock is passed on inside the process, if it is.
    pub fn local_first(&self) -> Result<Option<LocalFirst>, Refusal> {
        let bound = LocalFirst::default();
        let fields = match self.field("local_first") {
            None | Some(Value::Bool(false)) => return Ok(None),
            Some(Value::Bool(true)) => return Ok(Some(bound)),
            Some(Value::Object(fields)) => Self(fields.clone()),
            Some(_) => return Err(malformed("the field \"local_first\" must be true, false or an object")),
        };
        let turns = match fields.whole_if_any("turns")? {
            Some(turns) => u32::try_from(turns).map_err(|_| invalid(format!("turns cannot be {turns}")))?,
            None => bound.turns,
        };
        Ok(Some(LocalFirst { turns, time: fields.millis_if_any("ms")?.unwrap_or(bound.time) }))
    }

    /// The request whose answer is no longer wanted.
    pub fn target(&self) -> Result<&Value, Refusal> {
        Self::required("target", self.field("target"))
    }
}
