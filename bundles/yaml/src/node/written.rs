//! How a scalar was written.

use std::ops::Deref;

/// A text that few nodes have, and so takes no more room in the others than it must.
#[derive(Debug, Clone)]
pub(crate) struct Written(Box<Box<str>>);

impl Deref for Written {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Written {
    fn from(text: &str) -> Self {
        Self(Box::new(text.into()))
    }
}

impl From<String> for Written {
    fn from(text: String) -> Self {
        Self(Box::new(text.into()))
    }
}
