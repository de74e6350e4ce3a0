//! SHA-256 of a file's content: what tells which version of it is there.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// `sha256:` and 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of bytes that are in memory.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Of what `content` still gives.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of_content(content: &mut dyn Read) -> io::Result<Self> {
        let mut counted = Counted::new(content);
        io::copy(&mut counted, &mut io::sink())?;
        Ok(counted.digest())
    }

    /// The digits alone, as a file's name.
    #[must_use]
    pub fn hexadecimal(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sha256:{}", self.hexadecimal())
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        let mut bytes = [0; 32];
        let is_whole = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        for (index, byte) in bytes.iter_mut().enumerate() {
            let pair = digits.get(2 * index..2 * index + 2).unwrap_or_default();
            *byte = u8::from_str_radix(pair, 16).unwrap_or_default();
        }
        if is_whole { Ok(Self(bytes)) } else { Err(format!("{text:?} is not a SHA-256 of 64 hexadecimal digits")) }
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// Passes content on, and knows its digest at the end.
pub(crate) struct Counted<'a> {
    content: &'a mut dyn Read,
    state: Sha256,
}

impl<'a> Counted<'a> {
    pub(crate) fn new(content: &'a mut dyn Read) -> Self {
        Self { content, state: Sha256::new() }
    }

    pub(crate) fn digest(self) -> Digest {
        Digest(self.state.finalize().into())
    }
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.content.read(buffer)?;
        self.state.update(buffer.get(..length).unwrap_or_default());
        Ok(length)
    }
}
