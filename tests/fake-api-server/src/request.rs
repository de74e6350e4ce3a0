//! What is asked: a path, a method, parameters and a body.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kind::ServedKind;
use crate::reply::Reply;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// Such as `GET`.
    pub method: String,
    /// Without the parameters.
    pub path: String,
    /// The parameters, encoded as in a form.
    pub query: String,
    /// The media type of the body; what a patch means depends on it.
    pub content_type: String,
    /// The body; null where there is none.
    pub body: Value,
}

/// What a path leads to.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) kind: &'a ServedKind,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) is_status: bool,
}

impl<'a> Place<'a> {
    /// Reads a path; an error where nothing is served at it.
    pub(crate) fn of(path: &str, kinds: &'a [ServedKind]) -> Result<Self, Reply> {
        let place = Self::parse(path, kinds).ok_or_else(Reply::no_such_path)?;
        match &place.name {
            Some(name) if place.is_status && !place.kind.has_status() => Err(Reply::not_found(place.kind, name)),
            _ => Ok(place),
        }
    }

    fn parse(path: &str, kinds: &'a [ServedKind]) -> Option<Self> {
        let mut segments = path.trim_matches('/').split('/');
        let (group, version) = match segments.next()? {
            "api" => ("", segments.next()?),
            "apis" => (segments.next()?, segments.next()?),
            _ => return None,
        };
        let rest: Vec<&str> = segments.collect();
        let of = |plural: &str, namespaced: bool| {
            let is_it = |kind: &&ServedKind| {
                kind.group == group && kind.version == version && kind.plural == plural && kind.namespaced == namespaced
            };
            kinds.iter().find(is_it)
        };
        let text = |text: &&str| Some((*text).to_owned());
        let place = |kind, namespace, name, is_status| Some(Self { kind, namespace, name, is_status });
        match rest.as_slice() {
            ["namespaces", namespace, plural, below @ ..] if of(plural, true).is_some() => {
                let kind = of(plural, true)?;
                match below {
                    [] => place(kind, text(namespace), None, false),
                    [name] => place(kind, text(namespace), text(name), false),
                    [name, "status"] if kind.is_custom() => place(kind, text(namespace), text(name), true),
                    _ => None,
                }
            }
            [plural] => place(of(plural, false).or_else(|| of(plural, true))?, None, None, false),
            [plural, name] => place(of(plural, false)?, None, text(name), false),
            [plural, name, "status"] if of(plural, false)?.is_custom() => {
                place(of(plural, false)?, None, text(name), true)
            }
            _ => None,
        }
    }
}

/// The parameters of a request.
#[derive(Clone, Debug)]
pub(crate) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    pub(crate) fn of(query: &str) -> Self {
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(name), decoded(value))
        };
        Self(query.split('&').filter(|part| !part.is_empty()).map(pair).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1"))
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.get("dryRun") == Some("All")
    }

    /// In whose name fields are written.
    pub(crate) fn manager(&self) -> &str {
        self.get("fieldManager").unwrap_or("unknown")
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let value = hex(rest.next()).zip(hex(rest.next())).map_or(0, |(high, low)| high * 16 + low);
                bytes.push(u8::try_from(value).unwrap_or_default());
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
